"""`benchopt run` in a process of its own, which can be stopped without losing what it measured.

benchopt writes its result file at the end and keeps every finished curve in its cache. When a
run ends early, by a signal or because its time is over, what the cache has is written.
"""

import argparse
import ctypes
import glob
import os
import platform
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pyarrow.parquet
from threadpoolctl import threadpool_info

from ..engine.cache_dirs import fallback_home, is_writable, write_whole
from ..engine.kernel_cache import KERNEL_HASH, KERNEL_SOURCES, source_hash, sources
from ..engine.threads import VARIABLE as THREADS
from .processor import this_processor

#: The environment variable that says at which relative gap curves end.
TOLERANCE = "BENCHMARK_DSPDC_TOL"

#: The one that names a file with limits of curves in seconds of their own.
LIMITS = "BENCHMARK_DSPDC_LIMITS"

#: benchopt's option that nothing measured earlier is taken, and its variable for its cache.
NO_CACHE, CACHE = "--no-cache", "BENCHOPT_CACHE"

#: What a curve depends on beside the files of its plug-in and of the objective, which benchopt
#: knows: reports, checks of regressions, planning and the command line are not among it.
CURVE_SOURCES = (
    *KERNEL_SOURCES, "theory", "data", "solver.py", "problems.py", "sklearn.py",
    *(f"bench/{name}.py" for name in ("plugins", "tasks", "peers", "metric_peers",
                                      "metric_worker", "machine_speed")),
)

CURVE_HASH = source_hash(sources(CURVE_SOURCES))

#: Columns of a result file: the commit of the benchmark; hashes of the sources that its kernels
#: and its curves are made of; when the command was started that has made the file (files that
#: one command makes are of one time); the processor, of curves that were all measured now; and
#: whether several were measured at a time.
COMMIT, KERNELS, CURVES, STARTED, PROCESSOR, SHARED = (
    f"benchmark-{word}"
    for word in ("commit", "kernels", "curves", "started", "processor", "shared")
)

_started = datetime.now().isoformat(timespec="milliseconds")

#: benchopt's exit code for arguments that it cannot use: it has run nothing.
USAGE = 2

#: Where a wheel has the plug-ins and configs (setup.py). An update or an uninstallation would take
#: results along, and it may belong to another user.
INSTALLED = Path(__file__).resolve().parents[1] / "_benchmark"

#: How long a process may take to end after it was asked to.
GRACE = 20.0

#: Exit codes of a command that was stopped by Ctrl-C, and by SIGTERM.
INTERRUPTED, TERMINATED = STOPPED = (130, 143)

# Linux has it.
_prctl, PR_SET_PDEATHSIG = getattr(ctypes.CDLL(None), "prctl", None), 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it stops a run as Ctrl-C does."""


def stopped_by(error):
    """The exit code of a command that a KeyboardInterrupt ends."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


class Run(NamedTuple):
    """How a run ended."""

    file: Path | None       # the result file, None if no curve was finished
    code: int               # benchopt's, one of `STOPPED`, or 128 + n if the signal n has ended it
    late: bool = False      # whether it was stopped because its time was over
    failed: tuple = ()      # the methods that raised or diverged, with their problems


def place_of_work(folder):
    """Where outputs/ of a benchmark is: in its folder or, of an installed one, the current one."""
    return Path.cwd() if folder == INSTALLED else folder


def benchopt_run(folder, arguments, name, seconds=None, variables=None):
    """Run benchopt on the benchmark in a folder, for some seconds at most; returns a `Run`.

    The package in the folder is taken before the one that is installed, as it may be of another
    commit. `name` begins the result file's; the time and the process make it unique, so that two
    runs at once do not meet. `variables` are those of the environment beside this process's.
    """
    folder = Path(folder)
    stem = f"{name}_{datetime.now():%Y-%m-%d_%Hh%Mm%S}_{os.getpid()}"
    commit = commit_of(folder)
    outputs, output = _place_of_results(folder, stem)
    private = NO_CACHE in arguments
    with sigterm_stops(), _open_notes() as notes, _place_of_curves(folder, private) as cache:
        script = str(Path(__file__).with_name("failure_notes.py"))
        command = [
            # -P: the folder of the script is no place to look for modules.
            sys.executable, "-P", script, str(notes.fileno()), "run", str(folder),
            *(word for word in arguments if word != NO_CACHE), "--no-display", "--output", *output,
        ]
        places = [str(folder.resolve()), os.environ.get("PYTHONPATH")]
        sources = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
        environment = sources | (variables or {}) | cache
        here = place_of_work(folder)
        code, late = _stoppable(command, here, environment, seconds, [notes.fileno()])
        failed, early = _failed(notes), late or code > 128
        if early and _result(outputs, stem) is None:
            # A second Ctrl-C ends this as well.
            collect = [*command, "--collect", "--no-plot"]
            _stoppable(collect, here, environment, None, [notes.fileno()])
    file = _result(outputs, stem)
    if file is not None:
        _mark(file, {
            COMMIT: commit, KERNELS: KERNEL_HASH, CURVES: CURVE_HASH, STARTED: _started,
            SHARED: _is_shared(arguments),
            # What is in a cache may have been measured on another machine of the same home.
            PROCESSOR: this_processor() if private else None, **versions(variables),
        })
    elif not early and code != USAGE:
        where = "lost" if private else "in benchopt's cache"
        _tell(f"no result file was written. Curves that were finished, if any, are {where}")
    return Run(file, code, late, failed)


