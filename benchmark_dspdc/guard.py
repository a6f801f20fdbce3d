"""Runs for the regression check: measured anew each time, and once more where time was long."""

import yaml

from .report.regress import CannotCompare
from .report.results import parse
from .running import STOPPED, benchopt_run
from .targets import benchmark_folder


def repeated_runs(configs, count, first_seed=False):
    """Run some configs so many times; returns for each time the result files of all.

    Parameters
    ----------
    configs : list of path
    count : int
    first_seed : bool
        Make the first repetition of each curve alone, two curves at a time: for work, not times.
    """
    few = ["--n-repetitions", "1", "-j", "2"] if first_seed else []
    return [[_run(config, "regress", few) for config in configs] for _ in range(count)]


def measured_again(configs):
    """A function that runs the problems of some lines again; it returns lists of result files."""
    def again(lines):
        found = []
        for config in configs:
            # A config has data sets of its own, unless it names none.
            names = yaml.safe_load(config.read_text()).get("dataset")
            kinds = [parse(str(name))[0] for name in names or ()]
            own = [line for line in lines if not names or parse(line.key[0])[0] in kinds]
            # All methods of a problem, as times are also compared with those of the others.
            chosen = []
            for name in dict.fromkeys(line.key[0] for line in own):
                chosen += ["-d", name]
            if own:
                found.append([_run(config, "regress_again", chosen)])
        return found
    return again


def _run(config, name, options):
    # What is in benchopt's cache was measured at another time.
    done = benchopt_run(
        benchmark_folder(),
        ["--config", str(config.resolve()), "--no-cache", "--no-plot", *options], name,
    )
    if done.code in STOPPED:
        raise KeyboardInterrupt
    if done.file is None:
        raise CannotCompare(f"the run of {config} left no result file")
    return done.file
