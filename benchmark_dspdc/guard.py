"""Runs for the regression check: measured anew each time, and once more where time was long."""

import os

from .report.regress import CannotCompare
from .report.results import PROBLEM, read_results
from .running import STOPPED, TERMINATED, Terminated, benchopt_run
from .targets import benchmark_folder


class Guarded:
    """Some configs, and what they were seen to run.

    Parameters
    ----------
    configs : list of path
    folder : path or None
        With the benchmark whose plug-ins and package are run, by default this one.
    options : dict or None
        For a config further options of `benchopt run`.
    """

    def __init__(self, configs, folder=None, options=None):
        self.configs, self.folder, self.options = configs, folder, options or {}
        # What a config names can be written in many ways; its result file says what it was.
        self.problems = {config: set() for config in configs}

    def runs(self, count, first_seed=False):
        """Run all so many times; returns for each time the result files.

        With `first_seed` the first repetition of each curve alone, two curves at a time: for
        work, not times.
        """
        for config in self.configs:
            if not config.is_file():
                raise ValueError(f"no such file: {config}")
        few = ["--n-repetitions", "1", "-j", "2"] if first_seed else []
        found = [
            [_run(config, "regress", [*self.options.get(config, ()), *few], self.folder)
             for config in self.configs]
            for _ in range(count)
        ]
        for config, file in zip(self.configs, found[0], strict=True):
            self.problems[config] |= set(read_results([file]).groupby(PROBLEM).groups)
        return found

    def again(self, lines):
        """Run the problems of some lines once more; returns lists of result files."""
        found = []
        for config in self.configs:
            own = [line.key[0] for line in lines if line.key[:2] in self.problems[config]]
            # All methods of a problem, as times are also compared with those of the others.
            chosen = [word for name in dict.fromkeys(own) for word in ("-d", name)]
            if chosen:
                options = [*self.options.get(config, ()), *chosen]
                found.append([_run(config, "regress_again", options, self.folder)])
        return found


def _run(config, name, options, folder):
    # What is in benchopt's cache was measured at another time.
    arguments = ["--config", str(config.resolve()), "--no-cache", "--no-plot", *options]
    sources = None
    if folder is not None:
        # Python looks there before it does where this package is installed.
        given = os.environ.get("PYTHONPATH")
        sources = {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [given])])}
    done = benchopt_run(folder or benchmark_folder(), arguments, name, variables=sources)
    if done.code in STOPPED:
        raise Terminated if done.code == TERMINATED else KeyboardInterrupt
    if done.code or done.file is None:
        # What a run that was killed has left is a part of it.
        raise CannotCompare(f"the run of {config} ended with code {done.code}, "
                            f"{'without' if done.file is None else 'with'} a result file")
    if done.failed:
        raise CannotCompare(f"in the run of {config} failed: {'; '.join(done.failed)}")
    return done.file
