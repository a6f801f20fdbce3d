"""What methods keep between iterations on block operators.

The same calls as in `couplings` and `dual`, for matrices instead of numbers;
an iteration is a few large products, so all this is plain Python and the
methods' loops run on it as they are. Dual blocks are handled whole.
"""

import numpy as np

from ..regularizers import conjugate_blocks
from ..sampling import Partition
from . import couplings, dual


class _Plans:
    """The operator's plans of row blocks; those of a partition are kept."""

    def __init__(self, operator, fixed):
        self.operator = operator
        self.kept = {} if fixed else None

    def __call__(self, order, lo, hi):
        if self.kept is None:
            return self.operator.plan(_indices(order, lo, hi))
        if lo not in self.kept:
            self.kept[lo] = self.operator.plan(_indices(order, lo, hi))
        return self.kept[lo]


def _indices(order, lo, hi):
    return np.arange(lo, hi) if order is None else order[lo:hi]


class BlockRows:
    """Rows walked, A'y kept, with what the current iteration added to it in `dw`."""

    def __init__(self, operator, sampler):
        self.operator = operator
        self.plans = _Plans(operator, isinstance(sampler, Partition))
        self.xbar, self.w, self.dw = (operator.stored(np.zeros(operator.x_shape)) for _ in "123")
        self.touched = np.zeros(operator.shape[1], dtype=bool)


class BlockColumns:
    """Columns walked, A x kept, with what the last iteration added to it in `dz`."""

    def __init__(self, operator, sampler):
        self.operator = operator
        self.ybar, self.z, self.dz = np.zeros((3, operator.shape[0]))


@couplings.row_products.register(BlockRows)
def _(c, momentum, order, lo, hi, out):
    c.operator.row_products(c.plans(order, lo, hi), c.xbar, out)


@couplings.push_dual.register(BlockRows)
def _(c, boost, order, lo, hi, y, dy):
    blocks = c.operator.add_rows(c.plans(order, lo, hi), dy, c.w, c.dw)
    c.touched[:] = blocks is None
    if blocks is not None:
        c.touched[blocks] = True


@couplings.turn.register(BlockRows)
def _(c, boost, order, lo, hi, x):
    if lo < hi < lo + len(x):
        columns = _indices(order, lo, hi)
        c.xbar[columns] = c.operator.stored(x[columns])


@couplings.column_products.register(BlockRows)
def _(c, boost, order, lo, hi, out):
    columns = _indices(order, lo, hi)
    product = c.w[columns]
    # w contains dw already.
    for k in np.flatnonzero(c.touched[columns]):
        product[k] += (boost - 1.0) * c.dw[columns[k]]
    c.operator.written_out(product, out[:len(columns)])


@couplings.push_primal.register(BlockRows)
def _(c, momentum, order, lo, hi, x, dx):
    columns = _indices(order, lo, hi)
    bar = (momentum - 1.0) * dx[:len(columns)]
    bar += x[columns]
    c.xbar[columns] = c.operator.stored(bar)


@couplings.close.register(BlockRows)
def _(c, momentum, order, lo, hi, y):
    pass


@couplings.announce.register(BlockRows)
def _(c, order, lo, hi):
    pass


@couplings.iteration_cost.register(BlockRows)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * c.operator.row_cost(c.plans(dual_order, dual_lo, dual_hi))


@couplings.row_products.register(BlockColumns)
def _(c, momentum, order, lo, hi, out):
    rows = _indices(order, lo, hi)
    out[:len(rows)] = c.z[rows] + momentum * c.dz[rows]


@couplings.push_dual.register(BlockColumns)
def _(c, boost, order, lo, hi, y, dy):
    rows = _indices(order, lo, hi)
    c.ybar[rows] = y[rows] + (boost - 1.0) * dy[:len(rows)]


@couplings.turn.register(BlockColumns)
def _(c, boost, order, lo, hi, x):
    c.z += c.dz


@couplings.column_products.register(BlockColumns)
def _(c, boost, order, lo, hi, out):
    c.operator.add_columns(_indices(order, lo, hi), c.ybar, out[:hi - lo])


@couplings.push_primal.register(BlockColumns)
def _(c, momentum, order, lo, hi, x, dx):
    c.dz[:] = c.operator.column_products(_indices(order, lo, hi), dx[:hi - lo])


@couplings.close.register(BlockColumns)
def _(c, momentum, order, lo, hi, y):
    rows = _indices(order, lo, hi)
    c.ybar[rows] = y[rows]


@couplings.announce.register(BlockColumns)
def _(c, order, lo, hi):
    pass


@couplings.iteration_cost.register(BlockColumns)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * c.operator.column_cost(_indices(primal_order, primal_lo, primal_hi))


class BlockKeptDual:
    """w = -A'y/n kept, and x = grad g*(w) of the blocks where w has changed renewed."""

    def __init__(self, operator, w):
        self.operator = operator
        self.plans = _Plans(operator, True)
        self.w = operator.stored(w)
        self.dw = np.empty_like(self.w)
        self.x = np.empty_like(self.w)


@dual.primal_products.register(BlockKeptDual)
def _(c, reg, order, lo, hi, out):
    c.operator.row_products(c.plans(order, lo, hi), c.x, out)


@dual.push.register(BlockKeptDual)
def _(c, reg, order, lo, hi, dy):
    coef = dy[:hi - lo] / -c.operator.shape[0]
    return _renew(c, reg, c.operator.add_rows(c.plans(order, lo, hi), coef, c.w, c.dw))


@dual.refresh.register(BlockKeptDual)
def _(c, reg):
    return _renew(c, reg, None)


def _renew(c, reg, blocks):
    blocks = np.arange(len(c.w)) if blocks is None else blocks
    matrices = c.operator.written_out(c.w[blocks])
    done = conjugate_blocks(reg, blocks, matrices)
    c.x[blocks] = c.operator.stored(matrices)
    return done


@dual.announce.register(BlockKeptDual)
def _(c, order, lo):
    pass


@dual.fetch.register(BlockKeptDual)
def _(c, order, lo, hi, b, y, rho):
    pass


@dual.batch_cost.register(BlockKeptDual)
def _(c, order, lo, hi):
    return 2 * c.operator.row_cost(c.plans(order, lo, hi))
