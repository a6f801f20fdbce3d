"""The paper's claims, and whether a result file bears them out.

A comparison is of times, seed by seed: the ratio of the rival's time to DSPDC's, to each of the
stated gaps. Where only one of the two reached a gap the time that the other was given bounds the
ratio, and counts if that tells which is faster. A claim that DSPDC is faster holds if the 10 %
quantile of the ratio over the seeds (with ten or fewer the least) is above 1 at every gap that
counts. Rivals have the same m; of several variants of a rival in the file the fastest to each gap
is taken. What the figures show is judged of three forms of DSPDC: as the paper states it, with
partitions and their constant, and tuning itself, beside rivals of any m.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from . import results
from .results import EIGENDECOMPOSITIONS, GAPS, ITERATIONS, label, method_of, parse

HOLDS, FAILS, UNKNOWN = "holds", "fails", "undecided"

#: Why comparisons are undecided: there are no data, or nobody has run them.
NO_DATA, NOT_RUN = "data not available", "not in the file"

#: What is said of a comparison that times alone do not decide.
BY_WORK = "by work: which takes longer differs by seed"

#: Where partitions have their exact constant, or nearly that.
EXACT = ("auto", "partition")

#: What a ratio is a bound of: of one side with some seeds, or of both.
AT_LEAST, AT_MOST, DISAGREE = "at least ", "at most ", "seeds disagree, about "

#: A ratio of times between these is called a tie, one of iteration counts similar.
TIE, SIMILAR = 1.25, 2.0

#: The forms of DSPDC that the figures are judged for: the paper's, the same with partitions and
#: their constant, and the one that tunes itself, of which the paper's sentence might be true.
AS_STATED, PARTITIONS, SELF_TUNED = "as stated", "partitions", "self-tuned"
FORMS = (AS_STATED, PARTITIONS, SELF_TUNED)

#: The settings of the paper's figures.
FIGURE_1 = [(5000, 100, 20), (10000, 100, 50), (10000, 500, 50)]
FIGURE_2 = ("covtype.binary", "rcv1.binary", "real-sim")
STAND_INS = {"news20": "rcv1.binary", "a9a": "real-sim", "aloi_like": "aloi", "mnist": "aloi",
             "letter": "aloi"}
FIGURE_3 = [(100, 100, 100), (100, 100, 200)]

#: (lambda1, lambda2) of figure 1, the constants of the others, and the loss of all.
ELASTIC_NETS = [(0.001, 0.01), (1e-06, 1e-05)]
CONSTANTS_2 = dict(lambda1=0.0001, lambda2=0.01)
CONSTANTS_3 = dict(lam=0.01)
CONSTANTS_4 = dict(lambda0=0.01, lam=0.1)
LOSS = "smoothed_hinge"

#: Its block sizes (m, q): those of figures 1 and 3, and of figure 4 with q as a share of p.
PAIRS_1 = [(1, 50)]
PAIRS_3 = [(5, 50), (50, 5), (20, 20)]
PAIRS_4 = [(2000, 0.2), (4000, 0.2), (8000, 0.4)]


class Ratio(NamedTuple):
    """Ratios of times over the seeds, to one gap; `bound` is "at least " or "at most " if so."""

    gap: float
    median: float
    low: float
    high: float
    seeds: int
    bound: str = ""
    #: The median of the rival's passes over DSPDC's, and the 10 % quantile of that of its passes,
    #: on matrices of its eigendecompositions; NaN where one did not get there.
    passes: float = math.nan
    work_low: float = math.nan

    def __str__(self):
        spread = "" if self.seeds == 1 else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{label(self.gap)}: {self.bound}{self.median:.2f}{spread}"


class Comparison(NamedTuple):
    """DSPDC beside a rival to one gap, a row of ``verdicts.json``; `ratio` is as in `Ratio`.

    Where one of the two did not get there there is no ratio, and `ratio_low` or `ratio_high` is
    a bound on it.
    """

    setting: str
    rival: str
    gap: float
    outcome: str
    reason: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    passes_ratio: float | None = None
    seeds: int = 0
    #: The DSPDC, or in figure 2 the SPDC, that is compared; empty where none was run.
    solver: str = ""
    #: What the paper says of it: "faster", "slower", "tie" or "similar".
    wanted: str = "faster"

    @property
    def won(self):
        """Whether it was faster, or needed less, whatever the paper says."""
        if self.wanted == "faster":
            return self.outcome == HOLDS
        return self.ratio_low is not None and self.ratio_low > 1.0

    @property
    def between(self):
        """The least and the largest that the ratio can be; NaN where nothing is known."""
        if self.ratio is not None:
            return self.ratio, self.ratio
        if self.ratio_low is None and self.ratio_high is None:
            return math.nan, math.nan
        return self.ratio_low or 0.0, self.ratio_high or math.inf


class Finding(NamedTuple):
    """What was found of a claim on one problem.

    `setting` is the problem, for people, and `variant` which DSPDC against which rival; `outcome`
    is `HOLDS`, `FAILS` or `UNKNOWN`; `reason` says why it is undecided, or what else there is
    to say.
    """

    setting: str
    variant: str
    outcome: str
    ratios: tuple = ()
    reason: str = ""
    comparisons: tuple = ()
    #: The names of data set, objective, DSPDC and rival, where both were run; and whether a gap
    #: decides only if both get there.
    pair: tuple = ()
    both: bool = False


class Verdict(NamedTuple):
    """A claim, where the paper makes it, and all that was found of it.

    `form` says of which DSPDC, one of `FORMS`; it is empty where the claim leaves no choice.
    """

    key: str
    claim: str
    place: str
    findings: tuple
    form: str = ""

    @property
    def outcome(self):
        """It holds if it does in every setting that was measured, and at least one was."""
        outcomes = [finding.outcome for finding in self.findings]
        return next((found for found in (FAILS, HOLDS) if found in outcomes), UNKNOWN)

    @property
    def counts(self):
        """How many findings have each outcome, for people."""
        outcomes = [finding.outcome for finding in self.findings]
        holds, fails, unknown = map(outcomes.count, (HOLDS, FAILS, UNKNOWN))
        shown = {
            "holds" if holds == 1 else "hold": holds, "fails" if fails == 1 else "fail": fails,
            "undecided": unknown,
        }
        return ", ".join(f"{count} {words}" for words, count in shown.items() if count)

    @property
    def measured(self):
        """The ratios of all findings in a line, for people; empty if there are none."""
        every = [ratio for finding in self.findings for ratio in finding.ratios]
        if not every:
            return ""
        _, medians, lows, highs, seeds, bounds, *_ = zip(*every, strict=True)
        shown = " to ".join(dict.fromkeys(f"{k(medians):.2f}" for k in (min, max)))
        if max(seeds) > 1:
            shown += f" (seeds {min(lows):.2f} to {max(highs):.2f})"
        if any(bounds):
            shown += ", some are bounds"
        count = " to ".join(dict.fromkeys(str(k(seeds)) for k in (min, max)))
        return f"{shown}, {count} seed{'' if max(seeds) == 1 else 's'}"


class Problem(NamedTuple):
    """A problem of a file, its names taken apart, with its rows and what runs took to `GAPS`."""

    kind: str
    data: dict
    constants: dict
    rows: object
    runs: object
    names: tuple = ()

    @property
    def setting(self):
        """The problem for people; a data set with what it stands in for."""
        known = {**self.data, **self.constants}
        stands_in = {name: f"{name} (for {original})" for name, original in STAND_INS.items()}
        shown = [stands_in.get(known[k], known[k]) for k in ("name", "source") if k in known]
        modulus = "lambda2" if "lambda2" in known else "lam"
        sizes = ("scale", "n_impostors", "n", "p", "d", "lambda1", modulus)
        shown += [f"{k}={known[k]}" for k in sizes if k in known]
        return ", ".join(str(text) for text in shown
                         if text not in ("none", "scale=none", "n_impostors=1"))

    @property
    def sizes(self):
        return tuple(self.data.get(k) for k in "npd")

    def has(self, **constants):
        """Whether the loss and the constants are the paper's, as far as the names tell."""
        return all(self.constants.get(k, v) == v for k, v in dict(constants, loss=LOSS).items())

    def solvers(self, method, m=None):
        """Names and options of the solvers of a method, all or those with so many rows a step."""
        found = ((name, *method_of(name)) for name in dict.fromkeys(self.rows["solver_name"]))
        return {
            name: options for name, known, options in found
            if known == method and (
                m is None or same_sizes((options.get("m", 1),), (m,), self.sizes[:1])
            )
        }

    def fastest(self, method, m):
        """Of the solvers of a method the fastest to each gap, with the gaps; none if it has none.

        Where none got there with most seeds it is the one that gets furthest, then soonest.
        """
        runs = {name: self.runs.loc[name] for name in self.solvers(method, m)}
        medians = {
            name: [own[f"seconds to {gap:.0e}"].fillna(math.inf).median() for gap in GAPS]
            for name, own in runs.items()
        }

        def furthest(name):
            return [math.isinf(t) for t in reversed(medians[name])] + medians[name][::-1]
        found = {}
        for k, gap in enumerate(GAPS if runs else ()):
            best = min(runs, key=lambda name: (medians[name][k], furthest(name)))
            found.setdefault(best, []).append(gap)
        return found

    def has_pair(self, pairs):
        """Whether a DSPDC has one of these block sizes."""
        return any(self.among(options, pairs) for options in self.solvers("dspdc").values())

    def among(self, options, pairs):
        """Whether the block sizes of options are one of some pairs."""
        own = options.get("m"), options.get("q")
        return any(same_sizes(own, pair, self.sizes[:2]) for pair in pairs)

    def unknown(self, reason=NOT_RUN, variant="", rivals=(), pair=None):
        return _unknown(self.setting, reason, rivals, [pair], variant)


