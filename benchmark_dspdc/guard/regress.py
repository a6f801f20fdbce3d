"""``python -m benchmark_dspdc regress``: has a method become slower than a baseline says?

Work to common gaps is compared with the baseline file; it is the same on every machine up to
rounding. Times are compared by paired runs of two commits on this machine, see `paired_runs`.
"""

from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..report.results import RUN, read_results
from .baseline import compare_common, make_baseline, read_baseline, write_baseline
from .commit_runs import ConfigRuns, OtherCommit
from .comparison import CannotCompare, compare_work, counted, key_of, names_of, worse
from .comparison_output import print_baseline, print_comparison, write_json, write_junit
from .paired_runs import compare_times


def read_runs(files):
    """Result files as repeated runs, a frame for each.

    Each file belongs to the first run that has none of its curves, so that the files of several
    configs make one run, and the same ones once more another.
    """
    runs = []
    for file in files:
        keys = set(read_results([file], maybe_empty=True).groupby(RUN).groups)
        for own, known in runs:
            if not known & keys:
                own.append(file)
                known |= keys
                break
        else:
            runs.append(([file], keys))
    return [read_results(own, maybe_empty=True) for own, _ in runs]


def regress(results, baseline, update=False, add=False, configs=None, repeat=None, against=None,
            work_only=False, time_only=False, json=None, junit=None):
    """Compare results with a baseline; returns the exit code, 1 for a regression.

    The results are files, or made by running `configs` so often. `update` writes a new baseline,
    `add` those methods into it that it lacks if no other is worse. `against` is the commit whose
    times count, None for that of the baseline. To `json` and `junit` the lines are written, or why
    there are none.
    """
    console, frames, times, writes = Console(), [], None, update or add

    def tell(text):
        console.print(escape(text), soft_wrap=True)
    try:
        if bool(results) == (configs is not None):
            raise ValueError("give either result files or --run CONFIG")
        if repeat is not None and (configs is None or repeat < 1):
            raise ValueError(f"--repeat is for --run CONFIG, and must be at least 1, got {repeat}")
        if writes and time_only:
            raise ValueError("--time-only compares; a baseline has no times")
        if against is not None and (configs is None or writes or work_only):
            raise ValueError("--against is for comparing times of --run CONFIG")
        if configs is None:
            frames += read_runs(results)
        else:
            now, other = ConfigRuns(configs), OtherCommit(baseline, against)
            times = partial(compare_times, now=now, other=other, tell=tell)
            # Before minutes go into a run.
            if not update:
                read_baseline(baseline)
            if against is not None:
                other.commit()
            # A baseline is of all seeds, and of runs whose work is the same.
            count = repeat or (2 if writes else 1)
            frames += now.runs(count, first_seed=work_only and not writes)
        if update:
            lines, notes = _update(frames, baseline, work_only, console)
        elif add:
            lines, notes = _add(frames, baseline, work_only)
        else:
            known = read_baseline(baseline)
            for one in known["made"]:
                tell(f"baseline of {one['date']}, commit {one['commit'] or 'unknown'}, "
                     f"runs: {one['runs']}")
            lines, notes = _compare(frames, known, work_only, time_only, times)
        notes += _told(frames)
    except BaseException as error:
        if isinstance(error, CannotCompare):
            # Why runs are missing is in the notes of the files.
            error.args = ("; ".join([str(error), *_told(frames)]),)
        # Even if it was stopped: figures of an earlier run must not be taken for this one's.
        _write_files([], [], str(error) or type(error).__name__, json, junit)
        raise
    _write_files(lines, notes, None, json, junit)
    print_comparison(lines, notes, console)
    return int(bool(worse(lines)))


def _compare(frames, known, work_only, time_only, times):
    """The lines of all figures, and notes on those that were not compared.

    `times` compares times; None if what has made the results is not known.
    """
    lines = compare_work(frames, known, first_seeds=work_only)
    if time_only:
        lines = []
    if work_only:
        notes = []
    elif worse(lines):
        notes = ["times are not compared, as work is worse"]
    elif times is None:
        notes = ["times are not compared: result files do not say what to run beside them, "
                 "--run CONFIG does"]
    else:
        more, notes = times(frames, known)
        lines += more
    compared = {line.key for line in lines}
    if left := [key for key in map(key_of, known["figures"]) if key not in compared]:
        notes.append(f"{len(left)} of {len(known['figures'])} methods are left out, without a "
                     f"figure to compare: {names_of(left)}")
    if not lines:
        raise CannotCompare("; ".join(notes))
    return lines, notes


def _told(frames):
    """What reading result files had to say, such as runs that diverged."""
    return list(dict.fromkeys(note for frame in frames for note in frame.attrs.get("notes", ())))


def _update(frames, file, work_only, console):
    made = make_baseline(frames, work_only)
    of = "one run" if len(frames) == 1 else f"{len(frames)} runs"
    notes = [f"{file} was written, of {of}: what is measured is the new standard"]
    if Path(file).is_file():
        try:
            lines = compare_common(frames, read_baseline(file))
            console.print("Beside the baseline that is replaced:")
            print_comparison(lines, [], console)
        except CannotCompare as error:
            notes.append(f"not compared with the baseline that is replaced: {error}")
    print_baseline(made, console)
    write_baseline(made, file)
    return [], notes


def _add(frames, file, work_only):
    known = read_baseline(file)
    old = set(map(key_of, known["figures"]))
    made = make_baseline(frames, work_only, known=old)
    new = [row for row in made["figures"] if key_of(row) not in old]
    if not new:
        raise CannotCompare("nothing to add: the baseline has every method of the result")
    lines = compare_common(frames, known)
    if worse(lines):
        return lines, [f"{file} is left as it was: others are worse"]
    known["made"] += made["made"]
    known["figures"] = sorted(known["figures"] + new, key=key_of)
    write_baseline(known, file)
    return lines, [f"{counted(len(new), 'row')} added to {file}"]


def _write_files(lines, notes, error, json_file, junit):
    for write, file in ((write_json, json_file), (write_junit, junit)):
        if file is not None:
            write(lines, notes, error, file)
