"""Why a claim fails: from DSPDC as the paper states it to the one that tunes itself, step by step.

    python benchmarks/why.py [NAME ...] [-o DIR] [--json FILE]     # some ten minutes

For each figure of the paper one of its settings. Each line of a picture changes one thing more:
blocks, constant, order, steps, block sizes, the primal weight. Time and work to a gap are shown
as multiples of SDCA's with the same m; work is passes, on matrices eigendecompositions. Pictures
go to DIR, docs/ by default; tables are printed.

Two more pictures: `eigendecompositions`, what q does on matrices (section 6.3), and `tables`,
the costs of tables 1 and 2, predicted and in the archive.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from benchmark_dspdc import solve
from benchmark_dspdc.bench.named_problems import benchmark_folder, load_targets
from benchmark_dspdc.report.results import (
    EIGENDECOMPOSITIONS,
    NAMES,
    PASSES,
    label,
    read_results,
    to_targets,
)
from benchmark_dspdc.theory.steps import iterations_per_nat

SEEDS = (0, 1, 2)

PAPER = dict(steps="theorem", order="random", adaptive=False)


SUBSET = dict(sampling="subset", Lambda="heuristic")


class Setting(NamedTuple):
    """One of the paper's settings: data and constants, block sizes, and the gap looked at."""

    name: str
    title: str
    dataset: str
    constants: str
    m: int
    q: float
    tol: float = 1e-4
    most: float = 20.0              # seconds of a run at most
    stated: dict = SUBSET
    sdca: dict = {}


SETTINGS = [
    Setting("figure1", "figure 1: n = 5000, p = 100, d = 20, lambda2 = 0.01",
            "Factorized[n=5000,p=100,d=20]", "lambda1=0.001,lambda2=0.01", 1, 50),
    Setting("figure1_weak", "figure 1: n = 5000, p = 100, d = 20, lambda2 = 1e-5",
            "Factorized[n=5000,p=100,d=20]", "lambda1=0.000001,lambda2=0.00001", 1, 50),
    Setting("figure2", "figure 2: covtype, d = 20",
            "LIBSVM[name=covtype.binary,scale=maxabs,reduction=feature,d=20]",
            "lambda1=0.0001,lambda2=0.01", 1000, 0.1),
    Setting("figure3", "figure 3: matrix risk, d = 100",
            "MatrixRisk[n=100,p=100,d=100]", "lam=0.01", 20, 20, most=40.0),
    Setting("figure4", "figure 4: aloi_like, 192,000 triplets",
            "MTLMNN[source=aloi_like]", "lambda0=0.01,lam=0.1", 8000, 0.4, 1e-2, 60.0,
            SUBSET | dict(moduli="least"), dict(scaling="sampled")),
    Setting("figure4_letter", "figure 4: letter",
            "MTLMNN[source=letter]", "lambda0=0.01,lam=0.1", 4000, 0.2, 1e-4, 20.0,
            SUBSET | dict(moduli="least"), dict(scaling="sampled")),
]


def variants(setting, problem):
    """Names of solvers and their method and options, each with one thing more than the last."""
    sizes = dict(m=setting.m, q=setting.q)
    steps = [
        ("as stated: subsets, heuristic", {**PAPER, **sizes, **setting.stated}),
        ("subsets, valid constant", {**PAPER, **sizes, "sampling": "subset", "Lambda": "bound"}),
        ("partitions, their constant", {**PAPER, **sizes}),
        ("+ permuted order", {**PAPER, **sizes, "order": "permuted"}),
        ("+ steps by block", {**sizes, "steps": "block", "adaptive": False}),
        ("+ block sizes chosen", {"steps": "block", "adaptive": False}),
        ("+ primal weight: self-tuned", {}),
    ]
    yield from ((name, "dspdc", options) for name, options in steps)
    zeros = dict(x0=np.zeros(problem.x_shape), y0=np.zeros(problem.shape[0]))
    yield "self-tuned, from x = 0", "dspdc", zeros
    yield "SPDC, its authors' steps", "spdc", dict(m=setting.m)
    yield "SDCA", "sdca", dict(m=setting.m, **setting.sdca)


