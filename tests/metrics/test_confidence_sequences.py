"""Confidence sequences of a mean: the reference numbers, validity at all times, and what they do with odd streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.metrics.implementations import Setting, make_bound, make_metric
from optimist.metrics.mean import CONTRADICTED, GRID, Betting, ConfidenceSequence, EmpiricalBernstein
from optimist.records import codec
from optimist_client.metrics import Mean, WinRate

KINDS = (EmpiricalBernstein, Betting)
STEP = 1.0 / (GRID - 1)


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def after_each(sequence: ConfidenceSequence, values) -> np.ndarray:
    found = []
    for value in values:
        sequence.add(tensor([float(value)]))
        found.append(sequence.interval)
    return np.array(found)


def test_empirical_bernstein_has_the_reference_numbers(stored):
    file = stored("mean_confidence")
    found = after_each(EmpiricalBernstein((0.0, 1.0), float(file["alpha"])), file["x"])
    np.testing.assert_allclose(found[:, 0], file["bernstein_lower"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], file["bernstein_upper"], rtol=1e-9, atol=1e-12)


def test_betting_excludes_the_candidates_of_the_reference_numbers(stored):
    """The reference has the first and the last candidate that is left; our ends are the excluded ones beside them."""
    file = stored("mean_confidence")
    found = after_each(Betting((0.0, 1.0), float(file["alpha"])), file["x"])
    lower, upper = file["betting_lower"], file["betting_upper"]
    np.testing.assert_allclose(found[:, 0], np.where(lower > 0.0, lower - STEP, 0.0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found[:, 1], np.where(upper < 1.0, upper + STEP, 1.0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.floats(-3.0, 7.0), min_size=1, max_size=60), size=st.integers(1, 60))
def test_batches_and_scale_do_not_matter_and_intervals_only_shrink(kind, values: list[float], size: int):
    one, cut, scaled = kind((-3.0, 7.0), 0.05), kind((-3.0, 7.0), 0.05), kind((0.0, 1.0), 0.05)
    one.add(tensor(values))
    before = (-3.0, 7.0)
    for part in tensor(values).split(size):
        cut.add(part)
        assert before[0] - 1e-12 <= cut.interval[0] <= cut.interval[1] <= before[1] + 1e-12
        before = cut.interval
    scaled.add((tensor(values) + 3.0) / 10.0)
    assert one.interval == pytest.approx(cut.interval, abs=1e-9)
    assert one.interval == pytest.approx([10.0 * end - 3.0 for end in scaled.interval], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_few_streams_ever_leave_their_sequence(kind):
    """The benchmark `means.py` has more streams, longer ones, and more laws."""
    rng, count, delta = np.random.default_rng(3), 60, 0.1
    streams = {0.5: rng.random((count, 200)) < 0.5, 0.05: rng.random((count, 200)) < 0.05}
    left = 0
    for mean, rows in streams.items():
        for row in rows:
            sequence = kind((0.0, 1.0), delta)
            sequence.add(tensor(row.astype(float)))
            low, high = sequence.interval
            left += sequence.is_contradicted or not low <= mean <= high
    assert left <= 2 * count * delta + 2 * math.sqrt(2 * count * delta * (1 - delta))


@pytest.mark.parametrize("kind", KINDS)
def test_values_whose_mean_changes_leave_the_interval_as_it_was_and_are_reported(kind):
    sequence = kind((0.0, 1.0), 0.05)
    sequence.add(torch.zeros(300, dtype=torch.float64))
    early = sequence.interval
    sequence.add(torch.ones(3000, dtype=torch.float64))
    assert sequence.is_contradicted
    assert sequence.interval[0] <= sequence.interval[1] <= early[1]


@pytest.mark.parametrize("bound", ["empirical-bernstein", "betting"])
def test_estimates_have_strict_intervals_and_standard_errors(bound: str):
    values = np.random.default_rng(1).beta(8, 4, 200)
    made = make_bound(bound, make_metric(Mean(range=(0.0, 2.0), higher_is_better=False), Setting({"values": 1})))
    statistic = made.statistic()
    statistic.update(tensor(values)[:, None])
    estimate = made.estimate(statistic)
    plain = make_bound("influence", made.metric).estimate(statistic)
    assert estimate.strict
    assert (estimate.value, estimate.standard_error) == (plain.value, plain.standard_error)
    assert estimate.lower < plain.lower < plain.upper < estimate.upper
    assert estimate.optimistic == estimate.lower
    assert codec.decode(type(estimate), codec.encode(estimate)) == estimate
    assert not plain.strict
    statistic.update(torch.full((6000, 1), 2.0, dtype=torch.float64))
    changed = made.estimate(statistic)
    assert CONTRADICTED in changed.warnings
    assert changed.lower <= changed.value <= changed.upper


def test_a_sequence_needs_a_range():
    for bound in ("empirical-bernstein", "betting"):
        with pytest.raises(ValueError, match="needs the least and the largest value"):
            Mean().check_bound(bound)
        with pytest.raises(ValueError, match="needs the least and the largest value"):
            make_bound(bound, make_metric(Mean(), Setting({"values": 1})))
        WinRate().check_bound(bound)
