"""Differences of FID by delete-a-group jackknives, beside numbers of independent code (rules/differences.md).

`fid_pairs.npz`: four codecs of the same 120 photo patches, 64 features, a reference of rank 63. From 50 rows on two of
them are the same. The independent code decided by rounding there, so that its numbers serve at the other counts only.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import JACKKNIFE_HISTORY, Earlier, Pairing, jackknife_rows
from optimist.estimates.skewness import skewness
from optimist.estimation.paired import Paired
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.policies.contrasts import contrasts_of
from optimist.records import codec
from tests.support.paired_arms import correlated, estimate, pairing
from tests.support.places import DATA

PAIRS = dict(np.load(DATA / "fid_pairs.npz"))
ROWS = [torch.from_numpy(PAIRS[f"rows_{name}"].astype(float)) for name in PAIRS["names"]]
METRIC = FrechetDistance(FrechetReference(PAIRS["reference_mean"], PAIRS["reference_covariance"]))


def told(rows: torch.Tensor, sizes: list[int], order: list[int] | None = None) -> Estimate:
    """The estimate of a generator whose rows were told in batches of these sizes, in this order of the batches."""
    statistic = METRIC.statistic()
    paired = Paired(InfluenceBound(METRIC), statistic)
    ends = np.cumsum(sizes).tolist()
    for place in order or range(len(sizes)):
        batch = rows[ends[place] - sizes[place] : ends[place]]
        statistic.update(batch)
        paired.add({"features": batch}, (ends[place] - sizes[place], sizes[place]), None)
        paired.follow(statistic)
    return paired.estimate(statistic)


def without_widening(rows: torch.Tensor) -> Estimate:
    """The estimate of a generator as it is where neither rare nor equal rows nor another spectrum widen anything."""
    found = told(rows, [len(rows)])
    statistic = METRIC.statistic()
    statistic.update(rows)
    pairing = found.pairing
    assert pairing is not None
    assert pairing.skewness is not None
    assert found.stopping_error is not None
    systematic = float(np.sqrt(pairing.systematic_stopping**2 - METRIC.analyse(statistic).details["doubt"] ** 2))
    sampled = (found.stopping_error**2 - pairing.systematic_stopping**2) / (
        1.0 + 10.0 * pairing.skewness**2 / found.samples
    )
    plain = replace(pairing, skewness=None, systematic_stopping=systematic)
    return replace(found, stopping_error=float(np.hypot(np.sqrt(sampled), systematic)), pairing=plain)


@pytest.mark.parametrize("count", [20, 30, 100, 120])
def test_errors_are_those_of_independent_code(count: int):
    found = [without_widening(rows[:count]) for rows in ROWS]
    assert [METRIC.scale, *(e.samples for e in found)] == ["linear", *[count] * 4]
    jackknives = PAIRS[f"n{count}_jackknife"] - PAIRS[f"n{count}_jackknife"].mean(1, keepdims=True)
    assert np.array([e.pairing.jackknife for e in found if e.pairing]) == pytest.approx(jackknives, rel=1e-5, abs=1e-8)
    assert [e.value for e in found] == pytest.approx(PAIRS[f"n{count}_values"], rel=1e-6)
    assert [e.stopping_error for e in found] == pytest.approx(PAIRS[f"n{count}_stop"], rel=1e-6)
    contrasts = contrasts_of(found)
    for base in range(4):
        others = [place for place in range(4) if place != base]
        errors = [contrasts.errors(base, "stopping")[place] for place in others]
        assert errors == pytest.approx(PAIRS[f"n{count}_paired_error_new"][base][others], rel=1e-6)


@pytest.mark.parametrize("count", [50, 60])
def test_rounding_does_not_decide_where_two_rows_are_equal(count: int):
    values = []
    for scale in (1.0, 1.0 + 1e-13, 1.0 - 1e-13):
        statistic = METRIC.statistic()
        statistic.update(ROWS[1][:count] * scale)
        values.append(METRIC.analyse(statistic).estimate)
    assert values == pytest.approx([values[0]] * 3, rel=1e-3)
    assert abs(values[0] - PAIRS["truth"][1]) < 2.0


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 3)])
def test_differences_do_not_jump_at_the_rank(pair: tuple[int, int]):
    """The reference has the rank 63."""
    differences, errors = [], []
    for count in range(60, 68):
        contrasts = contrasts_of([told(ROWS[arm][:count], [count]) for arm in pair])
        differences.append(contrasts.against(0).differences[1])
        errors.append(contrasts.errors(0, "stopping")[1])
    assert np.abs(np.diff(differences)).max() < np.mean(errors)


@pytest.mark.parametrize(("kept", "sign"), [((0.95, 0.8), 1.0), ((0.3, 0.1), -1.0)])
def test_real_rows_have_the_opposite_influence_unless_generators_lose_what_they_show(
    kept: tuple[float, float], sign: float
):
    """Rare rows are large in the last columns, of which generators keep these parts: the sign changes at one half."""
    rng = np.random.default_rng(1)
    real, drawn = (rng.standard_normal((2000, 6)) * np.array([8.0] * 3 + [1.0] * 3) for _ in range(2))
    for rows in (real, drawn):
        rows[::25, 3:] *= 4.0
    metric = FrechetDistance(
        FrechetReference(real.mean(0), np.cov(real, rowvar=False), samples=len(real), some_rows=real[:256])
    )
    found = []
    for part in kept:
        statistic = metric.statistic()
        statistic.update(rows := torch.from_numpy(drawn * np.array([1.0] * 3 + [part] * 3)))
        found.append(metric.analyse(statistic, {"features": rows}))
    one, other = found
    parts = (one.influence, other.influence), (one.reference, other.reference)
    of_rows, of_real = (skewness((b - a).numpy()) for a, b in parts if a is not None and b is not None)
    assert abs(of_rows) > 1.0
    assert abs(of_real) > 1.0
    assert np.sign(of_rows) == -sign * np.sign(of_real)


def test_a_jackknife_takes_rows_in_steps():
    assert [jackknife_rows(n) for n in (2, 99, 100, 119, 120, 143, 144, 299, 300, 5000)] == [
        *(2, 99, 100, 100, 120, 120, 144, 250, 300, 300)
    ]


@pytest.mark.parametrize("base", [0, 1])
def test_at_unequal_counts_the_history_has_the_jackknife_to_compare_with(base: int):
    """What counts is how far the shorter run's jackknife is from that of the longer one at the same count."""
    deviations = np.array([1.0, -1.0] * 5)
    one, other = correlated(0.95)
    errors = []
    for past in ((), 0.3 * deviations, 0.33 * deviations, 0.1 * deviations, -30.0 * deviations):
        earlier = Earlier(20, 0.1, 1.0, 1.0, tuple(past))
        short = estimate(0.0, 1.0, 1.0, 20, pairing(one, 20, jackknife=tuple(0.3 * deviations)))
        long = estimate(0.2, 0.7, 0.7, 40, pairing(other, 40, history=(earlier,), jackknife=tuple(9.0 * deviations)))
        errors.append(contrasts_of([short, long]).errors(base, "stopping")[1 - base])
    plain, same, near, apart, wrong = errors
    assert same == near == plain
    assert plain < apart < wrong == pytest.approx(np.hypot(1.0, 0.7))


