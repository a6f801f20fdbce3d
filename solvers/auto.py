from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """The method that should be fastest on the problem, corrected by a short race.

    What `solve(problem)` does. The ranking follows from the problem's constants and the prices of
    iterations; `race=work` counts work at stored prices, `race=time` reads the clock, and
    `race=False` takes the prediction. All of it is part of the time.
    """

    name = "Auto"
    method = "auto"
    parameters = {"race": ["work"]}
    requirements = []
