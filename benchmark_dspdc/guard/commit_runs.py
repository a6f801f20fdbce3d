"""Configs run with the files of this checkout, or with those of another commit."""

import functools
import io
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path

import yaml

from ..bench.benchopt_process import INSTALLED, STOPPED, TERMINATED, Terminated, benchopt_run
from ..bench.named_problems import benchmark_folder, config_file
from ..report.results import PROBLEM, read_results
from .comparison import CannotCompare

#: Keys of a config that decide how long curves are; both commits are run with today's.
LENGTHS = ("max-runs", "n-repetitions", "timeout")


#: Runs that have all diverged are a result too: the worst.
_read = functools.partial(read_results, maybe_empty=True)


class CommitNotRun(CannotCompare):
    """There is no other commit, or it cannot be run."""


class ConfigRuns:
    """Some configs, and what they were seen to run.

    They are run with the plug-ins and the package of the benchmark in `folder`, by default this
    one; `options` has for a config further ones of `benchopt run`.
    """

    def __init__(self, configs, folder=None):
        self.configs = [config_file(config) for config in configs]
        self.folder, self.options = folder, {}
        # What a config names can be written in many ways; its result file says what it was.
        self.problems = {config: set() for config in self.configs}

    def runs(self, count, first_seed=False):
        """Run all so many times, everything measured anew; returns a frame for each time.

        With `first_seed` the first repetition of each curve alone, two curves at a time: for
        work, not times.
        """
        for config in self.configs:
            if not config.is_file():
                raise ValueError(f"no such file: {config}")
        few = ["--n-repetitions", "1", "-j", "2"] if first_seed else []
        found = [
            [self._run(config, "regress", few) for config in self.configs] for _ in range(count)
        ]
        for config, file in zip(self.configs, found[0], strict=True):
            self.problems[config] |= set(_read([file]).groupby(PROBLEM).groups)
        return list(map(_read, found))

    def alone(self, keys):
        """Run the methods of some keys once more, without the others; returns a frame.

        Their problems must have been seen by `runs`.
        """
        files = []
        for config in self.configs:
            chosen = {}
            for key in keys:
                if key[:2] in self.problems[config]:
                    chosen.setdefault(key[0], {})[key[2]] = None
            for data, solvers in chosen.items():
                options = ["-d", data, *(word for name in solvers for word in ("-s", name))]
                files.append(self._run(config, "regress_again", options))
        return read_results(files)

    def _run(self, config, name, options):
        # What is in benchopt's cache was measured at another time.
        arguments = ["--config", str(config.resolve()), "--no-cache", "--no-plot"]
        arguments += [*self.options.get(config, ()), *options]
        done = benchopt_run(self.folder or benchmark_folder(), arguments, name)
        if done.code in STOPPED:
            raise Terminated if done.code == TERMINATED else KeyboardInterrupt
        if done.code or done.file is None:
            # What a run that was killed has left is a part of it.
            left = "without" if done.file is None else "with"
            raise CannotCompare(
                f"the run of {config} ended with code {done.code}, {left} a result file"
            )
        if done.failed:
            raise CannotCompare(f"in the run of {config} failed: {'; '.join(done.failed)}")
        return done.file


class OtherCommit:
    """The commit that times are compared with.

    `revision` is a commit, a branch or a tag; None for the commit that has last changed the
    baseline: its figures were those of the sources beside it.
    """

    def __init__(self, baseline, revision=None):
        self.baseline, self.revision = Path(baseline).resolve(), revision
        self.folder = benchmark_folder().resolve()

    def commit(self):
        """Its hash."""
        if self.folder == INSTALLED:
            raise CommitNotRun("times need a clone of the benchmark, which has its commits")
        if self.revision is not None:
            # What begins like an option would be taken for one.
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options",
                             f"{self.revision}^{{commit}}",
                             why=f"there is no commit {self.revision!r} in {self.folder}")
        why, file = f"git knows no commit of {self.baseline.name}", str(self.baseline)
        if self._git("rev-parse", "--is-shallow-repository", why=why) == "true":
            # There the oldest commit that is available would seem to have changed every file.
            raise CommitNotRun("the clone is shallow, without the commit of the baseline")
        if self._git("status", "--porcelain", "--", file, why=why):
            raise CommitNotRun(f"{self.baseline.name} is not committed as it is")
        # Not one that has only moved the file.
        found = self._git(
            "log", "-1", "--follow", "--diff-filter=AM", "--format=%H", "--", file, why=why
        )
        if not found:
            raise CommitNotRun(why)
        return found

    @contextmanager
    def checked_out(self, commit, now):
        """The runs of the commit's files, as long as they are needed: a `ConfigRuns`.

        A config of the benchmark's folder is run as of the commit, which may lack newer methods,
        or not at all if it is newer itself; one from elsewhere as it is. Curves are as long as
        those of `now`, the runs of today's files.
        """
        with tempfile.TemporaryDirectory(prefix="benchmark_dspdc-other-") as folder:
            files = self._git("archive", "--format=tar", commit, text=False,
                              why=f"git gave no files, or not all, of commit {commit[:12]}")
            with tarfile.open(fileobj=io.BytesIO(files)) as archive:
                archive.extractall(folder, filter="data")
            then = ConfigRuns([], Path(folder))
            for config in now.configs:
                path = config.resolve()
                if path.is_relative_to(self.folder):
                    path = Path(folder) / path.relative_to(self.folder)
                if path.is_file():
                    then.configs.append(path)
                    then.options[path] = _lengths(config)
                    then.problems[path] = now.problems[config]
            yield then

    def _git(self, *arguments, why, text=True):
        """What git answers; `CommitNotRun` with the reason if it does not."""
        command = ["git", "-C", str(self.folder), *arguments]
        try:
            said = subprocess.run(command, capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise CommitNotRun(why + (reason and f" ({reason.splitlines()[0]})")) from None
        return said.decode().strip() if text else said


def _lengths(config):
    """The options of `benchopt run` for what a config says of the length of its curves."""
    found = yaml.safe_load(config.read_text())
    known = found if isinstance(found, dict) else {}
    return [word for key in LENGTHS if key in known for word in (f"--{key}", str(known[key]))]