def _unknown(setting, reason=NOT_RUN, rivals=(), pairs=(None,), variant=""):
    """A finding that nothing is known, with the comparisons that it lacks."""
    lacking = tuple(
        Comparison(_with_sizes(setting, pair), rival.upper(), gap, UNKNOWN, reason)
        for pair in pairs for rival in rivals for gap in GAPS
    )
    return Finding(setting, variant, UNKNOWN, (), reason, lacking)


def _with_sizes(setting, pair):
    """A setting with block sizes (m, q); with m alone where all columns are in one block."""
    if pair is None:
        return setting
    return setting + (", m = {}" if pair[1] is None else ", (m, q) = ({}, {})").format(*pair)


def judge(frame):
    """Every claim with what the frame says of it.

    Parameters
    ----------
    frame : DataFrame
        From `results.read_results`.

    Returns
    -------
    list of Verdict
    """
    frame = results.of_gaps(frame)
    runs = results.to_targets(frame, GAPS).sort_index()
    there = [
        Problem(*parse(dataset), parse(objective)[1], rows, runs.loc[dataset, objective],
                (dataset, objective))
        for (dataset, objective), rows in results.problems(frame)
    ]
    return [
        Verdict(key, claim.text, claim.place, tuple(claim.find(there, form)), form)
        for key, claim in CLAIMS.items() for form in claim.forms
    ]