def measure(setting):
    """For each variant medians of seconds, passes, set-up seconds and eigendecompositions."""
    objective = f"ERM[loss=smoothed_hinge,{setting.constants}]"
    problem = next(load_targets(setting.dataset, objective)).problem
    found = {}
    for name, method, options in variants(setting, problem):
        rows = []
        for seed in SEEDS:
            result = solve(problem, method, tol=setting.tol, seed=seed,
                           max_seconds=setting.most, **options)
            last, there = result.history.iloc[-1], result.status == "converged"
            work = last[["seconds", "passes", "eigendecompositions"]].astype(float).to_numpy()
            rows.append([*(work if there else np.full(3, np.inf)),
                         float(result.info.get("set_up_seconds", np.nan)), float(last["seconds"])])
            if not there:
                break
        found[name] = np.median(rows, axis=0).tolist()
        print(f"  {name}: {found[name]}", flush=True)
    return found


def draw(setting, found, file):
    """Bars of time and work over SDCA's; a bar to the edge for what did not arrive."""
    names = list(found)[::-1]
    matrices = any(0.0 < row[2] < np.inf for row in found.values())
    kinds = {"seconds": 0, "eigendecompositions": 2} if matrices else {"seconds": 0, "passes": 1}
    figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.0), sharey=True, layout="constrained")
    for panel, (word, k) in zip(panels, kinds.items(), strict=True):
        base = found["SDCA"][k]
        if np.isfinite(base):
            word = f"{'time' if k == 0 else word}, multiples of SDCA's"
            panel.axvline(1.0, color="0.3", linewidth=1.0, zorder=0)
        else:
            # SDCA did not arrive: seconds or passes themselves.
            base = 1.0
        values = np.array([found[name][k] for name in names]) / base
        known = values[np.isfinite(values)]
        known = known if len(known) else np.ones(1)
        edge = 2.0 * known.max()
        colors = ["0.6" if name.startswith("S") else "#D55E00" if "stated" in name else "#0072B2"
                  for name in names]
        shown = np.where(np.isfinite(values), values, edge)
        bars = panel.barh(names, shown, color=colors)
        for bar, value in zip(bars, values, strict=True):
            if not np.isfinite(value):
                bar.set(hatch="//", alpha=0.35)
            text = f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}"
            text = text if np.isfinite(value) else "not reached"
            panel.annotate(text, (bar.get_width(), bar.get_y() + 0.4), xytext=(4, 0),
                           textcoords="offset points", va="center", fontsize=9,
                           bbox=dict(facecolor="white", edgecolor="none", pad=1.0))
        panel.set(xscale="log", xlabel=word, xlim=(0.5 * known.min(), 3.0 * edge))
        panel.spines[["top", "right"]].set_visible(False)
    sizes = f"(m, q) = ({setting.m}, {setting.q})"
    figure.suptitle(f"{setting.title}, {sizes}, to {label(setting.tol)}")
    figure.savefig(file, dpi=100)
    plt.close(figure)


