"""The tables of docs/measurements.md on what a choice costs, from a run of configs/regret.yml.

    python benchmarks/regret.py outputs/regret_....parquet

Ratios of times, of medians over the repetitions, as geometric means over the problems that were
held out and over the others. A curve ends at 5 times the fastest one's time, and counts as that.
"""

import sys

import numpy as np

from benchmark_dspdc.report.looks import FAMILIES
from benchmark_dspdc.report.results import NAMES, medians, read_results, titles, to_targets

GAPS = (1e-4, 1e-6)

AUTO = "Auto"
TUNED = "DSPDC[m=auto,q=auto,steps=block,order=permuted,adaptive=True]"
THEOREM = "DSPDC[m=auto,q=auto,steps=theorem,order=random,adaptive=False]"


def held_out(dataset, objective):
    """As configs/regret.yml says."""
    kept = "n=10000", "SparseUneven", "decades=6", "a9a", "TraceRegression"
    return "loss=logistic" in objective or any(word in dataset for word in kept)


def mean(ratios):
    ratios = np.asarray(ratios, float)
    ratios = ratios[np.isfinite(ratios)]
    return f"{np.exp(np.log(ratios).mean()):.2f} ({len(ratios)})" if len(ratios) else "-"


def main(files):
    frame = read_results(files)
    families = frame.groupby("solver_name")["objective_family"].last()
    peers = set(families.index[families == FAMILIES.index("peer")])
    runs = medians(to_targets(frame, GAPS))
    shown = titles(list(dict.fromkeys(key[:2] for key in runs.index)))
    found = []
    for key, own in runs.groupby(NAMES[:2], sort=False):
        own = own.droplevel([0, 1])
        for gap in GAPS:
            seconds, passes = own[f"seconds to {gap:.0e}"], own[f"passes to {gap:.0e}"]
            # What was cut early counts as the time at which it was cut.
            seconds = seconds.clip(upper=5.0 * seconds.min())
            ours = seconds.drop([name for name in peers if name in seconds])
            methods = ours.drop([name for name in ours.index if name == AUTO])
            rivals = methods.drop([name for name in methods.index if name.startswith("DSPDC")])
            theirs = seconds.reindex([name for name in peers if name in seconds])
            best, peer = methods.idxmin(), theirs.min() if len(theirs) else np.nan
            found.append((held_out(*key), gap, dict(
                tuned=seconds[TUNED] / rivals.min(), auto=seconds[AUTO] / methods.min(),
                peer=seconds[AUTO] / peer, theorem=seconds[TUNED] / seconds[THEOREM],
                passes=passes[THEOREM] / passes[TUNED],
            )))
            print(f"{gap:.0e} {'held out' if held_out(*key) else '':8} {shown[key]}: "
                  f"{best} {methods.min():.3f} s, Auto {seconds[AUTO]:.3f}, self-tuned "
                  f"{seconds[TUNED]:.3f}, "
                  + (f"{theirs.idxmin()} {peer:.3f}" if np.isfinite(peer) else "no peer"))
    print()
    for what, name in (
        ("self-tuned DSPDC over the best other of ours", "tuned"),
        ("Auto over the best of ours", "auto"), ("Auto over the best peer", "peer"),
        ("self-tuned DSPDC over the theorem's steps", "theorem"),
        ("passes of the theorem's steps over self-tuned", "passes"),
    ):
        for kept in (True, False):
            means = [
                mean([row[name] for is_held, at, row in found if is_held == kept and at == gap])
                for gap in GAPS
            ]
            print(f"{what}, {'held out' if kept else 'others'}: {', '.join(means)}")
    for gap in GAPS:
        worst = sorted((row["auto"] for _, at, row in found if at == gap), reverse=True)[:5]
        print(f"Auto over the best, worst to {gap:.0e}: "
              + ", ".join(f"{value:.2f}" for value in worst))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
