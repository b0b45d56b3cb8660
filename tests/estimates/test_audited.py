"""The estimate by people of some samples and a judge of all, against numpy and against ppi-python 0.2.3.

`audits_by_ppi.npz` was made once, by numpy 2 and ppi-python:

    r = np.random.default_rng(70)
    judge = r.standard_normal(400)
    people = 0.8 * judge[:60] + 0.6 * r.standard_normal(60) + 0.2
    halves = [slice(0, None, 2), slice(1, None, 2)]
    slopes = [np.cov(people[one], judge[:60][one])[0, 1] / judge[:60][one].var(ddof=1) * (1 - 4 / 60) for one in halves]
    points = [
        ppi_mean_pointestimate(people[one], judge[:60][one], judge, lam=lam) for one, lam in zip(halves, slopes[::-1])
    ]
    np.savez("audits_by_ppi.npz", people=people, judge=judge, point=np.mean(points))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.estimates.audited import AuditedMean, audited, chances, differing, drawn, realised, strata
from optimist.records import codec
from tests.support.places import DATA

Array = NDArray[np.float64]
N, n = 500, 90
rng = np.random.default_rng(5)
HARD = rng.standard_normal(N)
QUALITY = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.3), ("bob", 0.0))}
JUDGE = {name: 0.8 * each + 0.5 * rng.standard_normal(N) for name, each in QUALITY.items()}
PLACES = rng.permutation(N)[:n]
WEIGHTS = rng.uniform(0.5, 2.0, n)


def by_numpy(h: Array, f: Array, w: Array, all_f: Array) -> tuple[float, float]:
    """Value and variance, written down from the specification alone."""
    odd = np.arange(len(h)) % 2 == 1
    slopes = np.empty(len(h))
    for half in (odd, ~odd):
        other = ~half
        slopes[half] = (1 - 4 / len(h)) * np.cov(h[other], f[other])[0, 1] / np.var(f[other], ddof=1)
    t = slopes * all_f.mean() + w * (h - slopes * f)
    variance = t.var(ddof=1) / len(h) * (1 + 5 / len(h)) + slopes.mean() ** 2 * all_f.var() / len(all_f)
    return t.mean(), variance


def mean_of(name: str, order: NDArray[np.integer[Any]] | None = None) -> AuditedMean:
    judge = JUDGE[name]
    at = np.arange(n) if order is None else order
    return AuditedMean(
        samples=N,
        mean=float(judge.mean()),
        variance=float(judge.var()),
        judged=judge,
        audits=at.astype(np.int32),
        people=QUALITY[name][PLACES[at]],
        scores=judge[PLACES[at]],
        weights=WEIGHTS[at],
    )


def test_a_score_is_that_of_the_specification():
    found = mean_of("ada").by_people
    assert found is not None
    expected = by_numpy(QUALITY["ada"][PLACES], JUDGE["ada"][PLACES], WEIGHTS, JUDGE["ada"])
    assert (found.value, found.variance) == pytest.approx(expected, rel=1e-9)


def test_a_difference_is_that_of_the_differences():
    found = differing(mean_of("ada"), mean_of("bob"))
    assert found is not None
    apart = [one["ada"] - one["bob"] for one in (QUALITY, JUDGE)]
    expected = by_numpy(apart[0][PLACES], apart[1][PLACES], WEIGHTS, apart[1])
    assert (found.value, found.variance) == pytest.approx(expected, rel=1e-9)


def test_ppi_finds_the_same_value():
    known = np.load(DATA / "audits_by_ppi.npz")
    people, judge = known["people"], known["judge"]
    count = len(people)
    found = audited(people, judge[:count], np.ones(count), float(judge.mean()), float(judge.var()) / len(judge))
    assert found.value == pytest.approx(float(known["point"]), rel=1e-9)


def test_only_audits_of_both_are_compared_and_strangers_are_independent():
    some, others = np.arange(0, 60), np.arange(30, n)
    found = differing(mean_of("ada", some), mean_of("bob", others))
    both = differing(mean_of("ada", np.arange(30, 60)), mean_of("bob", np.arange(30, 60)))
    assert found == both
    assert found is not None
    assert found.audits == 30
    assert differing(mean_of("ada", np.arange(0, 20)), mean_of("bob", np.arange(20, 40))) is None


def test_it_is_stored_to_the_last_bit():
    mean = mean_of("ada")
    again = codec.decode(AuditedMean, codec.encode(mean))
    assert again == mean
    assert again.by_people == mean.by_people


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_a_useless_judge_costs_next_to_nothing_and_a_good_one_saves_labels(rho: float):
    """At 200 audits, over 300 draws: z has variance 1, and the error is that of √(1 − ρ²)."""
    random = np.random.default_rng(8)
    z, gain = list[float](), list[float]()
    for _ in range(300):
        q = random.standard_normal(4000)
        judge = rho * q + np.sqrt(1 - rho**2) * random.standard_normal(4000)
        found = audited(q[:200], judge[:200], np.ones(200), float(judge.mean()), float(judge.var()) / 4000)
        z.append(found.value / np.sqrt(found.variance))
        gain.append(found.variance / (q[:200].var(ddof=1) / 200 * (1 + 5 / 200)))
    assert 0.88 < np.sqrt(np.mean(np.square(z))) < 1.12
    assert np.mean(gain) == pytest.approx(1 - rho**2 * (1 - 200 / 4000), rel=0.06)


def test_a_judge_that_favours_a_generator_is_named_and_a_noisy_fair_one_is_not():
    fair = differing(mean_of("ada"), mean_of("bob"))
    assert fair is not None
    assert fair.favour < 3.0
    liked = mean_of("bob")
    liked = replace(liked, mean=liked.mean + 0.9, judged=liked.judged + 0.9, scores=liked.scores + 0.9)
    unfair = differing(mean_of("ada"), liked)
    assert unfair is not None
    assert unfair.favour < -3.0
    assert unfair.value == pytest.approx(fair.value, abs=2.0 * math.sqrt(fair.variance))


def test_doubt_aims_at_where_the_judge_errs_and_the_weights_undo_it():
    random = np.random.default_rng(9)
    doubt = random.uniform(size=N)
    bins = strata(doubt)
    assert np.bincount(bins).tolist() == [N // 5] * 5
    at = random.permutation(N)[:100]
    by_bin = chances(bins, bins[at], np.where(bins[at] == 4, 3.0, 0.2) * random.choice([-1.0, 1.0], 100))
    assert by_bin.mean() == pytest.approx(1.0)
    assert by_bin[4] > 3.0
    assert min(by_bin[:4]) == pytest.approx(0.38 / 0.904, rel=0.01)  # half of the mean of the bins
    values = 1.0 * (bins == 4)
    found = [drawn(50, np.ones(N, bool), random, bins, by_bin) for _ in range(400)]
    assert all(len(set(places.tolist())) == 50 for places, _ in found)
    means = [(weights * values[places]).mean() for places, weights in found]
    assert np.mean(means) == pytest.approx(0.2, abs=4 * float(np.std(means)) / 20)
    assert (realised(bins, at) * values[at]).mean() == pytest.approx(0.2, rel=1e-12)


def test_equal_doubts_share_a_bin_and_none_is_so_small_that_it_is_soon_used_up():
    """Two judges that give marks often agree on most samples, and one may be unsure of all but a few."""
    random = np.random.default_rng(13)
    for values, sizes in (
        ([0.0] * 85 + [1.0] * 15, [85, 15]),
        ([0.0] * 15 + [1.0] * 85, [15, 85]),
        ([0.0] * 1 + [1.0] * 99, [100]),
        ([0.0] * 97 + [1.0] * 1 + [2.0] * 2, [100]),
        ([0.0] * 50 + [1.0] * 5 + [2.0] * 45, [55, 45]),
        ([7.0] * 100, [100]),
        ([*range(100)], [20] * 5),
        ([3.0], [1]),
    ):
        doubt = random.permutation(np.array(values, np.float64))
        bins = strata(doubt)
        assert np.bincount(bins).tolist() == sizes
        assert (np.diff(bins[doubt.argsort(kind="stable")]) >= 0).all()


def test_a_bin_without_audits_counts_to_another_one():
    """Else the scores of a table with few labels would be shares of what they are."""
    bins = np.repeat(np.arange(5), 20)
    for audited_bins, shares in (([0, 1], [0.2, 0.8]), ([3, 4], [0.8, 0.2]), ([1, 3], [0.4, 0.6]), ([2], [1.0])):
        at = np.concatenate([20 * number + np.arange(3 + number) for number in audited_bins])
        weights = realised(bins, at)
        assert [weights[bins[at] == number].sum() / len(at) for number in audited_bins] == pytest.approx(shares)


def test_what_the_judge_is_worth_is_of_all_samples_not_of_those_that_doubt_chose():
    random, size = np.random.default_rng(14), 40_000
    is_hard = random.uniform(size=size) < 0.2
    people = random.standard_normal(size)
    judge = people + np.where(is_hard, 3.0, 0.3) * random.standard_normal(size)
    kept = random.permutation(np.flatnonzero(~is_hard))[: is_hard.sum()]
    at = np.sort(np.concatenate([np.flatnonzero(is_hard), kept]))
    weights = np.where(is_hard, 0.4, 1.6)[at]
    found = audited(people[at], judge[at], weights, float(judge.mean()), float(judge.var()) / size)
    slopes = np.cov(people[at], judge[at])[0, 1] / judge[at].var()
    expected = 1.0 - float((people - slopes * judge).var() / people.var())
    assert found.correlation**2 == pytest.approx(expected, abs=0.02)


def test_nothing_is_drawn_twice_and_a_bin_that_is_used_up_ends_the_draw():
    random = np.random.default_rng(10)
    bins, free = np.repeat([0, 1], [8, 2]), np.ones(10, bool)
    free[0] = False
    places, weights = drawn(20, free, random)
    assert sorted(places.tolist()) == [*range(1, 10)]
    assert weights.tolist() == [1.0] * 9
    aimed, _ = drawn(20, free, random, bins, np.array([0.5, 3.0]))
    assert {8, 9} <= {*aimed.tolist()} or not {*range(1, 8)} - {*aimed.tolist()}
    assert len({*aimed.tolist()}) == len(aimed) < 10