def as_json(verdicts):
    """What ``verdicts.json`` has: every claim with all its comparisons."""
    return dict(claims=[
        dict(
            id=verdict.key, claim=verdict.claim, where=verdict.place, form=verdict.form,
            verdict=verdict.outcome, comparisons=[row._asdict() for row in rows_of(verdict)],
        ) for verdict in verdicts
    ])


def rows_of(verdict, rival=None):
    """The comparisons of a verdict; with a rival, those of DSPDC with this method."""
    rows = [row for finding in verdict.findings for row in finding.comparisons]
    if rival is None:
        return rows
    return [row for row in rows if method_word(row.rival) == rival and is_of_dspdc(row)]


def is_of_dspdc(row):
    """Whether a comparison is of a DSPDC, or would be."""
    return method_word(row.solver) in ("", "DSPDC")


def method_word(name):
    return parse(name)[0].upper()


# Selecting runs ------------------------------------------------------------------------

def same_sizes(one, other, totals=(None, None)):
    """Whether two tuples of block sizes are the same; a count of 1 is not a share of 1.0.

    Where it is known of how many they are, a share is the count that it stands for.
    """
    def counted(size, total):
        known = isinstance(size, float) and isinstance(total, int)
        return max(1, round(size * total)) if known else size
    pairs = ((counted(a, k), counted(b, k)) for a, b, k in zip(one, other, totals, strict=True))
    return all(type(a) is type(b) and a == b for a, b in pairs)


def _stated(options):
    return options.get("sampling") == "subset" and options.get("Lambda") == "heuristic"


#: What the name of a DSPDC may say of one that tunes itself.
SELF_TUNED_BY = {"m": "auto", "q": "auto", "steps": "block", "order": "permuted", "adaptive": True}

#: What the name of a DSPDC may say of one that is the paper's.
OF_THE_PAPER = {"steps": "theorem", "order": "random", "adaptive": False}


