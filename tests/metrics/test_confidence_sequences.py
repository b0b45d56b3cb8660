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


def by_the_book(values: list[float], delta: float) -> tuple[float, float, float, float]:
    """Both intervals by the formulas of decisions.md §2 as they are written there, one value after the other."""
    level, total, spread = math.log(2 / delta), 0.0, 0.0
    bets = weighted = costs = 0.0
    bernstein, grid = (0.0, 1.0), [k / (GRID - 1) for k in range(GRID)]
    above, below = [0.0] * GRID, [0.0] * GRID
    low, high = 0, GRID - 1
    for t, x in enumerate(values, 1):
        mean, variance = (0.5 + total) / t, (0.25 + spread) / t
        bet = math.sqrt(2 * level / (variance * t * math.log(1 + t)))
        part = min(bet, 0.5)
        bets, weighted = bets + part, weighted + part * x
        costs += 4 * (x - mean) ** 2 * (-math.log(1 - part) - part) / 4
        half = (level + costs) / bets
        bernstein = max(bernstein[0], weighted / bets - half), min(bernstein[1], weighted / bets + half)
        for k, m in enumerate(grid):
            above[k] += math.log(1 + min(bet, 0.5 / m if m else math.inf) * (x - m))
            below[k] += math.log(1 - min(bet, 0.5 / (1 - m) if m < 1 else math.inf) * (x - m))
        low = max([low] + [k for k in range(GRID) if above[k] >= level])
        high = min([high] + [k for k in range(GRID) if below[k] >= level])
        total += x
        spread += (x - (0.5 + total) / (t + 1)) ** 2
    return *bernstein, grid[low], grid[high]


@given(values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), repeats=st.integers(1, 4))
def test_both_follow_their_formulas(values: list[float], repeats: int):
    expected = by_the_book(values * repeats, 0.1)
    found: list[float] = []
    for kind in KINDS:
        sequence = kind((0.0, 1.0), 0.1)
        sequence.add(tensor(values * repeats))
        if sequence.is_contradicted:
            return
        found += sequence.interval
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


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
    rng, count, delta = np.random.default_rng(3), 150, 0.1
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
