"""What README.md and the documents quote from the archive, written into them by `archive`.

The part of a document between the lines ``<!-- archive: NAME -->`` and ``<!-- end -->`` is made by
`parts`; a test compares every such part with what the archive says, so that they cannot differ.
"""

import re
import tempfile
from pathlib import Path

import numpy as np

from ..engine.cache_dirs import write_whole
from .archive import COLUMNS, read_index
from .claims import (
    FAILS,
    FORMS,
    HOLDS,
    NO_DATA,
    SELF_TUNED,
    UNKNOWN,
    form_of,
    judge,
    method_word,
    rows_of,
)
from .figures import ABOUT, answer_picture, paper_figures
from .looks import FAMILIES
from .results import GAPS, label, medians, parse, read_results, to_targets

#: The documents with parts, below the benchmark's folder.
DOCUMENTS = ("README.md", "docs/claims.md", "results/README.md")

PART = re.compile(r"(<!-- archive: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

#: Words for verdicts.
WORDS = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "undecided"}


#: The folder of the archive with every method on problems of all kinds, and what those are
#: called, by their data sets.
FIELD = "field"
KINDS = {
    "Factorised data, A = UV": ("Factorized",),
    "Sparse data": ("Sparse", "SparseUneven", "LIBSVM"),
    "Dense data": ("Unscaled", "Bundled"),
    "Matrix problems": ("MatrixRisk", "TraceRegression"),
    "Metric learning": ("MTLMNN",),
}

#: In the field a curve ends at so many times the fastest one's time, and counts as that.
CUT = 5.0


def archived_frame(folder, apart=None):
    """The rows of an archive's own files, or of those in one of its folders."""
    files = [Path(folder) / name for name in read_index(folder)
             if name.rpartition("/")[0] == (apart or "")]
    return read_results(files)


def fill_documents(folder):
    """Write the parts of all documents, and the pictures, anew; returns the files that changed."""
    root, frame = Path(folder).parent, archived_frame(folder)
    verdicts = judge(frame)
    made, changed = parts(verdicts, read_index(folder), archived_frame(folder, FIELD)), []
    for name in DOCUMENTS:
        text = (root / name).read_text("utf-8")
        if (new := filled(text, made)) != text:
            write_whole(root / name, new.encode())
            changed.append(root / name)
    with tempfile.TemporaryDirectory() as other:
        for file in paper_figures(frame, Path(other), []):
            write_whole(root / "docs" / file.name, file.read_bytes())
            changed.append(root / "docs" / file.name)
    answer_picture(verdicts, root / "docs" / "answer.png")
    return [*changed, root / "docs" / "answer.png"]


def filled(text, made):
    """A document with its parts as they should be."""
    def part(found):
        if found[2] not in made:
            raise ValueError(f"no part of a document is called {found[2]!r}; there are "
                             f"{', '.join(made)}")
        return f"{found[1]}\n{made[found[2]]}\n\n{found[4]}"
    return PART.sub(part, text)


def parts(verdicts, index, field):
    """The parts of documents by their names; `field` is the frame of `FIELD`."""
    by = {(verdict.key, verdict.form): verdict for verdict in verdicts}
    made = {"answer": _answer(by), "overview": _overview(verdicts),
            "decided": _decided(verdicts), "which": _which(field), "files": _files(index),
            "columns": _columns()}
    for key in ABOUT:
        made |= {f"{key} {form}": ratio_table(by[key, form]) for form in FORMS}
    for key in ("dense", "condition", "eigendecompositions"):
        made[key] = ratio_table(by[key, ""])
    made["tables"] = "\n".join(
        f"* {finding.setting}: {finding.reason}." for finding in by["tables", ""].findings
    )
    return made


def bounded(row):
    """A word and the ratio of a comparison, or a bound on it; None if there is neither."""
    if row.ratio is not None:
        return "", row.ratio
    if row.ratio_low is not None and row.ratio_high is not None:
        return "about ", float(np.sqrt(row.ratio_low * row.ratio_high))
    if row.ratio_low is not None:
        return "over ", row.ratio_low
    return None if row.ratio_high is None else ("under ", row.ratio_high)


