"""Epochs of inner iterations from a snapshot, as SVRG and Katyusha have them."""

from abc import abstractmethod

from ..engine.checks import check_number
from .loop import LoopMethod

#: In units of the number of batches, so that 64 bits can count an epoch's iterations.
LONGEST_EPOCH = 1e9


def epoch_length(epoch, dual):
    """Iterations of an epoch, given in units of the number of batches."""
    epoch = check_number(epoch, "epoch", 0.0, strict=True, high=LONGEST_EPOCH)
    return max(1, round(epoch * dual.inverse_probability))


class EpochMethod(LoopMethod):
    """A loop in epochs of `_length` iterations; `_new_epoch` takes a snapshot before each."""

    _length = _inner = None

    def _begin_epochs(self, length):
        self._length = self._inner = length
        self._fresh = True
        self.info.update(epoch=length)

    @abstractmethod
    def _new_epoch(self, first):
        """Take a snapshot; `first` before the first iteration of all."""

    def _run(self, n_iterations):
        self._loop.advance(0)
        if self._fresh:
            self._loop.settle()
        self._in_epochs(n_iterations, self._begin_epoch)

    def _begin_epoch(self, done):
        self._new_epoch(self._fresh)
        self._fresh = False

    def _inner_iterations(self, count):
        self._loop.advance(count)

    def _take_snapshot(self, x):
        """y = phi'(A x), and what is kept for it and for the loop's x."""
        self._loop.begin_at(x)
        self._inner = 0

    @property
    def y(self):
        return None
