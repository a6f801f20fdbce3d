"""Regularisers, one file each; `regularizer` has what they are made of."""

from .elastic_net import ElasticNet
from .non_negative import NonNegative
from .psd_frobenius import PSDFrobenius
from .regularizer import (
    augmented,
    conjugate_blocks,
    conjugate_point,
    for_steps,
    into_domain,
    miniature,
    moduli_of,
    pair_primal_step,
    primal_step,
    reg_conjugate,
    reg_conjugate_gradient,
    reg_modulus,
    reg_outlook,
    reg_prox,
    reg_threshold,
    reg_thresholds,
    reg_value,
)
from .tilted import tilted

#: Those of numbers, by the names that users give.
REGULARIZERS = {"elastic_net": ElasticNet, "non_negative": NonNegative}

__all__ = [
    "REGULARIZERS", "ElasticNet", "NonNegative", "PSDFrobenius", "augmented",
    "conjugate_blocks", "conjugate_point", "for_steps", "into_domain", "miniature",
    "moduli_of", "pair_primal_step", "primal_step", "reg_conjugate", "reg_conjugate_gradient",
    "reg_modulus", "reg_outlook", "reg_prox", "reg_threshold", "reg_thresholds", "reg_value",
    "tilted",
]