def _table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _counted(rows):
    """How many of the decided comparisons hold, and the median ratio, for a cell."""
    decided = [row for row in rows if row.outcome != UNKNOWN]
    if not decided:
        return "undecided"
    holds = sum(row.outcome == HOLDS for row in decided)
    text = f"{holds} of {len(decided)}"
    text = f"**{text}**" if holds == len(decided) else text
    known = sorted(filter(None, map(bounded, decided)), key=lambda found: found[1])
    if known:
        sign, middle = known[len(known) // 2]
        text += f", {sign}{_short(middle)}"
    return text


def _short(ratio):
    return f"{ratio:.2g}" if ratio < 10.0 else f"{ratio:.0f}"


def _answer(by):
    """For each figure and rival how many comparisons hold, by the form of DSPDC."""
    rows = []
    for key, about in ABOUT.items():
        for rival in ("SPDC", "SDCA"):
            cells = [_counted(rows_of(by[key, form], rival)) for form in FORMS]
            rows.append([f"{about} ({key})", rival, *cells])
    return _table(["data", "faster than", *FORMS], rows)


def _overview(verdicts):
    return _table(["claim", "DSPDC", "verdict", "comparisons that hold, median ratio"], [
        [f"[{verdict.place}](#{verdict.place.replace(' ', '-').replace('.', '')})",
         verdict.form or "-", WORDS[verdict.outcome], _counted(rows_of(verdict))]
        for verdict in verdicts
    ])


def regrets(field, target=1e-6):
    """Seconds over the best method's on each problem; rows are problems, columns solvers.

    Medians over the repetitions. Solvers of other packages are compared, but are not the best.
    """
    seconds = medians(to_targets(field, [target]))[f"seconds to {target:.0e}"].unstack()
    last = field.groupby("solver_name")["objective_family"].last()
    ours = seconds.columns.difference(last.index[last == FAMILIES.index("peer")])
    best = seconds[ours.drop("Auto", errors="ignore")].min(axis=1)
    seconds = seconds.loc[np.isfinite(best)]
    return seconds.div(best, axis=0).clip(upper=CUT)


def _which(field):
    """For each kind of problem the two methods that come closest to the best in hindsight."""
    regret = regrets(field)
    words = [dataset.partition("[")[0] for dataset, _ in regret.index]
    peers = field.groupby("solver_name")["objective_family"].last() == FAMILIES.index("peer")
    lines = []
    for kind, names in KINDS.items():
        own = regret[[word in names for word in words]]
        # A solver that a problem skips says nothing of the kind.
        means = np.exp(np.log(own.dropna(axis=1)).mean()).sort_values()
        methods = means[[name != "Auto" and not peers[name] for name in means.index]]
        first, second = (f"{_called(name)} ({_short(value)})"
                         for name, value in list(methods.items())[:2])
        lines.append(f"* **{kind}:** {first}, then {second}; `solve(problem)` "
                     f"{_short(means['Auto'])}. {len(own)} problems.")
    return "\n".join(lines)


def _called(name):
    """A solver in few words: the method, and the size of its batches as a share of the rows."""
    word, options = parse(name)
    m, own = options.get("m"), form_of(options) == SELF_TUNED
    if word == "DSPDC":
        return "self-tuned DSPDC" if own else "DSPDC with the paper's steps"
    if not isinstance(m, float):
        return word
    return f"{word} with all rows" if m == 1.0 else f"{word} with m = {m:g} n"


def decided_counts(verdicts):
    """Of all comparisons: how many are decided, undecided, and without data."""
    rows = [row for verdict in verdicts for row in rows_of(verdict)]
    outcomes = [row.outcome for row in rows]
    lacking = sum(row.reason == NO_DATA for row in rows)
    unknown = outcomes.count(UNKNOWN) - lacking
    return len(rows) - unknown - lacking, unknown, lacking


def _decided(verdicts):
    decided, unknown, lacking = decided_counts(verdicts)
    share = 100.0 * unknown / max(decided + unknown, 1)
    return (f"{decided} of {decided + unknown} comparisons are decided, {unknown} ({share:.0f} %) "
            f"are not. {lacking} more lack data.")


def ratio_table(verdict):
    """Ratios of a claim to the stated gaps, a row for each setting and rival."""
    table = {}
    for row in rows_of(verdict):
        if row.reason != NO_DATA:
            one, over = method_word(row.solver), method_word(row.rival)
            over = over if one in ("", "DSPDC") else f"{one} over {over}"
            table.setdefault((row.setting, over), {})[row.gap] = row
    settings = _without_common([setting for setting, _ in table])
    return _table(["setting", "over", *map(label, GAPS)], [
        [setting, over, *(_cell(cells.get(gap)) for gap in GAPS)]
        for setting, ((_, over), cells) in zip(settings, table.items(), strict=True)
    ])


def _cell(row):
    """A ratio with its spread over the seeds, or a bound; a dash where undecided."""
    if row is None or row.outcome == UNKNOWN or bounded(row) is None:
        return "-"
    if row.ratio is None:
        sign, bound = bounded(row)
        return f"{sign}{_short(bound)}"
    low, high = _short(row.ratio_low), _short(row.ratio_high)
    return f"{_short(row.ratio)} ({low} to {high})"


def _without_common(settings):
    """Settings without what all of them share, if something is left of each."""
    taken = [re.findall(r"\(m, q\) = \([^)]*\)|[^,\s][^,]*", one) for one in settings]
    common = set.intersection(*map(set, taken)) if taken else set()
    short = [", ".join(part for part in one if part not in common) for one in taken]
    return short if all(short) else settings


def _files(index):
    rows = []
    for name, entry in index.items():
        seeds = " to ".join(dict.fromkeys(map(str, entry["seeds"])))
        rows.append([
            f"`{name}`", f"{entry['problems']}, {entry['curves']}", seeds,
            f"{entry['wall_seconds'] / 60:.0f}", f"{entry['date']}, {entry['processor']}",
        ])
    return _table(["file", "problems, curves", "seeds", "minutes", "measured"], rows)


def _columns():
    return _table(["column", "what it is"],
                  [[f"`{name}`", text.replace("|", "\\|")] for name, text in COLUMNS.items()])
