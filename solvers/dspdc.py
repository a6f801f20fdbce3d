from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Doubly stochastic primal-dual coordinate method (Yu, Lin & Yang, arXiv:1508.03390).

    Blocks of m dual and q primal coordinates, given as counts or fractions, or
    chosen ("auto"): the pair of the least predicted time, by the problem's constants
    and a model of an iteration. By default DSPDC tunes itself: every dual block has its
    own step (`steps=block`), each block comes once an epoch (`order=permuted`), and the
    two sides are balanced as the run goes on (`adaptive=True`). The paper's are
    `steps=theorem,order=random,adaptive=False`, also where `Lambda` is given.
    """

    name = "DSPDC"
    method = "dspdc"
    parameters = {
        "m, q": [("auto", "auto")],
        "steps": ["auto"],
        "order": ["auto"],
        "adaptive": ["auto"],
        "sampling": ["partition"],
        "Lambda": ["auto"],
        "theorem": [1],
        "heuristic_scale": [1.0],
        "probabilities": ["uniform"],
        "moduli": ["each"],
        "calibrate": [False],
        "threads": [1],
        "column_steps": ["auto"],
    }
    always = ("m", "q", "steps", "order", "adaptive")
    requirements = []
