"""`benchopt run` that notes which curves fail: ``python -P failure_notes.py FD run ...``.

benchopt ends with 0 when a solver raises, and its result file has no word of a solver that raises
everywhere. All of a run's outcomes pass through one method of the object that prints them. The
same object tells how far the whole run is: benchopt itself shows the progress of one curve.

It is run by its path and imports nothing of this package: the benchmark that it runs may be of
another commit, with a package of its own.
"""

import os
import sys
import time
from contextlib import suppress

from benchopt import runner
from benchopt.benchmark import _list_parametrized_classes
from benchopt.cli import benchopt
from benchopt.utils.terminal_output import TerminalOutput, print_normalize

#: Outcomes that leave no curve. Curves that the user has stopped did not fail.
FAILURES = ("error", "diverged")

#: Seconds that a curve of `make run` takes in the mean, certificates and compiling included
#: (105 curves, 2 cores, November 2026).
TYPICAL = 1.3

#: Why curves of a round are skipped, as the plug-ins say it, and the variable of such rounds.
LEFT_OUT, LIMITS = "not in this round", "BENCHMARK_DSPDC_LIMITS"

WIDTH = 24


class Noting(TerminalOutput):
    """Prints as benchopt does, and writes the names of what failed to a file."""

    notes = None  # number of the open file
    curves, done, begun = 0, 0, 0.0

    def __reduce__(self):
        # Workers get benchopt's own, which is quiet: they have neither this file nor the open one.
        return object.__new__, (TerminalOutput,), self.__dict__ | {"show_progress": False}

    def __copy__(self, memo=None):
        # What benchopt copies for a curve of this process goes on counting here.
        return self

    __deepcopy__ = __copy__

    def show_status(self, status, reason=None, dataset=False, objective=False, **kwargs):
        if reason == LEFT_OUT:
            # Hundreds of lines, and no news.
            Noting.done += 1
            return
        if status in FAILURES:
            line = f"{self.solver} on {self.dataset}, {self.objective}\n"
            with suppress(OSError):  # a full disk should not end a run
                os.write(self.notes, line.encode())
        Noting.done += 1
        super().show_status(status, reason, dataset=dataset, objective=objective, **kwargs)

    def progress(self, progress, key):
        """How much of the run is done, in place of how much of a curve; on a terminal alone."""
        if self.show_progress and self.verbose and sys.stdout.isatty():
            print_normalize(overall(self.done, self.curves, self.begun, key[2]), endline=False)


def overall(done, curves, begun, name):
    """A bar with the time that is left, if the curves to come take as long as those so far."""
    share = min(done / max(curves, 1), 1.0)
    full = round(WIDTH * share)
    left = ""
    if done:
        seconds = (time.monotonic() - begun) / done * max(curves - done, 0)
        left = f", {int(seconds // 60)}:{int(seconds % 60):02} left"
    bar = f"[{'#' * full}{'-' * (WIDTH - full)}] {done} of {curves} curves{left}"
    return f"{bar}  {name[:max(0, 78 - len(bar))]}"


def counted(run):
    """`runner._run_benchmark` that first says how much it will do."""
    def wrapped(benchmark, solvers=None, forced_solvers=None, datasets=None, objectives=None,
                n_repetitions=1, timeout=None, collect=False, **options):
        given = dict(solvers=solvers, datasets=datasets, objectives=objectives)
        problems, methods = (
            sum(1 for _ in _list_parametrized_classes(*given[name], check_installed=False))
            for name in ("datasets", "solvers")
        )
        problems *= sum(1 for _ in _list_parametrized_classes(*objectives, check_installed=False))
        Noting.curves, Noting.begun = problems * methods * (n_repetitions or 1), time.monotonic()
        if not collect and LIMITS not in os.environ:
            typical = Noting.curves * TYPICAL
            each = f", {timeout:g} s at most for each" if timeout else ""
            print(f"{Noting.curves} curves: methods {methods}, problems {problems}, runs of each "
                  f"{n_repetitions or 1}{each}; small problems like those of `make run` take "
                  f"about {_minutes(typical)}", flush=True)
        return run(benchmark, forced_solvers=forced_solvers, n_repetitions=n_repetitions,
                   timeout=timeout, collect=collect, **given, **options)
    return wrapped


def _minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    Noting.notes = int(sys.argv[1])
    runner.TerminalOutput = Noting
    runner._run_benchmark = counted(runner._run_benchmark)
    benchopt(args=sys.argv[2:], prog_name="benchopt")
