"""Which method to use on a problem: the ranking of `auto`, and short runs of its first ones."""

from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..data.arrays import DATA, read_parts
from ..data.labels import binary_rule, guess_task
from ..data.libsvm import read_file
from ..engine.checks import as_array, check_number
from ..methods import Auto
from ..model.losses import CLASSIFICATION
from ..solver import solve
from ..theory.block_sizes import ACCURACY
from .named_problems import load_targets, pose_own

#: Of targets that are no classes, where no objective is named.
OTHERWISE = "ERM[loss=square]"

#: Columns of a terminal that are filled at most.
WIDTH = 80


class OwnData:
    """A user's files: what a data set hands out, and what became of the labels."""

    def __init__(self, files):
        self.name = " ".join(map(str, files))
        if len(files) > 1 or files[0].suffix in (".npy", ".npz"):
            self.A, b = read_parts(files, DATA)
        else:
            self.A, b = read_file(files[0])
        self.b = as_array(b, "b", 1)
        self.rule = None

    def __call__(self, loss):
        """The data for a loss; two classes are -1 and +1 for any, as for data sets."""
        self.rule = None
        classes = loss in CLASSIFICATION or len(np.unique(self.b)) == 2
        if not classes or guess_task(self.b) == "regression":
            return dict(A=self.A, b=self.b, task="regression")
        self.rule = binary_rule(self.b, self.name)
        return dict(A=self.A, b=self.rule.apply(self.b), task="classification")


def run(target, b=None, objective=None, seconds=2.0, console=None):
    """Print the ranking for the problems of files or of a data set.

    The first of it and those that `auto` would let race are run for so many seconds each at most;
    for none if that is 0. An objective is as for `load_targets`; None is the first loss that the
    data are for.
    """
    console = console or Console(width=min(WIDTH, Console().width), highlight=False)
    check_number(seconds, "--seconds", 0.0)
    files, own = [Path(file) for file in (target, b) if file is not None], None
    if b is not None or files[0].is_file() or _looks_like_a_file(target):
        own = OwnData(files)

    def posed(objective):
        if own is not None:
            return list(pose_own(own.name, own, objective))
        try:
            return list(load_targets(target, objective))
        except ValueError as error:
            raise ValueError(f"there is no file {target}; as a data set: {error}") from None

    found = posed(objective)
    if objective is None and all(each.problem is None for each in found):
        found = posed(OTHERWISE)
    if all(each.problem is None for each in found):
        reasons = "; ".join(f"{each.objective}: {each.reason}" for each in found)
        raise ValueError(f"{target} is not for {reasons}; name another loss with -o")
    for each in found:
        if each.problem is not None:
            _show(console, each, own and own.rule, seconds)


def _looks_like_a_file(target):
    """Whether it has a folder or an ending before any options, as no data set has."""
    name = Path(target.partition("[")[0])
    return len(name.parts) > 1 or name.suffix not in ("", ".yml", ".yaml")


def _show(console, target, rule, seconds):
    """Print the ranking of a problem, and what to use."""
    problem = target.problem
    n, p = problem.shape
    console.print(f"{escape(target.dataset)}\n{escape(target.objective)}", style="bold")
    console.print(f"{problem.operator.kind}, n = {n}, p = {p}" + (f"; {rule}" if rule else ""),
                  markup=False)
    ranked, tried = Auto.ranked(problem), {}
    for each in Auto.contenders(problem) if seconds > 0.0 else ():
        tried[each.method] = solve(
            problem, each.method, tol=ACCURACY, max_seconds=seconds, **each.options
        )
        if tried[each.method].status == "interrupted":
            raise KeyboardInterrupt
    console.print(_table(ranked, tried, seconds))
    for line in _advice(ranked, tried):
        console.print(line, markup=False)
    console.print()


def _table(ranked, tried, seconds):
    table = Table(title=f"seconds to a relative gap of {ACCURACY:g}", title_justify="left",
                  title_style="", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    table.add_column("options", overflow="fold")
    for name in ("predicted", "at worst", *(["measured"] if tried else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for each in ranked:
        cells = [each.method, escape(_options(each)), _short(each.seconds),
                 _short(each.at_worst)]
        if each.method in tried:
            cells.append(_measured(tried[each.method], seconds))
        table.add_row(*cells)
    return table


def _options(prediction):
    return ", ".join(f"{name}={value}" for name, value in prediction.options.items())


def _short(seconds):
    return f"{seconds:.0f}" if 100.0 <= seconds < 1e5 else f"{seconds:.2g}"


def _took(result):
    return result.history["seconds"].iloc[-1]


def _measured(result, seconds):
    """The time of a run, or why there is none."""
    if result.status == "converged":
        return _short(_took(result))
    said = f"> {seconds:g}" if result.status == "max_seconds" else result.status
    return f"{said}, gap {result.relative_gap:.1e}"


def _advice(ranked, tried):
    """What to do, in plain words."""
    done = [each for each in ranked if each.method in tried]
    if not done:
        best, why = ranked[0], f"it is predicted to take {_short(ranked[0].seconds)} s"
    else:
        best = min(done, key=lambda each: _order(tried[each.method]))
        result = tried[best.method]
        why = f"it took {_short(_took(result))} s here"
        if result.status != "converged":
            why = f"none that was tried got to {ACCURACY:g}, and its gap is the least"
    given = "".join(f", {name}={value!r}" for name, value in best.options.items())
    remedies = {result.info["remedy"]: 0 for result in tried.values() if "remedy" in result.info}
    yield from (f"First, {remedy}." for remedy in remedies)
    yield f"Use {best.method}: {why}."
    yield f"In Python, solve(problem, {best.method!r}{given})."
    if best is ranked[0]:
        yield "solve(problem) does this by itself, and corrects it by a race in long runs."
    else:
        yield (f"solve(problem) begins with {ranked[0].method}; in long runs it changes over by "
               "itself.")


def _order(result):
    """The fastest first; those that did not get there by their gaps."""
    reached = result.status == "converged"
    return not reached, _took(result) if reached else result.relative_gap