def test_jackknives_of_as_many_rows_are_compared_themselves():
    deviations = np.array([1.0, -1.0] * 5)
    one, other = correlated(0.95)
    errors = []
    for theirs in ((), 0.1 * deviations, -0.1 * deviations, -9.0 * deviations):
        mine = estimate(0.0, 1.0, 1.0, 100, pairing(one, 100, jackknife=tuple(0.1 * deviations)))
        others = estimate(0.2, 1.0, 1.0, 100, pairing(other, 100, jackknife=tuple(theirs)))
        errors.append(contrasts_of([mine, others]).errors(0, "stopping")[1])
    plain, same, opposite, wrong = errors
    assert same == plain
    assert opposite == pytest.approx(0.2 * 3.0)  # 9/10 · Σ 0.2²
    assert wrong == pytest.approx(np.sqrt(2.0))


def test_the_groups_of_a_jackknife_are_those_of_the_indices():
    """So generators whose batches came in different orders have the same groups."""
    in_order, out_of_order = told(ROWS[0][:30], [10] * 3), told(ROWS[0][:30], [10] * 3, [1, 0, 2])
    assert in_order.pairing is not None
    assert out_of_order.pairing is not None
    assert out_of_order.pairing.jackknife == pytest.approx(in_order.pairing.jackknife, rel=1e-5)
    with_a_gap = told(ROWS[0][:33], [10, 5, 8, 10], [3, 0, 2]).pairing
    assert with_a_gap is not None
    indices = np.array([*range(10), *range(15, 33)])
    expected = []
    for group in range(10):
        statistic = METRIC.statistic()
        statistic.update(ROWS[0][indices[indices % 10 != group]])
        expected.append(METRIC.analyse(statistic).estimate)
    assert with_a_gap.jackknife == pytest.approx(expected - np.mean(expected), rel=1e-6)


