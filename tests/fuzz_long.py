"""Many cases of tests/fuzz.py on every surface, several processes at a time.

Prints what came of them and the branches that they reached. A case that ends in anything but a
result or the documented error is printed, made small, with the command that finds it again; its
surface is left then, and the exit code is 1 in the end. Ctrl-C ends all, with what was done.

Cases come in rounds, each from a seed of its own, so that they are the same however many
processes there are.
"""

import argparse
import contextlib
import faulthandler
import json
import math
import multiprocessing
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import wait
from pathlib import Path

import coverage
import fuzz
from rich.console import Console
from rich.table import Table

from benchmark_dspdc.engine.threads import available_cpus

#: Examples of a round: some seconds up to a minute.
ROUND = 500

#: Of one case, compiling kernels included; a case that takes longer hangs.
LONGEST_SECONDS = 300

#: Seconds between two lines that say how far all is.
NEWS = 10


def scratch_folder():
    """A folder for the cases' files, in memory where there is such a place."""
    memory = Path("/dev/shm")
    there = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if there else None)


# A round, in a process of its own -------------------------------------------------------

def measure(surface):
    """What counts the branches of a surface's modules."""
    measured = coverage.Coverage(
        branch=True, data_file=None,
        include=[str(fuzz.PACKAGE / path) for path in surface.modules],
    )
    # A function whose decorator is excluded is so as a whole.
    measured.exclude(r"^\s*@(njit|generic|\w+\.register)\b")
    return measured


def within_time(run, note):
    """`run`, ending the process if a case takes too long; the note has the case if it does."""
    def limited(case, folder):
        note.write_text(fuzz.written_out(case), errors="backslashreplace")
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
        try:
            run(case, folder)
        finally:
            faulthandler.cancel_dump_traceback_later()
    return limited


def one_round(name, seed, count, scratch, note):
    """What came of a round: examples, outcomes of the distinct ones, branches, failure or None."""
    surface = fuzz.SURFACES[name]
    measured = measure(surface)
    tally = fuzz.Tally(surface._replace(run=within_time(surface.run, note)), scratch, measured)
    failure = None
    try:
        fuzz.search(tally, count, seed)
    except Exception:
        failure = traceback.format_exc()
    return tally.tried, tally.outcomes, measured.get_data().dumps(), failure


def work(connection, scratch, note):
    """Do rounds as they are asked for, until nobody can ask any more."""
    # Ctrl-C is for the process that asks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fuzz.offline()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(one_round(*connection.recv(), scratch, note))


class Worker:
    """A process that does rounds."""

    def __init__(self, scratch, number):
        # Not a fork: that would copy locks of threads that are not there.
        context = multiprocessing.get_context("spawn")
        self.scratch, self.number = scratch, number
        self.note = Path(scratch) / f"case-{number}"
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, scratch, self.note), daemon=True
        )
        self.process.start()
        theirs.close()
        self.begin = None

    def ask(self, part, count):
        self.part, self.round, self.begin = part, part.rounds, time.perf_counter()
        part.rounds += 1
        part.asked += count
        self.connection.send((part.name, part.seed(self.round), count))

    def answer(self, count):
        """Note what came of a round; the failure, or None."""
        self.part.asked -= count
        self.part.seconds += time.perf_counter() - self.begin
        self.begin = None
        try:
            return self.part.add(*self.connection.recv())
        except EOFError:
            self.process.join()
            return (
                f"the process ended with exit code {self.process.exitcode} in the case\n"
                f"{self.note.read_text()}"
            )


# All rounds -----------------------------------------------------------------------------

class Part:
    """What was done so far on a surface."""

    def __init__(self, name, base):
        self.name, self.base = name, base
        self.rounds = self.asked = self.tried = 0
        self.failed = False
        self.seconds, self.outcomes = 0.0, {}
        self.measured = measure(fuzz.SURFACES[name])

    def seed(self, k):
        return 10**6 * self.base + k

    def add(self, tried, outcomes, branches, failure):
        self.tried += tried
        self.outcomes |= outcomes
        data = coverage.CoverageData(no_disk=True)
        data.loads(branches)
        self.measured.get_data().update(data)
        return failure

    def branches(self, folder):
        """Branches reached, and how many there are."""
        file = Path(folder) / "coverage.json"
        with contextlib.suppress(coverage.exceptions.NoDataError):
            self.measured.json_report(outfile=str(file))
            totals = json.loads(file.read_text())["totals"]
            return totals["covered_branches"], totals["num_branches"]
        return 0, 0


