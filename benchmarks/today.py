"""Measure two claims of docs/measurements.md on the methods that came after the paper.

    python benchmarks/today.py           # some two minutes, on an idle machine

Seconds to a relative gap of 1e-6 on badly conditioned sparse logistic regression, beside
scikit-learn's lbfgs; and passes and seconds of SDNA beside SDCA where rows are correlated.
"""

import sys
import time

import numpy as np
import scipy.sparse

from benchmark_dspdc import erm, solve
from benchmark_dspdc.bench.peers import PEERS
from benchmark_dspdc.data import load_libsvm, sparse_classification

TO, SECONDS = 1e-6, 10.0

#: Rows, columns, centres and noise of correlated data.
CENTRES = (2000, 500, 20, 0.03), (1000, 1000, 10, 0.1), (2000, 200, 5, 0.3)

OURS = (
    ("auto", {}), ("dspdc", {}), ("sdca", {"order": "permuted"}), ("asdca", {}), ("apcg", {}),
    ("fista", {}), ("qning", {"inner": "sdca", "order": "permuted"}), ("pure_cd", {}),
)


def uneven(n, p, row_nnz, spread, seed):
    """Sparse rows of very different norms, and their labels."""
    data, rng = sparse_classification(n, p, row_nnz, seed), np.random.default_rng(seed)
    scale = scipy.sparse.diags_array(np.exp(spread * rng.standard_normal(n)))
    return scipy.sparse.csr_array(scale @ data.X), data.b


def correlated(n, p, centres, noise):
    """Dense rows near a few centres, their labels and their targets."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((centres, p))[rng.integers(0, centres, n)]
    A += noise * rng.standard_normal((n, p))
    z = A @ rng.standard_normal(p)
    return A / np.sqrt(p), np.where(z > 0.0, 1.0, -1.0), z / np.std(z)


def by_lbfgs(problem):
    """Seconds of the shortest run of lbfgs that arrives, each from the start."""
    peer, budget = PEERS["sklearn_logistic"](problem, "lbfgs"), 10
    peer.warm_up()
    while True:
        begun = time.perf_counter()
        x = peer.fit(budget)
        seconds = time.perf_counter() - begun
        if problem.certify(x).relative_gap <= TO or budget > 5000:
            return seconds
        budget = int(1.3 * budget)


def run(problem, method, options):
    """Passes and seconds to the gap, infinite if it is not reached."""
    solve(problem, method, tol=0.1, max_seconds=SECONDS, **options)
    result = solve(problem, method, tol=TO, max_seconds=SECONDS, **options)
    last = result.history.iloc[-1]
    return (last.passes, last.seconds) if result.status == "converged" else (np.inf, np.inf)


def main():
    sets = {
        "uneven 6000 x 3000": uneven(6000, 3000, 30, 1.0, 7),
        "uneven 4000 x 3000, spread 1.5": uneven(4000, 3000, 40, 1.5, 3),
    }
    try:
        data = load_libsvm("a9a")
        sets["a9a"] = data.X, data.b
    except (OSError, ValueError) as error:
        print(f"a9a is left out: {error}")
    for name, (A, b) in sets.items():
        for lambda2 in (1e-5, 1e-6):
            problem = erm(A, b, "logistic", 0.0, lambda2)
            found = {method: run(problem, method, options)[1] for method, options in OURS}
            best, theirs = min(found, key=found.get), by_lbfgs(problem)
            print(f"{name}, {lambda2:g}: lbfgs {theirs:.3f}, {best} {found[best]:.3f}, "
                  f"ratio {found[best] / theirs:.2f}; "
                  + ", ".join(f"{key} {value:.3f}" for key, value in found.items()), flush=True)
    for n, p, centres, noise in CENTRES:
        A, labels, targets = correlated(n, p, centres, noise)
        for loss, lambda2 in (("smoothed_hinge", 1e-3), ("smoothed_hinge", 1e-6), ("square", 1e-5),
                              ("logistic", 1e-5), ("logistic", 1e-7)):
            problem = erm(A, targets if loss == "square" else labels, loss, 0.0, lambda2)
            shown = [run(problem, "sdca", {"order": "permuted"})] + [
                run(problem, "sdna", {"m": m, "order": "permuted"}) for m in (8, 16, 32)
            ]
            print(f"{n} x {p}, {centres} centres, noise {noise:g}, {loss}, {lambda2:g}: SDCA and "
                  "SDNA with m = 8, 16, 32: "
                  + ", ".join(f"{a:.0f} passes {s:.3f} s" for a, s in shown), flush=True)


if __name__ == "__main__":
    sys.exit(main())
