"""What a method keeps on an operator between iterations, so that its products are cheap.

`iteration` has the primal-dual loop and the protocol that its states implement;
`primal_dual`, `lazy`, `scaled` and `primal_dual_matrices` are those states, `trackers`
what SVRG and Katyusha follow beside them. `dual`, `touched`, `accelerated` and
`single_entries` are for methods with loops of their own.
"""

from .accelerated import dual_pair, dual_pair_cost, primal_pair, primal_pair_cost
from .dual import dual_cost, dual_state
from .primal_dual import primal_dual_cost, primal_dual_state
from .touched import touched_state
from .trackers import Mean, Nothing, Points

__all__ = [
    "Mean", "Nothing", "Points", "dual_cost", "dual_pair", "dual_pair_cost", "dual_state",
    "primal_dual_cost", "primal_dual_state", "primal_pair", "primal_pair_cost", "touched_state",
]