def do_rounds(parts, workers, options):
    """Have rounds done until every surface has its cases, or has failed; whether all went well."""
    begun = told = time.perf_counter()
    count = min(ROUND, options.cases)
    while True:
        for worker in workers:
            # At most as many rounds as are needed if no case comes twice: however many
            # processes there are, the same rounds are done.
            part = next((
                part for part in parts
                if not part.failed and len(part.outcomes) + part.asked < options.cases
            ), None)
            if worker.begin is None and part is not None:
                worker.ask(part, count)
        busy = {worker.connection: worker for worker in workers if worker.begin is not None}
        if not busy:
            return not any(part.failed for part in parts)
        left = 60 * options.minutes - (time.perf_counter() - begun)
        if left <= 0:
            print(f"more than {options.minutes:g} minutes", file=sys.stderr)
            return False
        for connection in wait(busy, min(left, NEWS)):
            worker = busy[connection]
            if failure := worker.answer(count):
                worker.part.failed = True
                print(f"{failure}\nThe same again: {again(worker.part, worker.round, options)}",
                      file=sys.stderr, flush=True)
            if not worker.process.is_alive():
                workers[workers.index(worker)] = Worker(worker.scratch, worker.number)
        if time.perf_counter() - told > NEWS:
            told = time.perf_counter()
            print(f"{(told - begun) / 60:.1f} min:", ", ".join(
                f"{part.name} {len(part.outcomes)}" for part in parts if part.rounds
            ), file=sys.stderr, flush=True)


def again(part, number, options):
    return shlex.join([
        "python", "tests/fuzz_long.py", "--only", part.name, "--cases", str(options.cases),
        "--seed", str(part.base), "--round", str(number),
    ])


def table_of(parts, options, folder):
    table = Table(
        title=f"{options.cases} distinct cases, seed {options.seed}",
        caption="Branches of the modules that take the input; loops that numba compiles are left "
        "out. Minutes of all processes together.",
    )
    for heading in ("surface", "cases", "distinct", "results", "documented errors",
                    "branches reached", "minutes"):
        table.add_column(heading, justify="left" if heading == "surface" else "right")
    for part in parts:
        found = list(part.outcomes.values())
        covered, branches = part.branches(folder)
        table.add_row(
            part.name, str(part.tried), str(len(found)), str(found.count("result")),
            str(found.count("error")),
            f"{covered} of {branches}, {covered / max(branches, 1):.0%}",
            f"{part.seconds / 60:.1f}",
        )
    return table


def stopped(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="distinct ones of a surface")
    parser.add_argument("--only", nargs="+", choices=list(fuzz.SURFACES),
                        default=list(fuzz.SURFACES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=available_cpus(), help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most, in all")
    parser.add_argument("--round", type=int, help="this one alone, as a failure names it")
    options = parser.parse_args()
    parts = [Part(name, options.seed) for name in options.only]
    if options.round is not None:
        options.cases = min(options.cases, ROUND)
        for part in parts:
            part.rounds = options.round
    signal.signal(signal.SIGTERM, stopped)
    code, workers = 0, []
    with scratch_folder() as folder:
        try:
            workers += [Worker(folder, k) for k in range(options.jobs)]
            code = int(not do_rounds(parts, workers, options))
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            code = 128 + signal.SIGINT
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.join()
        Console(width=None if sys.stdout.isatty() else 120).print(
            table_of(parts, options, folder)
        )
    # What was not tried has not passed.
    short = [part.name for part in parts if len(part.outcomes) < options.cases]
    if short and options.round is None:
        print(f"Too few cases: {', '.join(short)}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
