"""`benchopt run` in a process of its own, which can be stopped without losing what it measured.

benchopt writes its result file at the end and keeps every finished curve in its cache. When a
run is stopped, by Ctrl-C, by SIGTERM or because its time is over, what the cache has is written.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pyarrow.parquet

from .places import fallback_home, is_writable

#: The environment variable that says at which relative gap curves end.
TOLERANCE = "BENCHMARK_DSPDC_TOL"

#: How long a process may take to end after it was asked to.
GRACE = 20.0

#: Exit codes of a command that was stopped by Ctrl-C, and by SIGTERM.
INTERRUPTED, TERMINATED = STOPPED = (130, 143)

PR_SET_PDEATHSIG = 1
try:
    _prctl = ctypes.CDLL(None).prctl
except (AttributeError, OSError):
    # Linux has it.
    _prctl = None


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it stops a run as Ctrl-C does."""


class Run(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    file : Path or None
        The result file, None if no curve was finished.
    code : int
        benchopt's exit code, or one of `STOPPED`.
    late : bool
        Whether it was stopped because its time was over.
    """

    file: Path | None
    code: int
    late: bool = False


def benchopt_run(folder, arguments, name, seconds=None, variables=None):
    """Run benchopt; returns a `Run`.

    Parameters
    ----------
    folder : Path
        With the benchmark.
    arguments : list of str
        Of `benchopt run`, without the folder and --output.
    name : str
        How the result file's name begins; the time and the process make it unique, so that
        two runs at once do not meet.
    seconds : float or None
        When to stop it.
    variables : dict or None
        Of its environment, beside those of this process.
    """
    folder, environment = Path(folder), {"PYTHONUNBUFFERED": "1"} | (variables or {})
    stem = f"{name}_{datetime.now():%Y-%m-%d_%Hh%Mm%S}_{os.getpid()}"
    outputs, output = folder / "outputs", [stem]
    if not is_writable(outputs):
        outputs = fallback_home() / "outputs"
        _tell(f"{folder / 'outputs'} cannot be written; results go to {outputs}")
        # benchopt's page would go to where nothing can be written.
        output = [str(outputs / f"{stem}.parquet"), "--no-plot"]
    if "BENCHOPT_CACHE" not in os.environ and not is_writable(folder / "__cache__"):
        environment["BENCHOPT_CACHE"] = str(fallback_home() / "benchopt")
        _tell(f"{folder / '__cache__'} cannot be written; finished curves are kept in "
              f"{environment['BENCHOPT_CACHE']}")
    command = [
        sys.executable, "-m", "benchopt", "run", str(folder), *arguments, "--no-display",
        "--output", *output,
    ]
    with _sigterm_stops():
        code, late = _stoppable(command, folder, environment, seconds)
        stopped = late or code in STOPPED
        if stopped and _result(outputs, stem) is None:
            # A second Ctrl-C ends this as well.
            _stoppable([*command, "--collect", "--no-plot"], folder, environment, None)
    file = _result(outputs, stem)
    if file is None and not stopped:
        _tell("no result file was written. Curves that were finished are in benchopt's cache; "
              "the same command goes on from there")
    return Run(file, code, late)


def _result(outputs, stem):
    """The result file of a run, None if there is none that can be read."""
    for file in outputs.glob(f"{stem}*.parquet"):
        try:
            pyarrow.parquet.read_metadata(file)
            return file
        except (OSError, pyarrow.ArrowException):
            # Where the disk is full benchopt leaves half a file.
            _tell(f"{file.name} was not written to its end and is removed")
            file.unlink(missing_ok=True)
    return None


def _tell(sentence):
    print(f"benchmark_dspdc: {sentence}", file=sys.stderr, flush=True)


def _stoppable(command, folder, environment, seconds):
    """Run a command; returns its exit code and whether it had to be stopped as too late."""
    # In a group of its own: Ctrl-C reaches it through this process, once.
    process = subprocess.Popen(
        command, cwd=folder, process_group=0, env=os.environ | environment,
        preexec_fn=_before_it_begins,
    )
    try:
        return process.wait(None if seconds is None else max(seconds, 0.0)), False
    except subprocess.TimeoutExpired:
        _stop(process)
        return process.returncode, True
    except KeyboardInterrupt as stop:
        _stop(process)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED, False
    finally:
        if process.poll() is None:
            _kill(process)


def _before_it_begins():
    # A process in the background inherits that they are ignored, and could not be stopped well.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What cannot be stopped any more, as this process was killed, would run on unseen.
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process):
    """End a process with those that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _sigterm_stops():
    """Have SIGTERM raise `Terminated`; only the main thread of a process can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise Terminated
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