def form_of(options):
    """Which of `FORMS` a DSPDC is, None if it is not the paper's but for blocks and constant.

    One that tunes itself chooses its block sizes.
    """
    if options.items() <= SELF_TUNED_BY.items() and options.get("adaptive", True):
        return SELF_TUNED if is_auto(options) else None
    own = {name for name, value in options.items() if OF_THE_PAPER.get(name, ...) != value}
    if own - {"m", "q", "sampling", "Lambda", "moduli"}:
        return None
    if _stated(options):
        return AS_STATED
    exact = options.get("Lambda", "auto") in EXACT
    return PARTITIONS if exact and options.get("sampling", "partition") == "partition" else None


def ratios(problem, fast, slow):
    """`Ratio` of slow to fast at those of `GAPS` where each seed has one or a bound that tells.

    Of the seeds that both have.
    """
    one, other = problem.runs.loc[fast], problem.runs.loc[slow]
    both = one.index.intersection(other.index)
    # Not frames: all figures have hundreds of pairs.
    one, other = ({name: own[name].to_numpy() for name in own}
                  for own in (one.loc[both], other.loc[both]))
    found = []
    for gap in GAPS if len(both) else ():
        key = f"seconds to {gap:.0e}"
        ratio, least = other[key] / one[key], other["seconds"] / one[key]
        most, open_ = other[key] / one["seconds"], np.isnan(ratio)
        below, above = open_ & (least > 1.0), open_ & (most < 1.0)
        every = np.where(below, least, np.where(above, most, ratio))
        if np.isnan(every).any():
            continue
        bound = AT_LEAST if below.any() else AT_MOST if above.any() else ""
        if bound and every.min() <= 1.0 <= every.max():
            bound = DISAGREE
        passes = other[f"passes to {gap:.0e}"] / one[f"passes to {gap:.0e}"]
        work, eigs = passes, f"eigendecompositions to {gap:.0e}"
        if eigs in one and (one[eigs] > 0.0).all():
            work = other[eigs] / one[eigs]
        found.append(_ratio(gap, every)._replace(
            bound=bound, passes=float(np.median(passes)),
            work_low=math.nan if np.isnan(work).any() else _ratio(gap, work).low,
        ))
    return tuple(found)


def _ratio(gap, values):
    # Of values that occurred, so that with few seeds the worst of them counts in full.
    low, high = np.quantile(values, (0.1, 0.9), method="inverted_cdf")
    return Ratio(gap, float(np.median(values)), float(low), float(high), len(values))


def _outcome(ratio, wanted):
    """What a ratio says of "DSPDC is faster", or of another wish; `UNKNOWN` if too little."""
    # Time decides; work does where time is within the spread.
    close = not ratio.bound and ratio.low <= 1.0 <= ratio.high
    faster = ratio.low > 1.0 or (close and ratio.work_low > 1.0)
    if wanted == "tie":
        # A bound can only tell that it is none.
        good = _is_tie(ratio)
        return UNKNOWN if good and ratio.bound else HOLDS if good else FAILS
    return HOLDS if faster == (wanted == "faster") else FAILS


def _compared(problem, fast, slow, gaps, wanted, lost):
    """The `Comparison` to each gap, of a finding that has lost some seeds, and the ratios."""
    known = {ratio.gap: ratio for ratio in ratios(problem, fast, slow)}
    options = method_of(fast)[1]
    pair = None if is_auto(options) else (options.get("m", 1), options.get("q"))
    found, setting = [], _with_sizes(problem.setting, pair)
    for gap in gaps:
        ratio = known.get(gap)
        if ratio is None:
            reason = _too_early(problem, fast, slow, gap)
            found.append(Comparison(setting, slow, gap, UNKNOWN, reason, solver=fast,
                                    wanted=wanted))
            continue
        outcome, reason = _outcome(ratio, wanted), ""
        if outcome == HOLDS and lost:
            # The seeds that are left are the ones that went well.
            outcome, reason = UNKNOWN, lost
        elif outcome == UNKNOWN:
            reason = "only one of the two reached the gap, too late to tell"
        elif outcome == HOLDS and wanted == "faster" and ratio.low <= 1.0:
            reason = BY_WORK
        found.append(Comparison(
            setting, slow, gap, outcome, reason, None if ratio.bound else ratio.median,
            ratio.low if ratio.bound in ("", AT_LEAST) else None,
            ratio.high if ratio.bound in ("", AT_MOST) else None,
            ratio.passes if math.isfinite(ratio.passes) else None, ratio.seeds, fast,
            wanted,
        ))
    return tuple(found), tuple(
        ratio for ratio, row in zip(map(known.get, gaps), found, strict=True)
        if ratio and (row.outcome != UNKNOWN or row.reason == lost)
    )


