"""The command line: ``python -m benchmark_dspdc COMMAND``."""

import argparse
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from .version import __version__

#: Exit codes of a command that was asked for something impossible, and of a run in which solvers
#: raised or diverged.
USAGE_ERROR, SOLVERS_FAILED = 2, 3


def main(arguments=None):
    """Run a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    from .bench.benchopt_process import sigterm_stops, stopped_by

    try:
        with sigterm_stops():
            return options.run(options) or 0
    except (ValueError, OSError) as error:
        from .report.plain_files import shown

        # It may quote a file, and a terminal obeys escapes.
        print(f"benchmark_dspdc: error: {shown(str(error))}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as stop:
        print("benchmark_dspdc: interrupted", file=sys.stderr)
        return stopped_by(stop)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmark_dspdc", description="Tools beside `benchopt run`."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run, name, help):
        made = commands.add_parser(name, help=help)
        made.set_defaults(run=run)
        return made.add_argument

    add = command(_summary, "summary", "print a table of a result file: time and passes to gaps")
    add("results", nargs="*", type=Path,
        help="parquet files of `benchopt run` (default: the newest under outputs/)")

    add = command(_figure, "figure", "draw the gaps of a result file over time or work")
    add("results", nargs="*", type=Path, help="as for summary")
    add("-o", "--output", type=Path, default=Path("outputs/gaps.png"))
    add("-x", choices=("seconds", "passes", "updates", "eigendecompositions"), default="seconds")

    add = command(_run, "run", "`benchopt run` with a config, and a summary; Ctrl-C keeps what "
                               "was measured; 3 if solvers failed")
    add("--config", type=Path, default=Path("configs/quick.yml"), metavar="FILE")
    add("--name", help="of the result file under outputs/ (default: the config's)")
    add("more", nargs="*", metavar="-- ...", help="further options of `benchopt run`, after --")

    add = command(_report, "report", "one HTML page, figures and verdicts on the paper's claims")
    add("results", nargs="*", type=Path, help="as for summary; may be several")
    add("--with", nargs="+", dest="archived", default=[], metavar="NAME",
        help="draw archived curves beside yours, such as figure1")
    add("-o", "--output", type=Path, default=Path("outputs/report"), metavar="DIR")

    add = command(_figures, "figures", "run the paper's figures within a budget; writes a report")
    add("--budget", default="20m", metavar="TIME", help="such as 20m or 2h")
    add("-o", "--output", type=Path, default=Path("outputs/report"), metavar="DIR")
    add("--download", action="store_true", help="data that is not available may be downloaded")
    add("--only", nargs="+", action="extend", metavar="NAME", help="figure1, figure2, ...")
    add("--archived", action="store_true",
        help="begin with the curves of results/, if sources and machine are the same")

    add = command(_archive, "archive", "put result files of `figures` into results/, and renew "
                                       "what the documents quote from there")
    add("results", nargs="*", type=Path, help="files named after a figure; none: renew only")
    add("--apart", metavar="NAME", help="a folder of results/ for runs apart, such as those of "
                                        "another machine")
    add("--check", action="store_true", help="write nothing: 0 if it is sound, 1 if not")

    _add_regress(commands)

    add = command(_trend, "trend", "the figures of many result files over time, as one page")
    add("results", nargs="+", type=Path, metavar="DIR_OR_FILE", help="parquet files or folders")
    add("-o", "--output", type=Path, default=Path("outputs/trend.html"))

    add = command(_complexity, "complexity", "the paper's tables of rates for a problem")
    add("target", metavar="TARGET",
        help="a config file of `benchopt run`, or a data set such as \"Factorized[n=5000]\"")
    add("-o", "--objective", metavar="OBJECTIVE",
        help="such as \"ERM[loss=logistic]\" (default: the config's, or the first parameters)")
    add("--results", type=Path, metavar="FILE",
        help="a parquet file of `benchopt run` to compare with")
    add("--eps", type=float, default=1e-6, help="relative accuracy")
    for name, total in (("m", "n"), ("q", "p")):
        add(f"-{name}", type=_size, help=f"block size of DSPDC, a count or a fraction of {total}")
    add("--json", type=Path, help="also write the figures there")

    add = command(_certify, "certify", "how far from the optimum a fitted model is at most")
    add("data", type=Path, help=".npz with arrays A, b and coef, or a .npy or sparse .npz of A")
    add("arrays", nargs="*", type=Path, metavar="B COEF", help="with A alone: .npy of b and coef")
    add("--loss", required=True, help="square, huber, logistic or smoothed_hinge")
    add("--lambda1", type=float, default=0.0)
    add("--lambda2", type=float, required=True,
        help="of the mean loss plus lambda1 |x|_1 + (lambda2/2) |x|^2; scikit-learn's 1/(C n)")
    add("--labels", default="-1+1", help='"01" for labels 0 and 1')

    add = command(_recommend, "recommend", "rank the methods for your data, and try the first")
    add("data", metavar="DATASET_OR_FILE",
        help="a LIBSVM file (plain, .bz2, .gz or .xz), an .npz with arrays A and b, a .npy or "
             "sparse .npz of A, or a data set such as \"Factorized[n=5000]\"")
    add("b", nargs="?", metavar="B", help="with A alone: .npy of b")
    add("-o", "--objective", metavar="OBJECTIVE",
        help="such as \"ERM[loss=logistic,lambda2=1e-4]\" (default: the first parameters, and "
             "the square loss where b is no class)")
    add("--seconds", type=float, default=2.0, metavar="S",
        help="for which each of the first few is tried (default: 2); 0 for predictions alone")

    add = command(_import_libsvm, "import-libsvm", "put a LIBSVM file into libsvmdata's cache")
    add("name", metavar="NAME", help="as in LIBSVM[name=NAME]")
    add("file", metavar="FILE", type=Path, help="plain, .bz2, .gz or .xz")
    add("--n-features", type=int, help="number of columns, if the file lacks some")
    add("--max-bytes", type=int,
        help="size of the text that is accepted (default: 64 GiB, and of a compressed file 100 "
             "times its own size and 16 MiB)")

    add = command(_speed, "speed", "measure every kernel, and the machine in the same run")
    add("--json", type=Path, help="also write the figures there")
    add("--only", metavar="WORD", help="only the groups whose name has this word")
    add("--data", type=Path, metavar="DIR",
        help="also time real data: a folder with LIBSVM files (a9a, news20, covtype)")
    add("--peers", action="store_true",
        help="instead, time our methods beside other packages (pip install .[peers])")
    return parser


def _add_regress(commands):
    parser = commands.add_parser(
        "regress", help="compare result files with a baseline: 0 no regression, 1 regression, "
                        "2 cannot compare",
    )
    parser.set_defaults(run=_regress)
    add = parser.add_argument
    add("results", nargs="*", type=Path,
        help="parquet files (or --run). Those with different curves are one run, such as the "
             "files of two configs; the same curves once more are another run")
    add("--baseline", type=Path, required=True, metavar="FILE")
    writes = parser.add_mutually_exclusive_group()
    writes.add_argument(
        "--update", action="store_true",
        help="write a new baseline, and show what changes by it; the exit code is 0",
    )
    writes.add_argument(
        "--add", action="store_true",
        help="write the methods that the baseline lacks into it, unless others are worse",
    )
    add("--run", type=Path, nargs="+", metavar="CONFIG", dest="configs",
        help="run configs first, and for times another commit beside them")
    add("--repeat", type=int, metavar="K",
        help="with --run, how often (default: 1; for --update and --add 2)")
    add("--against", metavar="COMMIT",
        help="with --run, the commit whose times count, run on this machine (default: the one "
             "that has last changed the baseline)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--work-only", action="store_true",
        help="passes and eigendecompositions alone; to compare, --run makes the first seed only",
    )
    kinds.add_argument("--time-only", action="store_true", help="compare times alone")
    add("--json", type=Path, help="also write all figures there, or the error")
    add("--junit", type=Path, help="also write a JUnit file there")


def _run(options):
    from .bench.benchopt_process import benchopt_run
    from .bench.named_problems import benchmark_folder, config_file
    from .report.report import write_report
    from .report.summary import print_answer, print_summary

    config = config_file(options.config)
    if not config.exists():
        raise ValueError(f"no such file: {config}")
    name = options.name or options.config.stem
    if not name.strip(".") or Path(name).name != name:
        raise ValueError(f"--name is a file under outputs/, without a folder, got {name!r}")
    arguments = ["--config", str(config.resolve()), *options.more]
    done = benchopt_run(benchmark_folder(), arguments, name)
    failed = bool(done.failed)
    try:
        if done.file is None:
            raise ValueError("no curve was finished")
        print_summary([done.file])
        page = write_report([done.file], done.file.parent / "report", quiet=True)
        print_answer(done.file, page)
    except ValueError as error:
        # Or there is no curve with a finite gap.
        print(f"benchmark_dspdc: {error}", file=sys.stderr)
        failed = True
    for name in done.failed:
        print(f"failed: {name}", file=sys.stderr)
    return done.code or int(done.file is None) or (SOLVERS_FAILED if failed else 0)


def _summary(options):
    from .report.results import newest_result
    from .report.summary import print_summary

    print_summary(options.results or [newest_result()])


def _figure(options):
    from .report.figures import gap_curves
    from .report.results import newest_result, read_results

    gap_curves(read_results(options.results or [newest_result()]), options.output, options.x)
    print(f"written: {options.output}")


def _report(options):
    from .report.report import write_report
    from .report.results import newest_result
    from .report.summary import print_summary

    files = options.results or [newest_result()]
    archived = _archived(options.archived)
    print_summary(files)
    write_report(files, options.output, archived=archived)


def _results():
    from .bench.named_problems import benchmark_folder

    return benchmark_folder() / "results"


def _archived(names):
    """The files of the archive with some names."""
    from .report.archive import read_index

    if not names:
        return []
    folder = _results()
    known = {name.removesuffix(".parquet"): folder / name for name in read_index(folder)}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"--with must be of {', '.join(known)}, got {', '.join(unknown)}")
    return [known[name] for name in dict.fromkeys(names)]


def _archive(options):
    from .report.archive import add, check
    from .report.documents import fill_documents

    folder = _results()
    if options.check and options.results:
        raise ValueError("--check takes no files; without it they are archived, then checked")
    if not options.check and not (folder.parent / "docs").is_dir():
        raise ValueError("the archive is kept in a clone of the benchmark, with its documents")
    written = add(options.results, folder, options.apart) if options.results else []
    wrong = check(folder)
    if not wrong and not options.check:
        written += fill_documents(folder)
    for file in written:
        print(f"written: {file}")
    for sentence in wrong:
        print(f"benchmark_dspdc: {sentence}", file=sys.stderr)
    return int(bool(wrong))


def _figures(options):
    from .bench.paper_run import run, seconds

    return run(seconds(options.budget), options.output, options.download, options.only,
               options.archived)


def _regress(options):
    from .guard.regress import regress

    try:
        return regress(**{k: v for k, v in vars(options).items() if k != "run"})
    except (ValueError, OSError):
        raise
    except Exception:
        # Python's own exit code would mean a regression.
        traceback.print_exc()
        return USAGE_ERROR


def _trend(options):
    from .guard.trend import described, write_trend

    made = write_trend(options.results, options.output)
    for note in made["notes"]:
        print(note)
    for row in made["changes"]:
        print(described(row))
    print(f"written: {options.output}")


def _size(text):
    """A count, a fraction, or a word that is left as it is."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _complexity(options):
    from .bench.predicted_table import run

    run(options.target, options.objective, options.results, options.eps, options.m, options.q,
        options.json)


def _certify(options):
    from .data.arrays import MODEL, read_parts
    from .problems import certify

    A, b, coef = read_parts([options.data, *options.arrays], MODEL)
    found = certify(A, b, coef, options.loss, options.lambda1, options.lambda2,
                    labels=options.labels)
    print(f"primal        {found.primal:.10g}\ndual          {found.dual:.10g}\n"
          f"gap           {found.gap:.3e}\nrelative gap  {found.relative_gap:.3e}")


def _recommend(options):
    from .bench.recommending import run

    run(options.data, options.b, options.objective, options.seconds)


def _import_libsvm(options):
    from .data import import_file

    print(import_file(
        options.name, options.file, n_features=options.n_features, max_bytes=options.max_bytes,
        progress=sys.stderr.isatty(),
    ))


def _speed(options):
    from .bench.named_problems import benchmark_folder

    folder = benchmark_folder() / "benchmarks"
    if not folder.is_dir():
        raise ValueError(f"speed is measured in a checkout of the benchmark; {folder} is missing")
    sys.path.insert(0, str(folder))
    import_module("speed").run(
        json_file=options.json, only=options.only, data=options.data, peers=options.peers
    )
