"""Kinds of real rows that a generator has not been seen to make."""

from __future__ import annotations

import numpy as np
import pytest

import optimist
from optimist_client.metrics import CMMD, FID, MMD, Gaussian, Metric

D = 12


def rows(rng: np.random.Generator, count: int, share: float) -> np.ndarray:
    """Rows (count, 12) of two kinds: this share of them is spread out, the others are nearly the same."""
    spread = np.arange(count)[:, None] < share * count
    return np.where(spread, 3.0 * rng.standard_normal((count, D)), 2.0 + 0.1 * rng.standard_normal((count, D)))


REAL = rows(np.random.default_rng(0), 600, 0.3)


@pytest.mark.parametrize(
    "metric",
    [FID(reference=REAL), CMMD(reference=REAL), MMD(reference=REAL, kernel=Gaussian(5.0, features=256))],
    ids=lambda metric: metric.name,
)
def test_real_rows_that_no_sample_is_near_are_told_of(metric: Metric):
    for count, share, expected in ((30, 0.0, "one in 10"), (30, 0.1, None), (100, 0.0, "one in 33"), (19, 0.0, None)):
        found = optimist.score(rows(np.random.default_rng(count), count, share), metric).warnings
        said = [text for text in found if text.startswith("no sample is near")]
        assert [text.endswith(f"values rarer than {expected} may not have come") for text in said] == [True] * bool(
            expected
        )


def test_moments_know_no_kinds():
    found = optimist.score(
        rows(np.random.default_rng(1), 30, 0.0), FID(reference=(REAL.mean(0), np.cov(REAL.T)))
    ).warnings
    assert not any("near" in text for text in found)


def test_samples_of_all_kinds_are_near_to_all_real_rows():
    rng = np.random.default_rng(2)
    real = rng.standard_normal((400, D))
    for count in (20, 60, 250):
        found = optimist.score(0.8 * rng.standard_normal((count, D)), FID(reference=real)).warnings
        assert not any("near" in text for text in found)