def _too_early(problem, fast, slow, gap):
    """Why a gap decides nothing, in words."""
    def told(name):
        runs = problem.runs.loc[name]
        given, reached = runs["seconds"].median(), runs[f"seconds to {gap:.0e}"].notna().sum()
        if reached:
            return f"{name} got there with {reached} of {len(runs)} seeds in {given:.3g} s"
        return f"{name} came to {runs['final gap'].median():.1e} in {given:.3g} s"
    return f"{told(fast)}, {told(slow)}"


def is_auto(options):
    """Whether a DSPDC chose its block sizes."""
    return "auto" in (options.get("m", "auto"), options.get("q"))


def _lost_seeds(problem, *solvers):
    """In words, the seeds that a solver was asked for, or others have, and has not."""
    rows = problem.rows
    asked = {}
    if results.ASKED in rows:
        asked = rows.groupby("solver_name")[results.ASKED].max().dropna().astype(int)
    every = problem.runs.index.get_level_values("idx_rep").nunique()
    counts = {name: (asked.get(name, every), len(problem.runs.loc[name])) for name in solvers}
    return "; ".join(
        f"{all_of - own} of {all_of} seeds of {name} failed or diverged"
        for name, (all_of, own) in counts.items() if own < all_of
    )


def _one_sided(problem, fast, slow, gaps, found):
    """In words, the gaps that only one of two solvers reached with every seed and do not count."""
    def reached(name):
        runs = problem.runs.loc[name]
        there = {gap for gap in gaps if runs[f"seconds to {gap:.0e}"].notna().all()}
        return there - {ratio.gap for ratio in found}
    one, other = reached(fast), reached(slow)
    return "; ".join(
        f"only {name} reached {', '.join(map(label, sorted(alone, reverse=True)))}"
        for name, alone in ((fast, one - other), (slow, other - one)) if alone
    )


def _faster(problem, fast, slow, gaps, wanted="faster"):
    """The finding of a pair: it fails if it does to any gap, and holds if it does to the rest."""
    variant, lost = f"{fast} over {slow}", _lost_seeds(problem, fast, slow)
    compared, found = _compared(problem, fast, slow, gaps, wanted, lost)
    told = "; ".join(filter(None, (lost, _one_sided(problem, fast, slow, gaps, found))))
    outcomes = [row.outcome for row in compared]
    outcome = next((known for known in (FAILS, HOLDS) if known in outcomes), UNKNOWN)
    if not found:
        came = (f"{name} came to {problem.runs.loc[name]['final gap'].median():.1e}"
                for name in (fast, slow))
        told = f"no stated gap tells which is faster with every seed: {', '.join(came)}; {told}"
    return Finding(problem.setting, variant, outcome, found, told.strip("; "), compared,
                   (*problem.names, fast, slow))


def _is_tie(ratio):
    return 1.0 / TIE <= ratio.median <= TIE


def _against(problem, *rivals, form=None, pairs=None, wanted="faster", chosen=None):
    """DSPDC against rivals with the same m; one that tunes itself against their fastest.

    Of a form, or of both of the paper's; with each of the given pairs of block sizes, of which
    those that were not run are named, or with all that it did not choose by itself.
    """
    findings = []
    tuned = form == SELF_TUNED
    solvers = {
        name: options for name, options in problem.solvers("dspdc").items()
        if is_auto(options) == tuned
        and (form_of(options) == form if form else form_of(options))
        and (tuned or chosen is None or chosen(options))
    }
    for rival in rivals:
        for pair in () if tuned or not pairs else pairs:
            if not any(problem.among(options, [pair]) for options in solvers.values()):
                variant = f"DSPDC with (m, q) = {pair} over {rival.upper()}"
                findings.append(problem.unknown(NOT_RUN, variant, [rival], pair))
        for name, options in solvers.items():
            if not tuned and pairs is not None and not problem.among(options, pairs):
                continue
            m = None if tuned else options["m"]
            best = problem.fastest(rival, m)
            findings += [_faster(problem, name, *one, wanted) for one in best.items()]
            if not best:
                reason = f"no {rival.upper()} with m={m} in the file"
                if tuned:
                    reason = f"no {rival.upper()} in the file"
                findings.append(problem.unknown(reason, name, [rival]))
    return findings or [problem.unknown("DSPDC was not run", "DSPDC", rivals)]


