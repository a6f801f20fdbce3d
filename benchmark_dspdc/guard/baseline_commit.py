"""The benchmark as of another commit, measured on this machine.

Times mean nothing on another kind of machine, where a baseline would guard work alone. So the
sources that the baseline was made of are run here, and their times are the baseline's.
"""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from ..bench.benchopt_process import COMMIT, TOLERANCE
from ..bench.named_problems import benchmark_folder
from ..engine.cache_dirs import cache_home
from ..engine.threads import VARIABLE as THREADS
from ..report.results import read_results
from .baseline import CannotCompare, key_of, read_baseline, write_baseline
from .compared_lines import SLOWDOWN, name_of
from .guarded_runs import Guarded
from .regress import conditions, make_baseline, tolerance_of

#: Times of a commit are those of so many runs, and are measured anew after so many seconds: on
#: another day the same machine may have other neighbours.
RUNS, KEPT_SECONDS = 3, 86400

#: Keys of a config that decide how long curves are; both commits are run with today's.
LENGTHS = ("max-runs", "n-repetitions", "timeout")


class Base:
    """The commit that times are compared with.

    Parameters
    ----------
    configs : list of path
        What is run. A config of the benchmark's folder is run as of the commit, which may lack
        newer methods, or not at all if it is newer itself; one from elsewhere as it is.
    baseline : path
    revision : str or None
        A commit, a branch or a tag; None for the commit that has last changed the figures of the
        baseline: they were those of the sources beside it.
    """

    def __init__(self, configs, baseline, revision=None):
        self.configs, self.baseline, self.revision = configs, Path(baseline).resolve(), revision
        self.folder = benchmark_folder().resolve()

    @property
    def is_given(self):
        return self.revision is not None

    def commit(self):
        """Its hash."""
        if self.is_given:
            # What begins like an option would be taken for one.
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options",
                             f"{self.revision}^{{commit}}",
                             why=f"there is no commit {self.revision!r} in {self.folder}")
        why = f"git knows no commit of {self.baseline.name}"
        if self._git("rev-parse", "--is-shallow-repository", why=why) == "true":
            # There the oldest commit at hand would seem to have changed every file.
            raise CannotCompare("the clone is shallow, without the commit of the baseline")
        if self._git("status", "--porcelain", "--", str(self.baseline), why=why):
            raise CannotCompare(f"{self.baseline.name} is not committed as it is")
        found, figures = None, read_baseline(self.baseline)["figures"]
        # Newest first. Other commits may have moved the file, or have laid it out anew.
        for commit, name in self._history(why):
            if self._figures(commit, name) != figures:
                break
            found = commit
        if found is None:
            raise CannotCompare(why)
        return found

    def times(self, known, here, tell):
        """A baseline of the commit's runs on this machine, None if it has none of the configs.

        Parameters
        ----------
        known : dict
            The baseline whose place the times take.
        here : dict
            What times depend on, see `regress.conditions`.
        tell : callable
            Called with sentences on what is being done.
        """
        commit = self.commit()
        with self._checked_out(commit) as folder:
            found = self._configs_of(folder)
            kept = self._kept(commit, here, known, found)
            with suppress(CannotCompare, OSError):
                if 0.0 <= time.time() - kept.stat().st_mtime < KEPT_SECONDS:
                    made = read_baseline(kept)
                    tell(f"times are compared with those of commit {commit[:12]}, measured on "
                         f"this machine today ({kept})")
                    return made
            there = {own: _lengths(config) for config, own in found.items() if own.is_file()}
            if not there:
                return None
            tell(f"times are compared with those of commit {commit[:12]}, which is run {RUNS} "
                 "times on this machine")
            try:
                frames = [
                    read_results(files).assign(**{COMMIT: commit[:12]})
                    for files in Guarded(list(there), folder, there).runs(RUNS)
                ]
            except CannotCompare as error:
                raise CannotCompare(f"at commit {commit[:12]}: {error}") from None
        made = make_baseline(frames, last={key_of(row): row["last"] for row in known["figures"]})
        self._check_complete(commit, known, made)
        if conditions(frames[-1]) == here and _is_quiet(made):
            with suppress(OSError):
                _forget(kept.parent)
                write_baseline(made, kept)
        return made

    @contextmanager
    def turns(self, now):
        """Some methods run as of the commit and as they are, by turns.

        Parameters
        ----------
        now : Guarded
            What is compared with the commit.

        Yields
        ------
        commit : str
        turn : callable
            Called with keys, see `lines.Line`; returns the results of the commit and of now, each
            a list of frames.
        """
        commit = self.commit()
        with self._checked_out(commit) as folder:
            own = {config: path for config, path in self._configs_of(folder).items()
                   if path.is_file()}
            lengths = {path: _lengths(config) for config, path in own.items()}
            then = Guarded(list(own.values()), folder, lengths)
            then.problems = {path: now.problems[config] for config, path in own.items()}
            order = [then, now]

            def turn(keys):
                # Read here, as the commit's files are gone with its folder.
                found = {side: list(map(read_results, side.alone(keys))) for side in order}
                # A machine may become slower and slower.
                order.reverse()
                return found[then], found[now]
            yield commit, turn

    def _check_complete(self, commit, known, made):
        """Raise if a method has no times though the commit has it: it failed, and is not new."""
        then = self._figures(commit, self._in_repository(self.baseline)) or known["figures"]
        then, measured = set(map(key_of, then)), set(map(key_of, made["figures"]))
        missing = [
            key for key in map(key_of, known["figures"]) if key in then and key not in measured
        ]
        if missing:
            raise CannotCompare(
                f"commit {commit[:12]} has {len(missing)} methods that gave no curve when it was "
                f"run, as they could not be loaded or are not in its config: "
                f"{'; '.join(map(name_of, missing[:5]))}"
            )

    def _kept(self, commit, here, known, found):
        """The file with the times of a commit under the conditions of now."""
        configs = [
            (str(config), _lengths(config), own.read_bytes() if own.is_file() else None)
            for config, own in found.items()
        ]
        installed = sorted(
            f"{one.name} {one.version}" for one in importlib.metadata.distributions()
        )
        state = (
            commit, here, [row["last"] for row in known["figures"]], configs, installed,
            [os.environ.get(name) for name in (TOLERANCE, THREADS)], platform.python_version(),
            platform.node(),
        )
        digest = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
        return cache_home() / "times" / f"{digest}.json"

    def _configs_of(self, folder):
        return {config: self._as_of(folder, config) for config in self.configs}

    def _as_of(self, folder, config):
        """Where a config is, or would be, among the files of the commit."""
        with suppress(ValueError):
            return folder / config.resolve().relative_to(self.folder)
        return config

    @contextmanager
    def _checked_out(self, commit):
        """A folder with the benchmark's files as of a commit, as long as it is needed."""
        with tempfile.TemporaryDirectory(prefix="benchmark_dspdc-base-") as folder:
            command = ["git", "-C", str(self.folder), "archive", "--format=tar", commit]
            whole = False
            with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
                with suppress(tarfile.TarError), tarfile.open(
                    fileobj=archive.stdout, mode="r|"
                ) as files:
                    files.extractall(folder, filter="data")
                    whole = True
            # What was cut between two files looks like a whole.
            if not whole or archive.returncode != 0:
                raise CannotCompare(f"git gave no files, or not all, of commit {commit[:12]}")
            if not (Path(folder) / "benchmark_dspdc" / "bench" / "failure_notes.py").is_file():
                raise CannotCompare(
                    f"commit {commit[:12]} is too old to be run by this version's command"
                )
            yield Path(folder)

    # git ------------------------------------------------------------------------------

    def _git(self, *arguments, why):
        """What git answers; `CannotCompare` with the reason if it does not."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.folder), "-c", "core.quotePath=off", *arguments],
                capture_output=True, text=True, check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", None) or "").strip().partition("\n")[0]
            raise CannotCompare(f"{why}{said and f' ({said})'}") from None
        return done.stdout.strip()

    def _history(self, why):
        """The commits that have changed the baseline, newest first, and its name in each."""
        shown = self._git("log", "--follow", "--name-only", "--format=%x00%H", "--",
                          str(self.baseline), why=why)
        for entry in shown.split("\0")[1:]:
            commit, *names = filter(None, entry.split("\n"))
            # A merge may have changed nothing itself.
            if len(names) == 1:
                yield commit, names[0]

    def _in_repository(self, file):
        """A file's name as git has it."""
        top = self._git("rev-parse", "--show-toplevel", why=f"{self.folder} is no checkout")
        return os.path.relpath(file, Path(top).resolve())

    def _figures(self, commit, name):
        """The figures of the baseline as of a commit, None if there is none that can be read."""
        with suppress(CannotCompare), tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "baseline.json"
            file.write_text(self._git("show", f"{commit}:{name}", why="no such file"))
            return read_baseline(file)["figures"]
        return None


def _lengths(config):
    """The options of `benchopt run` for what a config says of the length of its curves."""
    found = yaml.safe_load(config.read_text())
    known = found if isinstance(found, dict) else {}
    return [word for key in LENGTHS if key in known for word in (f"--{key}", str(known[key]))]


def _is_quiet(made):
    """Whether times vary so little that a slowdown would be seen in most of them."""
    least = [min(map(tolerance_of, row["times"].values()), default=0.0) for row in made["figures"]]
    return sum(tolerance >= SLOWDOWN for tolerance in least) <= len(least) / 2


def _forget(folder):
    """Remove times that are too old to be taken."""
    for file in folder.glob("*.json"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                file.unlink()
