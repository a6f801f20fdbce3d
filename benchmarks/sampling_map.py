"""When does sampling primal coordinates pay? A map, measured and predicted.

    python benchmarks/sampling_map.py [--steps theorem|block] [--json FILE]     # some five minutes

For each problem the time to a gap of 1e-4 with the best (m, q) of those with q < p, over that of
the best with q = p; below 1 sampling pays. What theory predicts is Theorem 1's number of
iterations times the price of an iteration. Problems differ in n/p, d, the constant of strong
convexity and the price of a proximal step, on A = UV and on matrices.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from benchmark_dspdc import erm, matrix_risk, solve
from benchmark_dspdc.data import factorized, matrix_risk_data
from benchmark_dspdc.engine.kernel_cache import njit
from benchmark_dspdc.model.regularizers.elastic_net import (
    elastic_net_conjugate,
    elastic_net_conjugate_gradient,
    elastic_net_modulus,
    elastic_net_value,
    soft,
)
from benchmark_dspdc.model.regularizers.regularizer import (
    coordinate_conjugate,
    coordinate_value,
    reg_conjugate_gradient,
    reg_modulus,
    reg_prox,
)
from benchmark_dspdc.theory import setting
from benchmark_dspdc.theory.block_sizes import PRICES, choose_blocks, estimated_root

TOL = 1e-4

#: Rows and columns of problems, from n < p to n > p, with about 80,000 entries.
SHAPES = [(100, 800), (280, 280), (800, 100), (2400, 33)]
MATRIX_SHAPES = [(10, 40), (20, 20), (40, 10)]

#: Block sizes as shares; 0 stands for single rows.
MS, QS = (0.0, 0.1, 1.0), (0.05, 0.3)

#: Square roots that a dear proximal step takes: about a quarter of a microsecond.
WORK = 50

#: Seconds that a run may take, certificates included; and the largest ratio that has a colour.
MOST, BEYOND = 10.0, 2.0

OPTIONS = {
    "theorem": {"steps": "theorem", "order": "random", "adaptive": False},
    "block": {},
}


class DearNet(NamedTuple):
    """The elastic net, with a proximal step that takes as long as one without a closed form."""

    lambda1: float = 1e-3
    lambda2: float = 1e-2
    work: int = WORK


reg_modulus.register(DearNet)(elastic_net_modulus)
coordinate_value.register(DearNet)(elastic_net_value)
coordinate_conjugate.register(DearNet)(elastic_net_conjugate)
reg_conjugate_gradient.register(DearNet)(elastic_net_conjugate_gradient)


@njit()
def busy(work, u):
    for _ in range(work):
        u = math.sqrt(1.0 + u)
    return u


@reg_prox.register(DearNet)
def dear_prox(reg, j, c, tau):
    # Too small to count, too large for a compiler to leave out.
    slow = 1e-300 * busy(reg.work, abs(c))
    return soft(c, tau * reg.lambda1) / (1.0 + tau * reg.lambda2) + slow


class Cell(NamedTuple):
    """A problem of the map and what was found."""

    panel: str
    n: int
    p: int
    d: int
    measured: float
    predicted: float
    best: tuple     # (m, q) with q < p
    whole: tuple    # (m, p)
    seconds: float  # of the best with q = p


def dear_nanoseconds():
    busy(10, 1.0)
    begun = time.perf_counter()
    busy(10**4 * WORK, 1.0)
    return (time.perf_counter() - begun) / 1e4 * 1e9


def panels(d_of, d_of_matrices):
    """Pairs of a panel's name and its problems, with the prices of an iteration."""
    dear = PRICES["factorized"]._replace(primal=dear_nanoseconds())
    for lambda2 in (1e-1, 1e-3):
        for regularizer, price, prices in (
            (None, "0.1 ns", None), (DearNet(1e-3, lambda2), "250 ns", dear)
        ):
            name = f"A = UV, lambda2 = {lambda2:g}, step of x {price}"
            for n, p in SHAPES:
                for d in d_of:
                    data = factorized(n, p, d, seed=0)
                    constants = dict(regularizer=regularizer) if regularizer else dict(
                        lambda1=1e-3, lambda2=lambda2)
                    problem = erm((data.U, data.V), data.b, "smoothed_hinge", **constants)
                    yield name, (n, p, d), problem, prices
    for lam in (1.0, 0.01):
        for n, p in MATRIX_SHAPES:
            for d in d_of_matrices:
                data = matrix_risk_data(n, p, d, 0)
                problem = matrix_risk(data.packed, data.b, "smoothed_hinge", lam)
                yield f"matrices, lam = {lam:g}", (n, p, d), problem, None


