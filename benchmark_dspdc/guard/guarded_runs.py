"""Runs for the regression check: measured anew each time, and once more where time was long."""

import os

from ..bench.benchopt_process import STOPPED, TERMINATED, Terminated, benchopt_run
from ..bench.named_problems import benchmark_folder
from ..report.results import PROBLEM, read_results
from .regress import CannotCompare


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

    def again(self, keys):
        """Run the problems of some keys, see `lines.Line`, once more; lists of result files.

        With all their methods, as times are also compared with those of the others.
        """
        found = []
        for config in self.configs:
            data = self._by_data(config, keys)
            if data:
                found.append(self._once_more(config, [("-d", name) for name in data]))
        return found

    def alone(self, keys):
        """The same with the methods of the keys alone."""
        return [
            self._once_more(config, [("-d", data), *(("-s", name) for name in solvers)])
            for config in self.configs for data, solvers in self._by_data(config, keys).items()
        ]

    def _by_data(self, config, keys):
        """For each data set of a config that some keys have, the solvers of theirs."""
        found = {}
        for key in keys:
            if key[:2] in self.problems[config]:
                found.setdefault(key[0], {})[key[2]] = None
        return found

    def _once_more(self, config, chosen):
        words = [word for pair in chosen for word in pair]
        options = [*self.options.get(config, ()), *words]
        return [_run(config, "regress_again", options, self.folder)]


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
