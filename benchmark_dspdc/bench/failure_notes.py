"""`benchopt run` that notes which curves fail: ``python -P failure_notes.py FD run ...``.

benchopt ends with 0 when a solver raises, and its result file has no word of a solver that raises
everywhere. All of a run's outcomes pass through one method of the object that prints them.

It is run by its path and imports nothing of this package: the benchmark that it runs may be of
another commit, with a package of its own.
"""

import os
import sys
from contextlib import suppress

from benchopt import runner
from benchopt.cli import benchopt
from benchopt.utils.terminal_output import TerminalOutput

#: Outcomes that leave no curve. Curves that the user has stopped did not fail.
FAILURES = ("error", "diverged")


class Noting(TerminalOutput):
    """Prints as benchopt does, and writes the names of what failed to a file."""

    notes = None  # number of the open file

    def __reduce__(self):
        # Workers get benchopt's own: they have neither this file nor the open one.
        return object.__new__, (TerminalOutput,), self.__dict__

    def show_status(self, status, *args, **kwargs):
        if status in FAILURES:
            line = f"{self.solver} on {self.dataset}, {self.objective}\n"
            with suppress(OSError):  # a full disk should not end a run
                os.write(self.notes, line.encode())
        super().show_status(status, *args, **kwargs)


if __name__ == "__main__":
    Noting.notes = int(sys.argv[1])
    runner.TerminalOutput = Noting
    benchopt(args=sys.argv[2:], prog_name="benchopt")
