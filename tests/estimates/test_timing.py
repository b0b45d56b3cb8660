"""Whether the scores of a generator's batches go with the time that these took."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.estimates.timing import Timing, rank_correlation


@pytest.mark.parametrize("levels", [3, 1000])
def test_the_rank_correlation_is_that_of_scipy(levels: int):
    from scipy.stats import spearmanr  # here, as it takes a second, and each worker of pytest collects all files

    rng = np.random.default_rng(levels)
    one, other = rng.integers(0, levels, (2, 50)).astype(float)
    assert rank_correlation(one, one + other) == pytest.approx(spearmanr(one, one + other)[0], abs=1e-12)
    assert rank_correlation(one, np.ones(50)) == 0.0


def timing(means: np.ndarray, seconds: np.ndarray) -> Timing:
    found = Timing.of(np.column_stack([means, seconds]))
    assert found is not None
    return found


@pytest.mark.parametrize("batches", [4, 5, 8, 12, 20, 50])
def test_batches_that_take_as_long_as_they_score_are_found_and_others_are_not(batches: int):
    rng = np.random.default_rng(batches)
    draws = rng.standard_normal((2000, 2, batches))
    independent = np.mean([timing(*pair).is_related for pair in draws])
    assert independent < (0.1 if batches == 4 else 0.05)
    for seconds in np.exp(draws[:20, 0]):
        assert timing(seconds, seconds).is_related
        assert timing(-seconds, seconds).is_related, "failures are told late, too"


def test_fewer_batches_say_nothing_but_the_pace():
    assert Timing.of(np.zeros((0, 2))) is None
    found = timing(np.arange(3.0), np.array([1.0, 2.0, 9.0]))
    assert (found.pace, found.is_related) == (2.0, False)
