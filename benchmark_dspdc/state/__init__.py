"""What a method keeps on an operator between iterations, so that its products are cheap."""

from . import primal_dual_matrices, scaled
from .accelerated import dual_pair, dual_pair_cost, primal_pair, primal_pair_cost
from .dual import dual_cost, dual_state
from .primal_dual import primal_dual_cost, primal_dual_state

__all__ = [
    "dual_cost", "dual_pair", "dual_pair_cost", "dual_state", "primal_dual_cost",
    "primal_dual_matrices", "primal_dual_state", "primal_pair", "primal_pair_cost", "scaled",
]