def test_where_indices_are_missing_the_jackknife_is_that_of_the_difference_without_them():
    """b lacks the indices 20 to 29. What these have added to a is taken out, of the jackknife as of the difference."""
    rng = np.random.default_rng(3)
    one, other = correlated(0.99, 40)
    lacking = np.isin(np.arange(40), range(20, 30))
    d_a = rng.standard_normal(10)
    d_b = d_a + 0.8 * rng.standard_normal(10)
    d_a, d_b = d_a - d_a.mean(), d_b - d_b.mean()
    a = estimate(0.3, 2.0, 2.0, 40, pairing(one, 40, jackknife=tuple(d_a)))
    told_of_b = (0, 20, 30, 40)
    b = estimate(0.0, 2.0, 2.0, 30, pairing(np.where(lacking, np.nan, other), 30, told=told_of_b, jackknife=tuple(d_b)))
    found = contrasts_of([a, b])
    u = one[~lacking].mean() - one.mean()
    weight = (found.against(1).differences[0] - 0.3) / u
    assert 0.5 < weight < 1.5
    left = [np.arange(40) % 10 != group for group in range(10)]
    u_without = np.array([one[~lacking & each].mean() - one[each].mean() for each in left])
    deviations = d_a - d_b + weight * (u_without - u_without.mean())
    assert found.errors(1, "stopping")[0] == pytest.approx(np.sqrt(0.9 * np.square(deviations).sum()), rel=1e-5)
    plain = [replace(each, pairing=replace(each.pairing, jackknife=())) for each in (a, b) if each.pairing]
    assert contrasts_of(plain).errors(1, "stopping")[0] < found.errors(1, "stopping")[0]


def test_the_newest_jackknives_are_kept_and_stored():
    found = told(ROWS[0], [3] * 16 + [40, 4, 4, 4, 4, 4, 4, 4, 4]).pairing
    assert found is not None
    assert codec.decode(Pairing, codec.encode(found)) == found
    assert found.is_sound()
    assert sum(bool(past.jackknife) for past in found.history) <= JACKKNIFE_HISTORY
    stored = codec.plain(found)
    stored["history"][0] = ""
    with pytest.raises(ValueError, match="at most"):
        codec.decode(Pairing, json.dumps(stored)).is_sound()


def test_without_a_jackknife_the_error_is_that_by_influences():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 100))
    one, other = (estimate(0.0, 1.0, 1.0, 100, pairing(row, 100)) for row in (rows[0], rows[0] + 0.5 * rows[1]))
    assert contrasts_of([one, other]).errors(0, "stopping")[1] < 1.0