def draw_eigendecompositions(file):
    """Iterations and eigendecompositions over q: measured, and by Theorem 1."""
    setting = next(one for one in SETTINGS if one.name == "figure3")
    objective = f"ERM[loss=smoothed_hinge,{setting.constants}]"
    problem = next(load_targets(setting.dataset, objective)).problem
    (n, p), m, qs = problem.shape, 50, (1, 2, 5, 10, 20, 50, 100)
    found = []
    for q in qs:
        runs = [solve(problem, "dspdc", tol=setting.tol, seed=seed, max_seconds=setting.most,
                      m=m, q=q, **PAPER) for seed in SEEDS]
        rate = runs[0].info["Lambda"] / (problem.lam * problem.gamma * n)
        eigs = np.median([run.history.eigendecompositions.iloc[-1] for run in runs])
        found.append((eigs / q, eigs, iterations_per_nat(n / m, p / q, rate)))
        print(f"  q = {q}: {eigs / q:.0f} iterations, {eigs:.0f} eigendecompositions", flush=True)
    iterations, eigs, predicted = np.array(found).T
    figure, panel = plt.subplots(figsize=(6.5, 4.0), layout="constrained")
    for values, text, look in (
        (iterations / iterations[-1], "iterations", "o-"),
        (predicted / predicted[-1], "iterations by Theorem 1", "o:"),
        (eigs / eigs[-1], "eigendecompositions", "s-"),
    ):
        panel.plot(qs, values, look, label=text,
                   color="#D55E00" if text.startswith("eigen") else "#0072B2")
    panel.axhline(1.0, color="0.3", linewidth=1.0)
    panel.set(xscale="log", yscale="log", xlabel="q of p = 100 matrices an iteration",
              ylabel="over those with q = p", title=f"matrix risk, d = 100, m = {m}, to 1e-4")
    panel.set_xticks(qs, qs)
    panel.minorticks_off()
    panel.legend(frameon=False)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def draw_tables(file):
    """Predicted and measured costs of all methods at (q, m) = (1, 1), from the archive."""
    frame = read_results([benchmark_folder() / "results" / "tables.parquet"])
    figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
    for panel, (name, rows) in zip(panels, frame.groupby("dataset_name", sort=False),
                                   strict=True):
        first = rows.groupby("solver_name").first()
        target = 1e-6 if name.startswith("Factorized") else 1e-2
        runs = to_targets(rows, [target]).groupby(NAMES).median().droplevel([0, 1])
        cost = first["objective_pass_cost"] * runs[f"{PASSES.removeprefix('objective_')} to "
                                                   f"{target:.0e}"]
        eigs = f"{EIGENDECOMPOSITIONS.removeprefix('objective_')} to {target:.0e}"
        if eigs in runs:
            cost = cost + first["objective_eigendecomposition_cost"] * runs[eigs]
        known = cost[(cost > 0.0) & (first["objective_predicted_cost"] > 0.0)]
        for solver, value in known.items():
            x = first.loc[solver, "objective_predicted_cost"]
            panel.plot([x], [value], "o", color="#0072B2")
            panel.annotate(solver.partition("[")[0], (x, value), xytext=(4, 3),
                           textcoords="offset points", fontsize=9)
        ends = first.loc[known.index, "objective_predicted_cost"]
        scale = np.exp(np.median(np.log(known / ends)))
        panel.plot([ends.min(), ends.max()], [scale * ends.min(), scale * ends.max()], ":",
                   color="0.4", label="measured = a constant times predicted")
        panel.legend(loc="upper left", frameon=False)
        panel.set(xscale="log", yscale="log", xlabel="multiply-adds, predicted by the rates",
                  ylabel=f"multiply-adds, measured, to {label(target)}",
                  title="A = UV" if name.startswith("Factorized") else "matrix risk")
    figure.savefig(file, dpi=100)
    plt.close(figure)


def table(found):
    lines = ["| variant | seconds | passes | eigendecompositions | set-up, s |", "|" + "---|" * 5]
    for name, (seconds, passes, eigs, set_up, given) in found.items():
        cells = [f"{value:,.3g}" if np.isfinite(value) else "-" for value in (
            seconds, passes, eigs, set_up)]
        cells[0] = cells[0] if np.isfinite(seconds) else f"not in {given:.0f}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    more = {"eigendecompositions": draw_eigendecompositions, "tables": draw_tables}
    known = [setting.name for setting in SETTINGS] + list(more)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs"), metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"names must be of {', '.join(known)}, got {', '.join(unknown)}")
    made = {}
    for setting in SETTINGS:
        if options.names and setting.name not in options.names:
            continue
        print(setting.title, flush=True)
        found = made[setting.name] = measure(setting)
        draw(setting, found, options.output / f"why_{setting.name}.png")
        print(table(found), flush=True)
        if options.json:
            options.json.write_text(json.dumps(made, indent=1))
    for name, drawn in more.items():
        if not options.names or name in options.names:
            print(name, flush=True)
            drawn(options.output / f"why_{name}.png")


if __name__ == "__main__":
    main()
