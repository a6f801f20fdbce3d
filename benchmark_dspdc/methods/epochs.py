"""Epochs of inner iterations from a snapshot, as SVRG and Katyusha have them."""

from abc import abstractmethod

import numpy as np

from ..engine.checks import check_number, choose, is_auto
from .loop import LoopMethod

#: In units of the number of batches, so that 64 bits can count an epoch's iterations.
LONGEST_EPOCH = 1e9

#: Epochs that end by a coin are drawn as 64-bit integers.
LEAST_PROBABILITY = 1e-12


def check_step(step, words):
    """A step given as a number, or as one of some words."""
    if isinstance(step, str):
        return choose(step, words, "step")
    return check_number(step, "step", 0.0, strict=True)


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


class Loopless(EpochMethod):
    """Each iteration tosses a coin, whether the snapshot becomes the point from before its step.

    So the number of iterations with a snapshot is geometric, and drawn with it. The point before
    the last of them is kept, and is the next snapshot.
    """

    def _begin_coins(self, seeds, probability, r):
        """Toss with a probability, "auto" for 1/r; returns it."""
        if is_auto(probability):
            probability = 1.0 / r
        self._probability = check_number(
            probability, "probability", LEAST_PROBABILITY, high=1.0
        )
        self._coins = np.random.default_rng(seeds.spawn(1)[0])
        self._length, self._inner, self._fresh = 0, 0, True
        self.info.update(probability=self._probability)
        return self._probability

    @abstractmethod
    def _point(self):
        """What the next snapshot is taken of, up to date once the loop is settled."""

    def _take_snapshot(self, x):
        super()._take_snapshot(x)
        self._length = int(self._coins.geometric(self._probability))

    def _inner_iterations(self, count):
        last = self._inner + count == self._length
        self._loop.advance(count - last)
        if last:
            self._loop.settle()
            self._next = self._point().copy()
            self._loop.advance(1)

    @property
    def iterations_per_pass(self):
        # A snapshot is a pass.
        return 1.0 / (1.0 / super().iterations_per_pass + self._probability)
