"""Sums of values by prompt: those of brute force, however the values come in batches."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.metrics.cluster_sums import UNKNOWN, PromptSums


@pytest.mark.parametrize("size", [1, 7, 60])
def test_counts_means_and_squares_are_those_of_all_values(size: int):
    rng = np.random.default_rng(size)
    values, prompts = rng.normal(1e3, 1.0, 60), rng.integers(UNKNOWN, 5, 60)
    sums = PromptSums(6)
    for begin in range(0, 60, size):
        sums.add(values[begin : begin + size], prompts[begin : begin + size])
    own = [values[prompts == prompt] for prompt in range(5)]
    np.testing.assert_array_equal(sums.counts, [*map(len, own), 0])
    np.testing.assert_allclose(sums.means[:5], [each.mean() for each in own], rtol=1e-12)
    assert sums.squares == pytest.approx(sum(len(each) * each.var() for each in own), rel=1e-9)
    strays = values[prompts == UNKNOWN]
    assert (sums.stray_count, sums.stray_mean) == (len(strays), pytest.approx(strays.mean(), rel=1e-12))
    assert sums.stray_squares == pytest.approx(len(strays) * strays.var(), rel=1e-9)


def test_equal_values_of_a_prompt_vary_by_nothing():
    sums = PromptSums(2)
    sums.add(np.full(5, 0.1), np.array([0, 0, 0, 1, 1]))
    sums.add(np.full(3, 0.1), np.zeros(3, np.int64))
    assert (sums.squares, sums.stray_squares) == (0.0, 0.0)
