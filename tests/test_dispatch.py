"""Functions with a body for each type, beyond what tests/test_jit.py has."""

from typing import NamedTuple

import numpy as np
import pytest

from benchmark_dspdc.engine.dispatch import entry, generic
from benchmark_dspdc.engine.kernel_cache import njit
from benchmark_dspdc.model.losses import Huber


class Square(NamedTuple):
    side: float


class Cube(NamedTuple):
    side: float


class Circle(NamedTuple):
    radius: float


@generic(default=True)
def corners(shape):
    """0 for what is not said to have any."""
    return 0


@generic(default=True, interpreted=True)
def area(shape):
    return -1.0


@generic
def side(shape):
    """Of what has sides."""


@area.register(Square)
def square_area(shape):
    return shape.side ** 2


@corners.register(Square, Cube)
def corners_of_sides(shape):
    return 4 if shape.side > 0.0 else 1


@side.register(Square, Cube)
def side_itself(shape):
    return shape.side


@njit(cache=False)
def compiled(shape):
    return corners(shape) + area(shape)


def test_a_default_body_serves_all_types_without_one_in_python_and_compiled():
    assert corners(Circle(1.0)) == corners(3.0) == 0
    assert area(Circle(1.0)) == area("anything") == -1.0
    assert compiled(Circle(1.0)) == -1.0
    assert compiled(Square(3.0)) == 13.0
    assert corners.covers(Circle) and corners.covers(int)


def test_one_body_can_be_registered_for_several_types():
    assert corners(Square(2.0)) == corners(Cube(2.0)) == 4
    assert compiled(Cube(2.0)) == 3.0
    # What is registered stays an ordinary function.
    assert corners_of_sides(Cube(0.0)) == 1


def test_covers_tells_which_types_have_a_body():
    assert side.covers(Square) and side.covers(Cube)
    assert not side.covers(Circle) and not side.covers(str)
    with pytest.raises(TypeError, match="side is not defined for Circle; it is for Cube, Square"):
        side(Circle(1.0))


@njit
def doubled(value):
    return value[0] * 2.0


@pytest.mark.parametrize(("value", "kept"), [
    (Square(2.0), False), ((Square(2.0).side, Cube(1.0)), False), (np.ones(1), True),
    (Huber(1.0), True),
])
def test_code_for_types_from_elsewhere_is_not_kept_on_disk(value, kept):
    # Its bodies may change with no change of the package's sources.
    doubled(value)
    again = njit(doubled.py_func)
    assert again(value) == doubled(value)
    assert bool(again.stats.cache_hits) == kept


@njit(cache=False)
def second(values):
    return entry(values, 1)


def test_an_entry_is_that_of_an_array_or_the_number_itself():
    for of in (second, lambda values: entry(values, 1)):
        assert of(np.array([3.0, 4.0])) == 4.0
        assert of(5.0) == 5.0
