import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from benchmark_dspdc.engine.kernel_cache import njit
from benchmark_dspdc.engine.sampling import (
    FAR,
    below,
    block_size,
    draw,
    generator,
    line,
    partition,
    permuted,
    subset,
    uniform,
    weighted,
)


@njit(cache=False, allocates=True)
def many_draws(sampler, state, n_draws, size):
    ahead = np.full(2, -1)
    out = np.empty((n_draws, 2), dtype=np.int64)
    seen = np.zeros(size)
    for t in range(n_draws):
        lo, hi = draw(sampler, state, ahead)
        out[t, 0], out[t, 1] = lo, hi
        for k in range(lo, hi):
            seen[sampler.order[k]] += 1.0
    return out, seen


@settings(max_examples=200, deadline=None)
@given(total=st.integers(1, 300), size=st.integers(1, 300), seed=st.integers(0, 99))
def test_partition_is_a_partition_into_balanced_blocks(total, size, seed):
    size = min(size, total)
    blocks = partition(total, size, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(blocks.order), np.arange(total))
    sizes = np.diff(blocks.starts)
    assert blocks.starts[0] == 0
    assert blocks.starts[-1] == total
    assert len(sizes) == -(-total // size) == blocks.inverse_probability
    assert sizes.max() - sizes.min() <= 1
    assert sizes.max() == blocks.largest <= size


def test_101_blocks_at_20_become_6_of_about_17():
    sizes = np.diff(partition(101, 20, np.random.default_rng(0)).starts)
    assert sorted(sizes) == [16, 17, 17, 17, 17, 17]


def test_partition_sampling_is_unbiased_when_m_does_not_divide_n():
    # E[ybar] must be y_old + (y_new - y_old) for any change: average the
    # estimate r dy restricted to a block over all blocks that can be drawn.
    rng = np.random.default_rng(0)
    blocks = partition(17, 5, rng)
    dy = rng.standard_normal(17)
    r = blocks.inverse_probability
    estimates = []
    for k in range(len(blocks.starts) - 1):
        boosted = np.zeros(17)
        I = blocks.order[blocks.starts[k]:blocks.starts[k + 1]]
        boosted[I] = r * dy[I]
        estimates.append(boosted)
    np.testing.assert_allclose(np.mean(estimates, axis=0), dy, rtol=1e-14)
    # And blocks are drawn uniformly, although their sizes differ.
    ranges, seen = many_draws(blocks, generator(1), 40_000, 17)
    counts = np.unique(ranges[:, 0], return_counts=True)[1]
    assert len(counts) == r
    assert chisquare(counts).pvalue > 1e-4
    np.testing.assert_allclose(seen / 40_000, 1 / r, atol=0.02)


def test_successive_partition_blocks_are_independent():
    blocks = partition(30, 10, np.random.default_rng(0))
    ranges, _ = many_draws(blocks, generator(2), 60_000, 30)
    index = ranges[:, 0] // 10
    pairs = np.bincount(3 * index[:-1] + index[1:], minlength=9)
    assert chisquare(pairs).pvalue > 1e-4


@pytest.mark.parametrize("make", [lambda blocks: blocks, permuted, lambda blocks: weighted(
    blocks, np.arange(1.0, 6.0) / 15.0
)], ids=["partition", "permuted", "weighted"])
def test_a_long_line_gives_the_same_blocks_and_tells_those_that_come(make):
    blocks = partition(13, 3, np.random.default_rng(0))
    short, long = line(subset(9, 2)), line(partition(9, 9, np.random.default_rng(0)))
    assert (len(short), len(long)) == (2, 2 * FAR)
    drawn, told = [], []
    for ahead in (short, long):
        sampler, state = make(blocks), generator(7)
        drawn.append([draw(sampler, state, ahead) for _ in range(60)])
    for _ in range(FAR):
        told.append(tuple(long[:2]))
        draw(sampler, state, long)
    sampler, state, ahead = make(blocks), generator(7), line(subset(9, 2))
    assert drawn[0] == drawn[1]
    assert [draw(sampler, state, ahead) for _ in range(60 + FAR)][60:] == told


@pytest.mark.parametrize("size", [1, 3, 10])
def test_subset_sampling_gives_uniform_subsets_without_repetition(size):
    sampler = subset(10, size)
    state = generator(3)
    ranges, seen = many_draws(sampler, state, 30_000, 10)
    assert (ranges == [0, size]).all()
    assert len(set(sampler.order[:size])) == size
    np.testing.assert_allclose(seen / 30_000, size / 10, atol=0.02)


def test_pairs_of_a_subset_are_equally_likely():
    sampler, state, ahead = subset(6, 2), generator(4), np.full(2, -1)
    counts = np.zeros((6, 6))
    for _ in range(15_000):
        draw(sampler, state, ahead)
        counts[tuple(sorted(sampler.order[:2]))] += 1
    assert chisquare(counts[np.triu_indices(6, 1)]).pvalue > 1e-4


@njit(cache=False, allocates=True)
def many_uniforms(state, n):
    out = np.empty(n)
    for k in range(n):
        out[k] = uniform(state)
    return out


def test_generator_is_xoshiro256plus():
    # The first outputs from the reference state (1, 2, 3, 4), computed with
    # unbounded integers.
    mask = 2 ** 64 - 1
    s = [1, 2, 3, 4]
    expected = []
    for _ in range(50):
        expected.append((((s[0] + s[3]) & mask) >> 11) / 2 ** 53)
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = ((s[3] << 45) | (s[3] >> 19)) & mask
    np.testing.assert_array_equal(many_uniforms(np.array([1, 2, 3, 4], np.uint64), 50), expected)


def test_below_is_uniform_and_in_range():
    @njit(cache=False, allocates=True)
    def values(state, bound, n):
        out = np.empty(n, dtype=np.int64)
        for k in range(n):
            out[k] = below(state, bound)
        return out
    drawn = values(generator(5), 7, 70_000)
    assert chisquare(np.bincount(drawn, minlength=7)).pvalue > 1e-4
    assert values(generator(6), 1, 100).max() == 0


@pytest.mark.parametrize(("value", "expected"), [
    (1, 1), (100, 100), (1.0, 100), (0.5, 50), (1e-9, 1), (0.999, 100), (np.int64(3), 3),
    (np.float32(0.25), 25),
])
def test_block_size_takes_counts_and_fractions(value, expected):
    assert block_size(value, 100, "m") == expected


@pytest.mark.parametrize("value", [0, -1, 101, 0.0, 1.5, -0.1, True, "10", None, float("nan")])
def test_block_size_refuses_everything_else(value):
    with pytest.raises(ValueError, match="m must be an integer from 1 to 100 or a fraction"):
        block_size(value, 100, "m")