# The claims: what a file has of each, as findings ------------------------------------------

RIVALS = ("spdc", "sdca")


def _pairs(form, pairs):
    """The block sizes that a form is judged with; it may choose them."""
    return [None] if form == SELF_TUNED else pairs


def _figure_1(there, form):
    findings = []
    for sizes, net in product(FIGURE_1, ELASTIC_NETS):
        chosen = [
            problem for problem in there
            if problem.kind == "Factorized" and not problem.data.get("materialize")
            and problem.has() and problem.sizes == sizes and problem.has_pair(PAIRS_1)
            and tuple(problem.constants.get(k) for k in ("lambda1", "lambda2")) == net
        ]
        for problem in chosen:
            findings += _against(problem, "spdc", "sdca", form=form, pairs=PAIRS_1)
        if not chosen:
            setting = "n={}, p={}, d={}, lambda1={}, lambda2={}".format(*sizes, *net)
            findings.append(_unknown(setting, NOT_RUN, RIVALS, _pairs(form, PAIRS_1)))
    return findings


def _figure_2(there, form):
    findings, known = [], set()
    for problem in there:
        name = problem.data.get("name")
        if (
            problem.kind != "LIBSVM" or problem.data.get("reduction") != "feature"
            or problem.data.get("d", 20) != 20 or not problem.has(**CONSTANTS_2)
            or STAND_INS.get(name, name) not in FIGURE_2
        ):
            continue
        known.add(name)
        findings += _against(problem, "sdca", form=form)
        if form == AS_STATED:
            sizes = {options.get("m", 1) for options in problem.solvers("dspdc").values()
                     if form_of(options) == form}
            findings += [
                _faster(problem, solver, *one)
                for solver, options in problem.solvers("spdc").items()
                if options.get("m", 1) in sizes and options.get("steps", "authors") == "authors"
                for one in problem.fastest("sdca", options.get("m", 1)).items()
            ]
        wanted = "tie" if STAND_INS.get(name, name) == "real-sim" else "faster"
        findings += _against(problem, "spdc", form=form, wanted=wanted)
    return findings + [
        _unknown(name, NO_DATA, RIVALS) for name in FIGURE_2 if name not in known
    ]


def _figure_3(there, form):
    findings, known = [], set()
    for problem in there:
        if (problem.kind == "MatrixRisk" and problem.has(**CONSTANTS_3)
                and problem.sizes in FIGURE_3):
            known.add(problem.sizes)
            findings += _against(problem, "spdc", "sdca", form=form, pairs=PAIRS_3)
    lacking = [sizes for sizes in FIGURE_3 if sizes not in known]
    return findings + [
        _unknown("n={}, p={}, d={}".format(*sizes), NOT_RUN, RIVALS, _pairs(form, PAIRS_3))
        for sizes in lacking
    ]


def _figure_4(there, form):
    chosen = [
        problem for problem in there if problem.kind == "MTLMNN" and problem.has(**CONSTANTS_4)
    ]
    findings = [
        finding for problem in chosen
        for finding in _against(problem, "spdc", "sdca", form=form, pairs=PAIRS_4)
    ]
    if not chosen:
        findings.append(_unknown("aloi_like (for aloi)", NOT_RUN, RIVALS, _pairs(form, PAIRS_4)))
    if not any(problem.data.get("source") == "aloi" for problem in chosen):
        findings.append(_unknown("aloi", NO_DATA, RIVALS, _pairs(form, PAIRS_4)))
    return findings


def _dense(there, form):
    def in_part(options):
        return options.get("q") != 1.0 or isinstance(options["q"], int)
    return [
        finding for problem in there
        if problem.data.get("materialize") is True or problem.kind == "Bundled"
        for finding in _against(problem, "spdc", wanted="slower", chosen=in_part)
    ] or [_unknown("dense A", rivals=RIVALS[:1])]


def _eigendecompositions(there, form):
    findings = []
    for problem in there:
        if problem.kind not in ("MatrixRisk", "MTLMNN") or ITERATIONS not in problem.rows:
            continue
        p = _blocks(problem)
        for name, options in problem.solvers("dspdc").items():
            m, q = options.get("m"), options.get("q")
            is_share = isinstance(q, float) and 0.0 < q <= 1.0
            if p is None or m in (None, "auto") or _stated(options) or not (
                    is_share or _is_size(q)):
                continue
            same = [
                other for other, theirs in problem.solvers("spdc", m).items()
                if theirs.get("steps") == "dspdc"
            ]
            if same:
                count = max(1, round(q * p)) if is_share else q
                findings.append(_work_of(problem, name, same[0], count / p))
    return findings or [_unknown("matrix problems", rivals=RIVALS[:1])]