def versions(variables=None):
    """What runs are made with, for columns of a result file."""
    blas = sorted({
        f"{one['internal_api']} {one['version']}" for one in threadpool_info()
        if one["user_api"] == "blas"
    })
    threads = (os.environ | (variables or {})).get(THREADS, "1")
    found = dict(
        python=platform.python_version(), numba=version("numba"), benchopt=version("benchopt"),
        blas=", ".join(blas), threads=threads,
    )
    return {f"benchmark-{name}": word for name, word in found.items()}


def _tell(sentence):
    print(f"benchmark_dspdc: {sentence}", file=sys.stderr, flush=True)


def _open_notes():
    """A file for `failure_notes`: in memory where there are such files, as a disk may be full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("benchmark_dspdc-failed"), "w+b")
    return tempfile.TemporaryFile()


def _failed(notes):
    """What `failure_notes` has written: a line for each curve that failed, some of them equal."""
    notes.seek(0)
    # What comes after the last end of a line was cut by a full disk.
    return tuple(dict.fromkeys(notes.read().decode().split("\n")[:-1]))


# Curves and result files --------------------------------------------------------------

@contextmanager
def _place_of_curves(folder, private):
    """Where benchopt keeps finished curves, as variables of its environment.

    Without any cache benchopt could not write what is finished once it was stopped. So a private
    one stands for none, beside the usual one, where workers on other machines can write too.
    """
    given = os.environ.get(CACHE)
    home, variables = Path(given or place_of_work(folder) / "__cache__"), {}
    if (private or not given) and not is_writable(home):
        other = fallback_home() / "benchopt"
        _tell(f"{home} cannot be written; finished curves are kept in {other}")
        other.mkdir(parents=True, exist_ok=True)
        home = other
    if home != Path(given or folder / "__cache__"):
        variables = {CACHE: str(home)}
    if not private:
        yield variables
        return
    with tempfile.TemporaryDirectory(prefix=".only-", dir=home, ignore_cleanup_errors=True) as own:
        yield {CACHE: own}


def _place_of_results(folder, stem):
    """The folder of result files, and benchopt's options to write one there."""
    outputs = place_of_work(folder) / "outputs"
    if not is_writable(outputs):
        other = fallback_home() / "outputs"
        _tell(f"{outputs} cannot be written; results go to {other}")
        outputs = other
    elif outputs.parent == folder:
        return outputs, [stem]
    # benchopt's page would go to the benchmark's folder.
    return outputs, [str(outputs / f"{stem}.parquet"), "--no-plot"]


def _result(outputs, stem):
    """The result file of a run, None if there is none that can be read."""
    for file in outputs.glob(f"{glob.escape(stem)}*.parquet"):
        try:
            pyarrow.parquet.read_metadata(file)
            return file
        except (OSError, pyarrow.ArrowException):
            # A benchopt that is killed while it writes leaves half a file.
            _tell(f"{file.name} was not written to its end and is removed")
            file.unlink(missing_ok=True)
    return None


def _mark(file, words):
    """Have a result file say where it comes from: a column for each of some words."""
    try:
        table = pyarrow.parquet.ParquetFile(file).read()
        for column, word in words.items():
            values = pyarrow.repeat(pyarrow.scalar(word, pyarrow.string()), len(table))
            table = table.append_column(column, values)
        content = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, content)
        write_whole(file, content.getvalue())
    except OSError as error:
        _tell(f"{file.name} does not say of which commit it is: {error}")


def commit_of(folder):
    """The commit that is checked out in a folder, None if unknown.

    With a + if it was edited; a new file, such as a solver, is an edit too.
    """
    if folder == INSTALLED:
        # The environment may lie in somebody else's checkout.
        return None

    def answer(*words):
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        commit = answer("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if answer("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _is_shared(arguments):
    """"yes" or "no": whether options of benchopt have it measure several curves at a time."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-j", "--n-jobs", default="1")
    parser.add_argument("--parallel-config")
    known, _ = parser.parse_known_args(arguments)
    return "yes" if known.n_jobs != "1" or known.parallel_config else "no"


# Processes ----------------------------------------------------------------------------

def _stoppable(command, folder, environment, seconds, open_files=()):
    """Run a command; returns its exit code, as shells have it, and whether it was too late."""
    # In a group of its own: Ctrl-C reaches it through this process, once.
    process = subprocess.Popen(
        command, cwd=folder, process_group=0, env=os.environ | environment,
        preexec_fn=_before_it_begins, pass_fds=open_files,
    )
    late = False
    try:
        process.wait(None if seconds is None else max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        late = True
        _stop(process)
    except KeyboardInterrupt as stop:
        _stop(process)
        return stopped_by(stop), False
    finally:
        # Workers of a process that was killed would go on with curves that nobody collects.
        if process.poll() is None or process.returncode < 0:
            _kill(process)
    code = process.returncode
    if code < 0 and not late:
        number = signal.Signals(-code)
        hint = "; memory may have run out" if number == signal.SIGKILL else ""
        _tell(f"benchopt was ended by {number.name}{hint}")
    return code if code >= 0 else 128 - code, late


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
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        # Whoever stops it a second time does not want to wait.
        _kill(process)


def _kill(process):
    """End a process with those that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def sigterm_stops():
    """Have SIGTERM raise `Terminated`."""
    def stop(number, frame):
        raise Terminated
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
