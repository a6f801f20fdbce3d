"""LIBSVM files and result files as bytes, which atheris changes so that they reach new code.

Each of the two is tried in a process of its own, as atheris never returns, and libFuzzer says how
far it is. Where atheris is not installed, that is said, and nothing is tried. A content that ends
in anything but a result or the documented error is kept, and the exit code is 1.
"""

import argparse
import importlib.util
import shlex
import subprocess
import sys
import types
from pathlib import Path

import fuzz
from fuzz_long import scratch_folder

from benchmark_dspdc.data import libsvm, libsvm_text
from benchmark_dspdc.report import plain_files as files
from benchmark_dspdc.report import results, thrift

#: Where contents that fail are kept.
KEPT = Path(__file__).resolve().parent.parent / "outputs" / "fuzz"

#: The modules whose branches atheris follows.
FOLLOWED = {
    "LIBSVM files": [libsvm, libsvm_text], "result files": [files, results, thrift],
}

#: Of one content; one that takes more is a failure.
LONGEST_SECONDS = 60
MOST_MEGABYTES = 4096


def judge_of(name, scratch):
    """What tries a content."""
    fuzz.offline()
    return fuzz.Tally(fuzz.SURFACES[name]._replace(run=fuzz.OF_BYTES[name].run), scratch)


def follow(name, scratch, flags):
    """Try contents, until libFuzzer ends this process."""
    import atheris

    for module in FOLLOWED[name]:
        # By hand: atheris.instrument_imports takes whole packages, and numba could not compile
        # functions that were changed.
        for function in functions_of(module):
            atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], *flags], judge_of(name, scratch))
    atheris.Fuzz()


def functions_of(owner):
    """Functions of a module, and those of its classes."""
    module = getattr(owner, "__module__", owner.__name__)
    for value in vars(owner).values():
        if isinstance(value, types.FunctionType) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from functions_of(value)


def search(name, options):
    """Try contents in a process of its own; whether all ended well."""
    KEPT.mkdir(parents=True, exist_ok=True)
    prefix = KEPT / f"{name.replace(' ', '-')}-"
    with scratch_folder() as folder:
        scratch, corpus = Path(folder) / "cases", Path(folder) / "corpus"
        scratch.mkdir()
        corpus.mkdir()
        for k, content in enumerate(fuzz.OF_BYTES[name].seeds(scratch)):
            (corpus / f"seed-{k}").write_bytes(content)
        print(f"{name}: atheris, up to {options.runs} contents or {options.seconds} s", flush=True)
        done = subprocess.run([
            sys.executable, __file__, "--follow", name, str(scratch),
            f"-runs={options.runs}", f"-max_total_time={options.seconds}", "-len_control=0",
            # Zero would be a seed of libFuzzer's own choice.
            f"-seed={options.seed % 2**31 + 1}", "-max_len=16384", "-print_final_stats=1",
            f"-timeout={LONGEST_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}",
            f"-artifact_prefix={prefix}", str(corpus),
        ])
    if done.returncode:
        command = shlex.join(["python", "tests/fuzz_bytes.py", "--only", name, "--input", "FILE"])
        print(
            f"{name}: failed with exit code {done.returncode}. The content is kept in {KEPT}, "
            f"under the name above; the same again: {command}", file=sys.stderr,
        )
    return done.returncode == 0


def main():
    if sys.argv[1:2] == ["--follow"]:
        follow(*sys.argv[2:4], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(FOLLOWED), default=list(FOLLOWED))
    parser.add_argument("--runs", type=int, default=100_000, help="contents of each of the two")
    parser.add_argument("--seconds", type=int, default=60, help="of each at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=Path, help="this content alone, without atheris")
    options = parser.parse_args()
    if options.input is not None:
        with scratch_folder() as scratch:
            judge = judge_of(options.only[0], scratch)
            judge(options.input.read_bytes())
        print(*judge.outcomes.values())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: files made of changed bytes were NOT tried. It is there "
              "for Linux on x86-64 with Python 3.11 to 3.13: pip install -e '.[fuzz]'")
        return 0
    return int(not all([search(name, options) for name in options.only]))


if __name__ == "__main__":
    sys.exit(main())
