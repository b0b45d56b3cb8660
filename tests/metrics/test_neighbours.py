"""Precision, density and coverage: the published definitions, again by brute force, and what their errors claim."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics import neighbours as balls_module
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.neighbours import LAST, Balls, CoverageScore, analyse_coverage, extrapolated, missed, pack, unpack
from optimist.policies.contrasts import contrasts_of
from optimist_client.metrics import Coverage, Density, Metric, Precision
from tests.support.real_rows import score_of
from tests.support.streams import fed, rows_of

KINDS = [Precision, Density, Coverage]


def published(real: Tensor, fake: Tensor, k: int) -> dict[str, float]:
    """Naeem et al. 2020, by loops."""
    radii = [
        sorted(math.dist(row, other) for place, other in enumerate(real.tolist()) if place != own)[k - 1]
        for own, row in enumerate(real.tolist())
    ]
    inside = [
        [math.dist(row, centre) < radius for centre, radius in zip(real.tolist(), radii, strict=True)]
        for row in fake.tolist()
    ]
    return {
        "precision": float(np.mean([any(row) for row in inside])),
        "density": float(np.mean([sum(row) / k for row in inside])),
        "coverage": float(np.mean([any(column) for column in zip(*inside, strict=True)])),
    }


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_published_definition(kind: type[Metric], offset: float):
    real, fake = rows_of(0, 40, 3, offset), rows_of(1, 60, 3, offset + 0.4)
    metric = score_of(kind.of({"neighbours": 3}), real)
    assert metric.plug_in(fed(metric, fake)) == pytest.approx(published(real, fake, 3)[kind.name], abs=1e-12)


@pytest.mark.parametrize("spread", [1.0, 1e-4, 1e-7, 1e18])
def test_what_single_precision_cannot_tell_is_told_by_double_precision(spread: float):
    kinds = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near, far = (torch.cat([kinds + spread * rows_of(seed + place, 4, 6) for place in range(20)]) for seed in (2, 40))
    balls = Balls(near, 3)
    distances = torch.stack([(near - row).square().sum(1).sqrt() for row in near])
    radii = distances.fill_diagonal_(torch.inf).sort(1).values[:, 2]
    assert torch.allclose(balls.radii, radii, rtol=1e-8, atol=0.0)
    inside = torch.stack([(near - row).square().sum(1).sqrt() < radii for row in far])
    assert torch.equal(balls.hits(far), inside.sum(1))


def test_reference_numbers(stored):
    file = stored("neighbours")
    real, fake, k = torch.from_numpy(file["real"]), torch.from_numpy(file["fake"]), int(file["k"])
    for kind in (Precision, Density):
        metric = score_of(kind.of({"neighbours": k}), real)
        found = metric.analyse(fed(metric, fake))
        assert found.estimate == pytest.approx(float(file[kind.name]), rel=1e-9)
        assert found.details["plain_error"] == pytest.approx(float(file[f"{kind.name}_se"]), rel=1e-9)
    metric = score_of(Coverage(neighbours=k, at=int(file["coverage_n0"])), real)
    statistic = fed(metric, fake)
    assert metric.balls.radii.numpy() == pytest.approx(file["radii"], rel=1e-9)
    assert statistic.counts.tolist() == file["coverage_counts"].tolist()
    assert metric.plug_in(statistic) == pytest.approx(float(file["coverage"]), rel=1e-9)
    assert metric.analyse(statistic).estimate == pytest.approx(float(file["coverage_at_n0"]), rel=1e-9)


def test_a_copy_of_a_real_row_is_on_the_surface_of_the_balls_that_it_spans(monkeypatch: pytest.MonkeyPatch):
    """Repeats and copies, where a product of matrices would answer by its rounding; in blocks of any size."""
    rng = np.random.default_rng(0)
    real = torch.from_numpy(np.repeat(1000.0 + rng.standard_normal((60, 37)), 3, axis=0))
    for k in (2, 3):
        whole = Balls(real.numpy(), k)
        monkeypatch.setattr(balls_module, "ENTRIES", 7 * len(real))
        blocks = Balls(real.numpy(), k)
        monkeypatch.undo()
        assert torch.equal(whole.radii, blocks.radii)
        # With three copies the second neighbour is a copy, and there is no ball; the third one is another row.
        assert bool((whole.radii == 0.0).all()) == (k == 2)
        found = torch.cat(list(whole.inside(real)))
        apart = torch.cdist(real, real, compute_mode="donot_use_mm_for_euclid_dist")
        assert torch.equal(found, apart < apart.kthvalue(k + 1, dim=0).values)
        assert torch.equal(found[5:6], torch.cat(list(whole.inside(real[5:6]))))


def test_more_samples_than_are_kept():
    real, fake = rows_of(0, 30, 2), rows_of(1, 3 * LAST + 5, 2)
    metric = score_of(Coverage(at=20), real)
    statistic = fed(metric, fake, 100)
    inside = torch.cat(list(metric.balls.inside(fake)))
    assert torch.equal(statistic.last, inside[-LAST:])
    assert torch.equal(statistic.counts, inside.sum(0))


@given(st.integers(1, 40), st.integers(0, 5))
def test_bits(count: int, rows: int):
    inside = torch.from_numpy(np.random.default_rng(count).integers(2, size=(rows, count)).astype(bool))
    assert torch.equal(unpack(pack(inside), count), inside)


# Coverage at a common number of samples.


def test_coverage_is_the_mean_over_all_subsets():
    inside = torch.from_numpy(np.random.default_rng(0).random((7, 12)) < 0.2)
    subsets = [inside[list(some)].any(0).double().mean() for some in combinations(range(7), 3)]
    found = analyse_coverage(inside.sum(0), 7, 3, 5, inside)
    assert found.estimate == pytest.approx(float(np.mean(subsets)), rel=1e-12)
    assert found.bracket is None
    counts = torch.tensor([0, 1, 3, 7])
    expected = [math.comb(7 - count, 3) / math.comb(7, 3) for count in counts.tolist()]
    assert missed(counts, 7, 3).tolist() == pytest.approx(expected, rel=1e-12)


def draws(chances: Tensor, n: int, seed: int) -> Tensor:
    """Which balls n samples are inside: neighbouring balls are hit together."""
    place = torch.from_numpy(np.random.default_rng(seed).random(n))
    centres = (chances.cumsum(0) - 0.5 * chances)[None]
    apart = (place[:, None] - centres).abs()
    return torch.minimum(apart, 1.0 - apart) < chances


@pytest.mark.parametrize(("n", "at"), [(50, 50), (60, 50), (200, 50), (400, 400)])
def test_the_error_of_coverage_is_that_of_repeated_streams(n: int, at: int):
    """Where n is hardly above `at` the coverage is far from linear in the samples: the jackknife alone is too wide."""
    chances = torch.from_numpy(np.random.default_rng(9).dirichlet(np.full(150, 0.5)))
    truth = float((1.0 - (1.0 - 2.0 * chances) ** at).mean())
    found = []
    for seed in range(120):
        inside = draws(chances, n, seed)
        found.append(analyse_coverage(inside.sum(0), n, at, 2, inside[-LAST:]))
    values = np.array([each.estimate for each in found])
    z = (values - truth) / np.array([each.stopping_error for each in found])
    assert abs(values.mean() - truth) < 3.5 * values.std() / math.sqrt(len(values))
    assert 0.8 < float(np.sqrt(np.square(z).mean())) < 1.25


@pytest.mark.parametrize("n", [5, 20, 50, 100, 199])
def test_before_that_many_samples_coverage_lies_in_its_bracket(n: int):
    chances = torch.from_numpy(np.random.default_rng(9).dirichlet(np.full(150, 0.5)))
    truth = float((1.0 - (1.0 - 2.0 * chances) ** 200).mean())
    found = []
    for seed in range(60):
        inside = draws(chances, n, seed)
        one = analyse_coverage(inside.sum(0), n, 200, 2, inside)
        assert one.bracket is not None
        assert one.bracket[0] <= one.estimate <= one.bracket[1] <= 1.0
        assert one.bracket[0] == one.plug_in
        assert "extrapolated" in one.warnings[0]
        found.append(((one.estimate - truth) / one.stopping_error, *one.bracket))
    z, lower, upper = np.array(found).T
    assert lower.mean() < truth < upper.mean() + 0.01
    assert float(np.sqrt(np.square(z).mean())) < 1.2


def test_a_sample_that_came_twice_by_chance_does_not_make_coverage_certain():
    """It is inside many balls and no other sample is: either copy alone loses nothing."""
    inside = torch.zeros(50, 200, dtype=torch.bool)
    inside[:2, :100] = True
    twice = analyse_coverage(inside.sum(0), 50, 50, 5, inside)
    inside[1, :100] = False
    once = analyse_coverage(inside.sum(0), 50, 50, 5, inside)
    assert 0.2 < twice.stopping_error < once.stopping_error < 0.8


def test_extrapolation_ends_where_the_estimate_begins():
    inside = draws(torch.full((100,), 0.01, dtype=torch.float64), 60, 0)
    value, lower, upper = extrapolated(inside.sum(0), 60, 60)
    assert value == lower == upper == float(inside.any(0).double().mean())


# Errors and influences.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [0.0, 100.0])
def test_samples_that_are_all_alike_are_no_proof(kind: type[Metric], far: float):
    """All inside the same balls, or all outside of all: the interval is not empty, and few more samples shorten it."""
    real = rows_of(0, 50, 2)
    metric = score_of(kind.of({"at": 10} if kind is Coverage else {}), real)
    errors = []
    for n in (2, 3, 15, 20, 200):
        found = metric.analyse(fed(metric, torch.full((n, 2), far, dtype=torch.float64)))
        assert math.isfinite(found.estimate)
        errors.append(found.stopping_error)
    if far:
        # Of n samples none is inside: one in n may be.
        assert 0.3 / 200 < errors[-1] * (50 / 5 / 10 if kind is Coverage else 1.0) < 3 / 200
    assert errors[2:] == sorted(errors[2:], reverse=True)
    assert min(errors) > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_influences_are_those_of_leaving_a_sample_out(kind: type[Metric]):
    real, fake = rows_of(0, 60, 3), rows_of(1, 120, 3)
    metric = score_of(kind.of({"at": 40} if kind is Coverage else {}), real)
    found = metric.analyse(fed(metric, fake), {"features": fake[:30]})
    without = [metric.analyse(fed(metric, torch.cat([fake[:row], fake[row + 1 :]]))).estimate for row in range(30)]
    expected = -torch.tensor(without, dtype=torch.float64) * (len(fake) - 1)
    gaps = (found.influence - found.influence.mean()) - (expected - expected.mean())
    assert float(gaps.abs().max()) < 1e-9 * len(fake)
    again = metric.analyse(fed(metric, fake), {"features": fake[:30]})
    assert torch.equal(found.influence, again.influence)
    if kind is Coverage:
        torch.testing.assert_close(found.recent[:30], found.influence)


@pytest.mark.parametrize("kind", KINDS)
def test_the_balls_of_common_rows_are_found_once(kind: type[Metric], monkeypatch: pytest.MonkeyPatch):
    real, fake = rows_of(0, 60, 3), rows_of(1, 50, 3)
    metric = score_of(kind.of({}), real)
    statistic = fed(metric, fake)
    first = metric.analyse(statistic, {"features": fake[:20]}).influence
    asked: list[int] = []
    inside = metric.balls.inside
    monkeypatch.setattr(metric.balls, "inside", lambda rows: (asked.append(len(rows)), inside(rows))[1])
    later = metric.analyse(statistic, {"features": torch.cat([fake[30:33], fake[:20]])}).influence
    assert asked == [3]
    assert torch.equal(later[3:], first)


def test_equal_scores_of_all_pairs_do_not_prove_that_two_generators_are_equal():
    """One sample in 50 more of the second generator is outside; no stream of 50 need show it."""
    real, fake = rows_of(0, 60, 2), 0.1 * rows_of(1, 50, 2)
    fake[0] = 100.0
    metric = score_of(Precision(), real)
    found = []
    for _ in range(2):
        estimator = StreamingEstimator(InfluenceBound(metric), 0.04, paired=True)
        estimator.add({"features": fake}, [""] * 50, indices=(0, 50))
        found.append(estimator.estimate())
    error = contrasts_of(found).errors(0, "stopping")[1]
    assert 0.7 / 50 < error < 1.5 / 50


# What is refused.


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_other_balls_are_refused(kind: type[Metric]):
    metric, other = score_of(kind.of({}), rows_of(0, 30, 3)), score_of(kind.of({}), rows_of(1, 30, 3))
    statistic = fed(other, rows_of(2, 10, 3))
    with pytest.raises(ValueError, match="another metric or reference"):
        metric.analyse(statistic)
    with pytest.raises(ValueError, match="another layout"):
        score_of(kind.of({}), rows_of(0, 31, 3)).statistic().restore(statistic.state())
    (name, (digest,)), (_, (others,)) = *metric.identity(), *other.identity()
    assert name == "reference"
    assert not torch.equal(digest, others)
    with pytest.raises(ValueError, match="at least 1 sample"):
        metric.plug_in(metric.statistic())


def test_coverage_takes_at_and_the_others_do_not():
    assert isinstance(score_of(Coverage(at=7), rows_of(0, 30, 3)), CoverageScore)
    with pytest.raises(ValueError, match="does not take at"):
        Precision.of({"at": 7})
    with pytest.raises(ValueError, match="at"):
        Coverage.of({"at": 0})
