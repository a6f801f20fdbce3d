"""`benchopt run` in a process of its own, which can be stopped without losing what it measured.

benchopt writes its result file at the end and keeps every finished curve in its cache. When a
run is stopped, by Ctrl-C or because its time is over, what the cache has is written.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .report.results import newest_of

#: How long a process may take to end after it was asked to.
GRACE = 20.0

#: Exit code of a command that was stopped by Ctrl-C.
INTERRUPTED = 130


class Run(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    file : Path or None
        The result file, None if no curve was finished.
    code : int
        benchopt's exit code, `INTERRUPTED` after Ctrl-C.
    late : bool
        Whether it was stopped because its time was over.
    """

    file: Path | None
    code: int
    late: bool = False


def benchopt_run(folder, arguments, name, seconds=None):
    """Run benchopt; returns a `Run`.

    Parameters
    ----------
    folder : Path
        With the benchmark.
    arguments : list of str
        Of `benchopt run`, without the folder and --output.
    name : str
        Of the result file under outputs/, which takes the place of an older one.
    seconds : float or None
        When to stop it.
    """
    outputs = Path(folder) / "outputs"
    # benchopt takes another name if there is a file already.
    for old in _files(outputs, name):
        old.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "benchopt", "run", str(folder), *arguments, "--output", name,
        "--no-display",
    ]
    code, late = _stoppable(command, folder, seconds)
    if (late or code == INTERRUPTED) and not _files(outputs, name):
        # A second Ctrl-C ends this as well.
        _stoppable([*command, "--collect", "--no-plot"], folder, None)
    return Run(newest_of(_files(outputs, name)), code, late)


def _files(outputs, name):
    return [*outputs.glob(f"{name}.parquet"), *outputs.glob(f"{name}_[0-9]*.parquet")]


def _stoppable(command, folder, seconds):
    """Run a command; returns its exit code and whether it had to be stopped as too late."""
    # In a group of its own: Ctrl-C reaches it through this process, once.
    process = subprocess.Popen(
        command, cwd=folder, process_group=0, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    try:
        return process.wait(None if seconds is None else max(seconds, 0.0)), False
    except subprocess.TimeoutExpired:
        _stop(process)
        return process.returncode, True
    except KeyboardInterrupt:
        _stop(process)
        return INTERRUPTED, False
    finally:
        if process.poll() is None:
            process.kill()


def _stop(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