def _is_size(value):
    """Whether something out of a name is a count."""
    return isinstance(value, int) and value > 0


def _blocks(problem):
    """How many blocks of columns a problem has, None if that is not known."""
    if problem.kind == "MatrixRisk":
        p = problem.data.get("p")
        return p if _is_size(p) else None
    column = "objective_block_columns"
    if column not in problem.rows:
        return None
    spdc = problem.rows[problem.rows["solver_name"].str.startswith("SPDC")][column]
    spdc = spdc[np.isfinite(spdc) & (spdc >= 1)]
    return int(spdc.max()) if len(spdc) else None


def _work_of(problem, fast, slow, share):
    """Eigendecompositions an iteration, and iterations to the gaps, of two solvers."""
    def each(name):
        rows = problem.rows[problem.rows["solver_name"] == name]
        last = rows.groupby("idx_rep").tail(1)
        return float((last[EIGENDECOMPOSITIONS] / last[ITERATIONS]).median())
    variant = f"{fast} over {slow}"
    mine, theirs = each(fast), each(slow)
    if not (math.isfinite(mine) and math.isfinite(theirs) and theirs > 0.0):
        return problem.unknown("no eigendecompositions to compare", variant)
    done = mine / theirs
    one, other = problem.runs.loc[fast], problem.runs.loc[slow]
    both = one.index.intersection(other.index)
    one, other = one.loc[both], other.loc[both]
    found = []
    for gap in GAPS:
        ratio = one[f"iterations to {gap:.0e}"] / other[f"iterations to {gap:.0e}"]
        if len(both) and ratio.notna().all():
            found.append(_ratio(gap, ratio))
    text = f"eigendecompositions an iteration {done:.3f} times, q/p = {share:.3f}"
    good = [done <= 1.1 * share and 1 / SIMILAR <= r.median <= SIMILAR for r in found]
    known = dict(zip([r.gap for r in found], zip(found, good, strict=True), strict=True))
    options = method_of(fast)[1]
    setting, rows = _with_sizes(problem.setting, (options["m"], options["q"])), []
    for gap in GAPS:
        if gap not in known:
            reason = _too_early(problem, fast, slow, gap)
            rows.append(Comparison(setting, slow, gap, UNKNOWN, reason, solver=fast,
                                   wanted="similar"))
            continue
        r, fine = known[gap]
        rows.append(Comparison(setting, slow, gap, HOLDS if fine else FAILS, "", r.median, r.low,
                               r.high, None, r.seeds, fast, "similar"))
    outcome = UNKNOWN if not good else HOLDS if all(good) else FAILS
    return Finding(problem.setting, variant, outcome, tuple(found),
                   f"{text}; ratios are of iterations", tuple(rows),
                   (*problem.names, fast, slow), True)


def _condition(there, form):
    findings = []
    for problem in there:
        columns = "objective_Lambda_11", "objective_Lambda_p1"
        if problem.kind != "MatrixRisk" or not set(columns) <= set(problem.rows):
            continue
        known = problem.rows[list(columns)]
        known = known[(np.isfinite(known) & (known >= 0.0)).all(axis=1)]
        if known.empty:
            continue
        (entry, row), (_, p, d) = known.iloc[0], problem.sizes
        if not (_is_size(p) and _is_size(d)):
            findings.append(problem.unknown("p and d are not in the name of the data"))
            continue
        left, right = math.sqrt(entry) * p, math.sqrt(row) * d
        text = f"sqrt(Lambda_11) p = {left:.3g}, sqrt(Lambda_p1) d = {right:.3g}"
        if left > right:
            reason = f"the condition is not met: {text}"
            findings.append(problem.unknown(reason, "DSPDC over SPDC"))
        else:
            findings += [
                finding._replace(reason=f"{text}. {finding.reason}".strip())
                for finding in _against(problem, "spdc", form=PARTITIONS)
            ]
    return findings or [_unknown("matrix risk", rivals=RIVALS[:1])]


def _tables(there, form):
    return [
        _order(problem) for problem in there
        if problem.kind in ("Factorized", "MatrixRisk") and problem.has_pair([(1, 1)])
    ] or [_unknown("DSPDC with m=1, q=1", "configs/tables.yml runs it")]


