"""Problems by the names that `benchopt run` knows them by; it is imported when it is needed."""

from pathlib import Path
from typing import NamedTuple

import yaml

from ..model.problem import Problem
from .benchopt_process import INSTALLED


class Target(NamedTuple):
    """A problem of the benchmark, its names as in the columns of a result file."""

    dataset: str
    objective: str
    problem: Problem | None
    reason: str | None      # why there is no problem: the data are not for this objective


def benchmark_folder():
    """The folder with the plug-ins: where the package lies, the current one, or the wheel's."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd(), INSTALLED):
        if (folder / "objective.py").exists() and (folder / "datasets").is_dir():
            return folder
    raise ValueError(
        "no benchmark here: objective.py and datasets/ must be in the current folder or beside "
        "the package, as in a clone"
    )


def config_file(path):
    """A config as it is named or, if there is none, as it is named in the benchmark's folder."""
    if not path.exists() and (found := benchmark_folder() / path).is_file():
        return found
    return path


def load_targets(target, objective=None):
    """The problems that a target stands for, one by one.

    That is a config file of `benchopt run`, for every data set and objective of it, or a data set
    such as "Factorized[n=5000,p=100,d=20]". An objective such as "ERM[loss=logistic]" takes the
    place of the config's; without any it has its first parameters.
    """
    datasets, objectives = [target], None
    if target.endswith((".yml", ".yaml")):
        datasets, objectives = _read_config(config_file(Path(target)))
    if objective is not None:
        objectives = [objective]
    datasets, objectives = _listed(datasets, objectives)
    for dataset, ready in datasets:
        if not ready:
            raise ValueError(f"{dataset} cannot be loaded: a package that it needs is missing")
        for found in objectives:
            yield _pose(dataset, found)
        dataset._data = None


def pose_own(name, data, objective=None):
    """The problems of data that are no data set of the benchmark, as `load_targets` gives them.

    `data` is a function of the objective's loss that returns what a data set would.
    """
    for found in _listed(None, None if objective is None else [objective])[1]:
        found = _own(found)
        given = data(found.loss)
        skipped, reason = found.skip(**given)
        if not skipped:
            found.set_data(**given)
        yield Target(name, str(found), None if skipped else found.problem, reason)


def _listed(datasets, objectives):
    """What benchopt finds by patterns: pairs of a data set and whether it is ready, objectives."""
    import click
    from benchopt.benchmark import Benchmark, _list_parametrized_classes

    benchmark = Benchmark(benchmark_folder())
    try:
        if datasets is not None:
            selected = benchmark.check_dataset_patterns(datasets)
            datasets = list(_list_parametrized_classes(*selected))
        filters = benchmark.check_objective_filters(objectives)
        chosen = [
            found for found, _ in _list_parametrized_classes(*filters, check_installed=False)
        ]
    except (ValueError, TypeError, click.ClickException) as error:
        raise ValueError(_one_line(error)) from None
    return datasets, chosen if objectives else chosen[:1]


def _own(objective):
    """An objective of its own for each problem, as benchopt keeps the problem in it."""
    return type(objective).get_instance(**objective._parameters)


def _pose(dataset, objective):
    """The problem of a data set and an objective, made as for a run."""
    objective = _own(objective)
    try:
        skipped, reason = objective._set_dataset(dataset)
    except Exception as error:
        raise ValueError(f"{dataset} cannot be loaded: {_one_line(error)}") from error
    problem = None if skipped else objective.problem
    return Target(str(dataset), str(objective), problem, reason)


def _read_config(file):
    if not file.exists():
        raise ValueError(f"no such file: {file}")
    try:
        config = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not a readable config file: {_one_line(error)}") from None
    if not isinstance(config, dict) or not config.get("dataset"):
        raise ValueError(f"{file} is not a config file of this benchmark: it names no dataset")
    found = [
        value if isinstance(value, list) or value is None else [value]
        for value in (config["dataset"], config.get("objective"))
    ]
    for name in (name for names in found for name in names or ()):
        # benchopt would load and run it.
        if isinstance(name, str) and name.partition("[")[0].strip().endswith(".py"):
            raise ValueError(f"{file} names {name!r}, a file; allowed are names of this benchmark")
    return found


def _one_line(error):
    return " ".join(str(error).split())