def seconds(problem, m, q, options, most, seeds=(0,)):
    """Median time of a run to `TOL`, infinite where it does not get there in time."""
    found = []
    for seed in seeds:
        result = solve(problem, "dspdc", tol=TOL, seed=seed, m=m, q=q, max_seconds=most, **options)
        there = result.status == "converged"
        found.append(result.history.seconds.iloc[-1] if there else np.inf)
    return float(np.median(found))


def measure(panel, sizes, problem, prices, options):
    n, p = problem.shape
    ms = list(dict.fromkeys(max(1, round(share * n)) for share in MS))
    qs = list(dict.fromkeys(max(1, round(share * p)) for share in QS))
    seconds(problem, ms[1], qs[1], options, 0.05)           # compiles
    seconds(problem, ms[1], p, options, 0.05)
    whole = {(m, p): seconds(problem, m, p, options, MOST) for m in ms}
    first = min(whole, key=whole.get)
    # Certificates take up to several times as long as the run.
    most = min(8.0 * whole[first] + 0.5, MOST)
    part = {(m, q): seconds(problem, m, q, options, most) for m in ms for q in qs}
    second = min(part, key=part.get)
    times = [seconds(problem, *pair, options, MOST, (1, 2, 3)) for pair in (first, second)]
    ratio = times[1] / times[0] if np.isfinite(times[0]) else np.nan
    root = estimated_root(problem.operator)
    theory = {} if options else dict(steps="block", part=setting.PART)

    def predicted(pairs):
        return min(choose_blocks(problem, root, m, q, prices, **theory).seconds for m, q in pairs)
    return Cell(panel, *sizes, ratio, predicted(part) / predicted(whole), second, first, times[0])


def draw(cells, file, title):
    """A panel for each kind of problem: a cell has what was measured, and predicted below."""
    names = list(dict.fromkeys(cell.panel for cell in cells))
    columns = 3
    figure, axes = plt.subplots(-(-len(names) // columns), columns, figsize=(13.0, 7.0),
                                squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        own = [cell for cell in cells if cell.panel == name]
        shapes = list(dict.fromkeys((cell.n, cell.p) for cell in own))
        ds = sorted({cell.d for cell in own})
        picture = np.full((len(ds), len(shapes)), np.nan)
        for cell in own:
            at = ds.index(cell.d), shapes.index((cell.n, cell.p))
            picture[at] = math.log2(min(cell.measured, BEYOND))
            text = "-" if np.isnan(cell.measured) else f"{cell.measured:.2f}" if np.isfinite(
                cell.measured) else f"> {BEYOND:g}"
            axis.text(at[1], at[0] + 0.08, text, ha="center", fontsize=12,
                      fontweight="bold" if cell.measured < 1.0 else "normal")
            axis.text(at[1], at[0] - 0.28, f"theory {cell.predicted:.2f}", ha="center",
                      fontsize=8.5)
            if cell.measured < 1.0:
                axis.add_patch(plt.Rectangle((at[1] - 0.48, at[0] - 0.47), 0.96, 0.94, fill=False,
                                             linewidth=2.5, edgecolor="black"))
        axis.imshow(picture, cmap="RdBu", vmin=-1.5, vmax=1.5, origin="lower", aspect="auto",
                    alpha=0.75)
        axis.set_xticks(range(len(shapes)), [f"{n}, {p}" for n, p in shapes])
        axis.set_yticks(range(len(ds)), ds)
        axis.set(xlabel="n, p", ylabel="d", title=name)
        axis.grid(visible=False)
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    figure.suptitle(title, fontsize=13)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", choices=list(OPTIONS), default="theorem")
    parser.add_argument("--json", type=Path, help="also write all figures there")
    parser.add_argument("--only", metavar="WORD", default="",
                        help="measure panels with this word; take others from the JSON file")
    parser.add_argument("-o", "--output", type=Path, default=Path("outputs/sampling_map.png"))
    options = parser.parse_args()
    cells, kept = [], []
    if options.only and options.json:
        kept = [Cell(**cell) for cell in json.loads(options.json.read_text())
                if options.only not in cell["panel"]]
    for panel, sizes, problem, prices in panels((4, 10, 30), (10, 25, 60)):
        if options.only in panel:
            cells.append(measure(panel, sizes, problem, prices, OPTIONS[options.steps]))
            print(*cells[-1], flush=True)
            if options.json:
                made = [cell._asdict() for cell in kept + cells]
                options.json.write_text(json.dumps(made, indent=1))
    cells = kept + cells
    options.output.parent.mkdir(parents=True, exist_ok=True)
    word = "the theorem's steps" if options.steps == "theorem" else "self-tuned DSPDC"
    title = f"Time with q < p columns an iteration over time with all, best m of each: {word}"
    draw(cells, options.output, f"{title}. Red and framed: drawing columns pays.")


if __name__ == "__main__":
    main()