#: Predicted costs that differ by less are not ordered.
CLEAR = 1.5

#: What a pass and an eigendecomposition cost, and what a method's rate says of all it does.
COSTS = ("objective_pass_cost", "objective_eigendecomposition_cost")
PREDICTED = "objective_predicted_cost"


def _order(problem):
    """Pairs of methods that the tables order clearly, and how many are measured in that order.

    To the least of the gaps that half of the methods reached with every seed.
    """
    variant = "all methods with m = 1"
    if not {PREDICTED, *COSTS} <= set(problem.rows):
        reason = "the file has no predicted costs: it is of an earlier version"
        return problem.unknown(reason, variant)
    rows = problem.rows[np.isfinite(problem.rows[[PREDICTED, *COSTS]]).all(axis=1)]
    predicted = rows.groupby("solver_name", sort=False)[PREDICTED].first()
    if predicted.empty:
        reason = "no costs were predicted: the problem is too large, or no method has m = 1"
        return problem.unknown(reason, variant)
    each_pass, each_eigendecomposition = rows[[*COSTS]].iloc[0]
    for gap in reversed(GAPS):
        known = {}
        for solver, of_all in predicted.items():
            runs = problem.runs.loc[solver]
            cost = each_pass * runs[f"passes to {gap:.0e}"]
            if each_eigendecomposition and EIGENDECOMPOSITIONS in problem.rows:
                cost += each_eigendecomposition * runs[f"eigendecompositions to {gap:.0e}"]
            if (cost > 0.0).all():
                known[solver] = of_all, cost
        if 2 * len(known) >= len(predicted):
            break
    right, wrong = 0, []
    for one, (less, cost) in known.items():
        for other, (more, cost_other) in known.items():
            seeds = (cost_other / cost).dropna()
            if more > CLEAR * less and len(seeds):
                ratio = _ratio(gap, seeds)
                if ratio.low > 1.0:
                    right += 1
                else:
                    wrong.append(f"{one} before {other} ({ratio})")
    unreached = [solver for solver in predicted.index if solver not in known]
    text = (
        f"{right} of {right + len(wrong)} clearly ordered pairs are measured so with every seed, "
        f"to {label(gap)}"
    )
    if wrong:
        text += "; not " + ", ".join(wrong[:6]) + (" ..." if len(wrong) > 6 else "")
    if unreached:
        text += f"; not reached by {', '.join(unreached)}"
    outcome = UNKNOWN if not right + len(wrong) else FAILS if wrong else HOLDS
    row = Comparison(problem.setting, variant, gap, outcome, text if outcome == UNKNOWN else "")
    return Finding(problem.setting, variant, outcome, (), text, (row,))


class Claim(NamedTuple):
    """What the paper says and where, and `find(problems, form)`, which gives the findings."""

    text: str
    place: str
    find: Callable
    forms: tuple = ("",)


CLAIMS = {
    "figure 1": Claim(
        "DSPDC is faster than SPDC and SDCA on factorised data, in all six settings",
        "figure 1", _figure_1, FORMS,
    ),
    "figure 2": Claim(
        "On reduced real data DSPDC and SPDC beat SDCA; DSPDC beats SPDC on covtype and rcv1 and "
        "ties with it on real-sim", "figure 2", _figure_2, FORMS,
    ),
    "figure 3": Claim(
        "DSPDC is faster than SPDC and SDCA on matrix risk minimisation", "figure 3", _figure_3,
        FORMS,
    ),
    "figure 4": Claim(
        "DSPDC is faster than SPDC and SDCA on multi-task metric learning", "figure 4", _figure_4,
        FORMS,
    ),
    "dense": Claim(
        "DSPDC is not faster than SPDC on a general dense A", "section 4.1", _dense
    ),
    "eigendecompositions": Claim(
        "With q of p blocks DSPDC does q/p of SPDC's eigendecompositions an iteration and needs a "
        "similar number of iterations", "section 6.3", _eigendecompositions,
    ),
    "condition": Claim(
        "DSPDC wins over SPDC on matrices where sqrt(Lambda_11) p <= sqrt(Lambda_p1) d",
        "section 5.2", _condition,
    ),
    "tables": Claim(
        "The order of the methods' overall costs in tables 1 and 2 at (q, m) = (1, 1)",
        "tables 1 and 2", _tables,
    ),
}
