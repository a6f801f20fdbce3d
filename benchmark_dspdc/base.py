"""The benchmark as of another commit, measured on this machine.

Times mean nothing on another kind of machine, where a baseline would guard work alone. So the
sources that the baseline was made of are run here, and their times are the baseline's.
"""

import hashlib
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from .guard import Guarded
from .places import cache_home
from .report.baseline import CannotCompare, read_baseline, write_baseline
from .report.regress import conditions, make_baseline
from .report.results import read_results
from .running import COMMIT
from .targets import benchmark_folder

#: Times of a commit are those of so many runs, and are measured anew after so many seconds: on
#: another day the same machine may have other neighbours.
RUNS, KEPT_SECONDS = 3, 86400


class Base:
    """The commit that times are compared with.

    Parameters
    ----------
    configs : list of path
        What is run. A config of the benchmark's folder is run as of the commit, which may lack
        newer methods, or not at all if it is newer itself.
    baseline : path
    revision : str or None
        A commit, a branch or a tag; None for the commit that has last changed the baseline:
        then its figures were those of the sources beside it.
    """

    def __init__(self, configs, baseline, revision=None):
        self.configs, self.baseline, self.revision = configs, Path(baseline), revision
        self.folder = benchmark_folder()

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
        file = str(self.baseline.resolve())
        why = f"git knows no commit of {self.baseline}"
        if self._git("rev-parse", "--is-shallow-repository", why=why) == "true":
            # There the oldest commit at hand would seem to have changed every file.
            raise CannotCompare("the clone is shallow, without the commit of the baseline")
        if self._git("status", "--porcelain", "--", file, why=why):
            raise CannotCompare(f"{self.baseline} is not committed as it is")
        found = self._git("log", "-1", "--format=%H", "--", file, why=why)
        if not found:
            raise CannotCompare(why)
        return found

    def times(self, last, here):
        """A baseline of the commit's runs on this machine, None if it has none of the configs.

        Parameters
        ----------
        last : dict
            For methods the gaps that curves must reach again, see `effort.last_gaps`.
        here : dict
            What times depend on, see `regress.conditions`.
        """
        commit = self.commit()
        kept = self._kept(commit, here, last)
        with suppress(CannotCompare, OSError):
            if 0.0 <= time.time() - kept.stat().st_mtime < KEPT_SECONDS:
                return read_baseline(kept)
        with self._checked_out(commit) as folder:
            configs = [self._as_of(folder, config) for config in self.configs]
            runs = Guarded([config for config in configs if config.is_file()], folder)
            if not runs.configs:
                return None
            frames = [
                read_results(files).assign(**{COMMIT: commit[:12]}) for files in runs.runs(RUNS)
            ]
        made = make_baseline(frames, last=last)
        if conditions(frames[-1]) == here:
            with suppress(OSError):
                write_baseline(made, kept)
        return made

    def _kept(self, *known):
        texts = [config.read_bytes() for config in self.configs]
        digest = hashlib.sha256(repr((known, texts)).encode()).hexdigest()[:16]
        return cache_home() / "times" / f"{digest}.json"

    def _as_of(self, folder, config):
        """Where a config is, or would be, among the files of the commit."""
        with suppress(ValueError):
            return folder / config.resolve().relative_to(self.folder.resolve())
        return config

    @contextmanager
    def _checked_out(self, commit):
        """A folder with the benchmark's files as of a commit, as long as it is needed."""
        with tempfile.TemporaryDirectory(prefix="benchmark_dspdc-base-") as folder:
            command = ["git", "-C", str(self.folder), "archive", "--format=tar", commit]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
                try:
                    with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
                        files.extractall(folder, filter="data")
                except tarfile.TarError as error:
                    raise CannotCompare(f"git gave no files of {commit[:12]}: {error}") from None
            if not (Path(folder) / "benchmark_dspdc" / "noted.py").is_file():
                raise CannotCompare(
                    f"commit {commit[:12]} is too old to be run by this version's command"
                )
            yield Path(folder)

    def _git(self, *arguments, why):
        """What git answers; `CannotCompare` with the reason if it does not."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.folder), *arguments], capture_output=True, text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", None) or "").strip().partition("\n")[0]
            raise CannotCompare(f"{why}{said and f' ({said})'}") from None
        return done.stdout.strip()
