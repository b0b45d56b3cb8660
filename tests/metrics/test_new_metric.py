"""A metric that is written from the base classes alone has an interval, an estimator, and snapshots."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from toy_score import MeanScore

from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import InfluenceBound
from optimist.scoring.cached import CachedStatistic

METRIC = MeanScore(0, {"features": 1})


def batch(*values: float) -> tuple[dict[str, Tensor], list[str]]:
    return {"features": torch.tensor(values, dtype=torch.float64)[:, None]}, [f"{value}" for value in values]


def test_its_estimate_has_an_interval_from_two_samples_on():
    estimator = StreamingEstimator(InfluenceBound(METRIC), growth=0.0)
    assert not estimator.add(*batch(1.0))
    first = estimator.estimate()
    assert (first.value, first.lower, first.upper, first.standard_error) == (1.0, -math.inf, math.inf, None)
    assert first.warnings == ("at least 2 samples are needed for an interval",)
    assert estimator.add(*batch(2.0, 3.0))
    estimate = estimator.estimate()
    assert (estimate.value, estimate.samples, estimate.warnings) == (2.0, 3, ())
    assert estimate.standard_error == pytest.approx(1 / math.sqrt(3))
    assert estimate.optimistic == estimate.lower == pytest.approx(2.0 - 1.959963984540054 / math.sqrt(3))


def test_what_it_does_not_offer_is_refused_or_nothing():
    estimator = StreamingEstimator(InfluenceBound(METRIC), growth=0.0)
    estimator.add(*batch(1.0, 2.0))
    estimator.forget()
    assert (estimator.reservoir, estimator.has_prompts, estimator.cached_bytes) == (None, False, 0)
    with pytest.raises(ValueError, match="no modes"):
        estimator.modes()
    with pytest.raises(ValueError, match="no prompts"):
        estimator.prompt_groups()


def test_it_is_frozen_and_thawed():
    bound = InfluenceBound(METRIC)
    cached = CachedStatistic(bound, 0.0)
    cached._estimator.add(*batch(1.0, 2.0, 4.0))
    again = CachedStatistic.thaw(cached.freeze(), 1, bound, 0.0)
    again._estimator.add(*batch(5.0))
    cached._estimator.add(*batch(5.0))
    assert again._estimator.estimate() == cached._estimator.estimate()
