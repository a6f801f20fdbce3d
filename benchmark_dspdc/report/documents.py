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
    BY_WORK,
    FORMS,
    HOLDS,
    NO_DATA,
    SELF_TUNED,
    UNKNOWN,
    form_of,
    is_of_dspdc,
    judge,
    method_word,
    rows_of,
)
from .figures import ABOUT, answer_picture, paper_figures
from .looks import FAMILIES
from .results import GAPS, label, medians, parse, read_results, to_targets

#: The documents with parts, below the benchmark's folder.
DOCUMENTS = ("README.md", "docs/claims.md", "docs/methods.md", "results/README.md")

PART = re.compile(r"(<!-- archive: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


#: The folder of the archive with every method on problems of all kinds, and what those are
#: called, by their data sets.
FIELD = "field"
KINDS = {
    "Factorised data, A = UV": ("Factorized",),
    "Sparse data": ("Sparse", "SparseUneven", "LIBSVM"),
    "Dense data": ("Unscaled", "Bundled"),
    "Matrix problems": ("MatrixRisk", "TraceRegression"),
    "Metric learning, small": ("MTLMNN",),
}

#: The solver that chooses a method.
AUTO = "Auto"

#: In the field a curve ends at so many times the fastest one's time, and counts as that.
CUT = 5.0


def archived_frame(folder, apart=None):
    """The rows of an archive's own files, or of those in one of its folders; None without any."""
    files = [Path(folder) / name for name in read_index(folder)
             if name.rpartition("/")[0] == (apart or "")]
    return read_results(files) if files else None


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
    # Without the pairs that are not in order.
    made["tables"] = "\n".join(
        f"* {finding.setting}: {finding.reason.partition('; ')[0]}."
        for finding in by["tables", ""].findings
    )
    return made


def _table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _short(ratio):
    return f"{ratio:.2g}" if ratio < 10.0 else f"{ratio:.0f}"


def _told(low, high):
    """A ratio that lies between two numbers, in words; empty if nothing is known."""
    if np.isnan(low) or (low == 0.0 and np.isinf(high)):
        return ""
    if low == high:
        return _short(low)
    if np.isinf(high):
        return f"at least {_short(low)}"
    return f"at most {_short(high)}" if low == 0.0 else f"{_short(low)} to {_short(high)}"


def _counted(rows):
    """How many of the decided comparisons are won, and the median ratio, for a cell."""
    decided = [row for row in rows if row.outcome != UNKNOWN]
    if not decided:
        return "undecided"
    won = sum(row.won for row in decided)
    text = f"{won} of {len(decided)}"
    text = f"**{text}**" if won == len(decided) else text
    known = [row.between for row in decided if not np.isnan(row.between[0])]
    middle = _told(*np.median(known, axis=0)) if known else ""
    return f"{text}, {middle}" if middle else text


def _answer(by):
    """For each figure and rival how many comparisons DSPDC wins, by its form."""
    rows = []
    for key, about in ABOUT.items():
        for rival in ("SPDC", "SDCA"):
            cells = [_counted(rows_of(by[key, form], rival)) for form in FORMS]
            rows.append([f"{about} ({key})", rival, *cells])
    return _table(["data", "faster than", *FORMS], rows)


def _overview(verdicts):
    rows = []
    for verdict in verdicts:
        found = [row for row in rows_of(verdict) if row.outcome != UNKNOWN]
        holds = sum(row.outcome == HOLDS for row in found)
        unknown = sum(row.outcome == UNKNOWN and row.reason != NO_DATA for row in rows_of(verdict))
        anchor = verdict.place.replace(" ", "-").replace(".", "")
        rows.append([f"[{verdict.place}](#{anchor})", verdict.form or "-",
                     verdict.outcome, f"{holds} of {len(found)}", str(unknown)])
    return _table(["claim", "DSPDC", "verdict", "comparisons that hold", "undecided"], rows)


def _peers(field):
    family = field.groupby("solver_name")["objective_family"].last()
    return family.index[family == FAMILIES.index("peer")]


def regrets(field, target=1e-6):
    """Seconds over the best method's on each problem; rows are problems, columns solvers.

    Medians over the repetitions. Solvers of other packages are compared, but are not the best.
    """
    seconds = medians(to_targets(field, [target]))[f"seconds to {target:.0e}"].unstack()
    best = seconds.drop(columns=[*_peers(field), AUTO], errors="ignore").min(axis=1)
    return seconds[np.isfinite(best)].div(best[np.isfinite(best)], axis=0).clip(upper=CUT)


def _which(field):
    """For each kind of problem the two methods that come closest to the best in hindsight."""
    if field is None:
        return "No run of all methods is archived."
    regret = regrets(field)
    words = [dataset.partition("[")[0] for dataset, _ in regret.index]
    lines = []
    for kind, names in KINDS.items():
        # A solver that a problem skips says nothing of the kind.
        own = regret[[word in names for word in words]].dropna(axis=1)
        means = np.exp(np.log(own).mean()).sort_values()
        told = [f"{_called(name)} ({_short(value)})"
                for name, value in means.drop([*_peers(field), AUTO], errors="ignore").items()]
        if told:
            auto = f"; `solve(problem)` {_short(means[AUTO])}" if AUTO in means else ""
            lines.append(f"* **{kind}** ({len(own)} problems): {', then '.join(told[:2])}{auto}.")
    return "\n".join(lines)


def _called(name):
    """A solver in few words: the method, and the size of its batches as a share of the rows."""
    word, options = parse(name)
    m, own = options.get("m"), form_of(options) == SELF_TUNED
    if word == "DSPDC":
        return "self-tuned DSPDC" if own else "DSPDC, the paper's steps"
    if not isinstance(m, float):
        return word
    return f"{word} with all rows" if m == 1.0 else f"{word} with m = {m:g} n"


def decided_counts(verdicts):
    """Of all comparisons, each once: how many are decided, undecided, and without data."""
    rows = {}
    for verdict in verdicts:
        for row in rows_of(verdict):
            # Section 5.2 has some of figure 3's.
            own = () if row.solver and row.wanted == "faster" else (verdict.key, verdict.form)
            rows.setdefault((row.setting, row.solver, row.rival, row.gap, *own), row)
    outcomes = [row.outcome for row in rows.values()]
    lacking = sum(row.reason == NO_DATA for row in rows.values())
    unknown = outcomes.count(UNKNOWN) - lacking
    return len(rows) - unknown - lacking, unknown, lacking


def _decided(verdicts):
    decided, unknown, lacking = decided_counts(verdicts)
    share = 100.0 * unknown / max(decided + unknown, 1)
    return (f"{decided} of {decided + unknown} comparisons are decided, {unknown} ({share:.0f} %) "
            f"are not. {lacking} more need data that were not available.")


def ratio_table(verdict):
    """Ratios of a claim to the stated gaps, a row for each setting and rival."""
    table = {}
    for row in rows_of(verdict):
        if row.reason != NO_DATA:
            over = method_word(row.rival)
            if not is_of_dspdc(row):
                over = f"{over} (of {method_word(row.solver)})"
            table.setdefault((row.setting, over), {})[row.gap] = row
    settings = _without_common([setting for setting, _ in table])
    return _table(["setting", "rival", *map(label, GAPS)], [
        [setting, over, *(_cell(cells.get(gap)) for gap in GAPS)]
        for setting, ((_, over), cells) in zip(settings, table.items(), strict=True)
    ])


def _cell(row):
    """A ratio with its spread over the seeds, or a bound; a dash where undecided."""
    if row is None or row.outcome == UNKNOWN:
        return "-"
    text = _told(*row.between) or "differs by seed"
    if row.ratio is None:
        return text
    by_work = ", by work" if row.reason == BY_WORK else ""
    return f"{text} ({_short(row.ratio_low)} to {_short(row.ratio_high)}{by_work})"


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
            _short(entry["wall_seconds"] / 60), f"{entry['date']}, {entry['processor']}",
        ])
    return _table(["file", "problems, curves", "seeds", "minutes", "measured"], rows)


def _columns():
    return _table(["column", "what it is"],
                  [[f"`{name}`", text.replace("|", "\\|")] for name, text in COLUMNS.items()])
