"""Audits that a judge's doubt chooses: by the chances that their weights say, without bias, until a bin is used up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.estimates.audited import AIMED_FROM, AuditedMean, audited, differing, strata
from optimist.policies.audits import new_audits, next_audits

N = 1_000
Array = NDArray[np.float64]


class Bed:
    """Two generators, whose judge errs much where its doubt is largest."""

    def __init__(self, seed: int, rows: int = N) -> None:
        random = np.random.default_rng((seed, 1))
        self.seed, self.doubt = seed, random.uniform(size=rows)
        hard = random.standard_normal(rows)
        self.people = np.stack([hard, hard]) + 0.7 * random.standard_normal((2, rows))
        # Where it is unsure the judge is also unfair to one of them, so that wrong weights would be a bias.
        is_unsure = self.doubt > 0.8
        self.judge = self.people + np.where(is_unsure, 2.0, 0.2) * random.standard_normal((2, rows))
        self.judge[0] += 1.5 * is_unsure
        self.weights: dict[int, float] = {}

    @property
    def truth(self) -> float:
        return float((self.people[0] - self.people[1]).mean())

    def means(self) -> list[AuditedMean]:
        at = np.array(sorted(self.weights), np.int32)
        weights = np.array([self.weights[index] for index in at.tolist()])
        return [
            AuditedMean(
                samples=len(judge),
                mean=float(judge.mean()),
                variance=float(judge.var()),
                judged=judge,
                audits=at,
                people=people[at],
                scores=judge[at],
                weights=weights,
                doubts=self.doubt,
            )
            for people, judge in zip(self.people, self.judge, strict=True)
        ]

    def draw(self, count: int, means: list[AuditedMean] | None = None) -> list[tuple[int, float]]:
        rows = self.judge.shape[1]
        is_free = ~np.isin(np.arange(rows), [*self.weights])
        means = self.means() if means is None else means
        return new_audits(self.seed, np.ones(rows, bool), is_free, means, len(self.weights), count)


@pytest.mark.long
def test_the_difference_has_no_bias_and_its_error_is_right():
    """Against the mean of all samples, at 100 and 200 audits: rms z by the error of these samples alone."""
    z: dict[int, list[float]] = {100: [], 200: []}
    for seed in range(150):
        bed = Bed(seed)
        while len(bed.weights) < 200:
            bed.weights |= dict(bed.draw(10))
            if (count := len(bed.weights)) in z:
                found = differing(*bed.means())
                assert found is not None
                z[count].append((found.value - bed.truth) / found.variance**0.5)
    for each in z.values():
        assert 0.8 < np.sqrt(np.mean(np.square(each))) < 1.2
        assert abs(np.mean(each)) < 3.5 / np.sqrt(len(each))


@pytest.mark.long
def test_they_are_drawn_with_the_chances_that_their_weights_say():
    bed = Bed(1)
    bed.weights = dict(bed.draw(60))
    means, bins = bed.means(), strata(bed.doubt)
    drawn: list[tuple[int, float]] = []
    for seed in range(3_000):
        bed.seed = seed
        drawn += bed.draw(2, means)
    counts = np.bincount([bins[index] for index, _ in drawn], minlength=5)
    of_bin = {int(bins[index]): weight for index, weight in drawn}
    expected = np.array([0.2 / of_bin[number] for number in range(5)])
    assert expected.sum() == pytest.approx(1.0)
    assert of_bin[4] < 0.5 < 1.5 < of_bin[0]
    assert np.abs(counts - len(drawn) * expected).max() < 4.0 * np.sqrt(len(drawn) * 0.25)


def test_before_forty_answers_and_without_doubt_they_are_at_random():
    bed = Bed(2)
    free = np.ones(N, bool)
    assert bed.draw(AIMED_FROM) == [(index, 1.0) for index in next_audits(2, free, AIMED_FROM)]
    bed.weights = dict(bed.draw(AIMED_FROM - 1))
    assert {weight for _, weight in bed.draw(50)} == {1.0}
    bed.weights |= dict(bed.draw(1))
    assert len({weight for _, weight in bed.draw(50)}) > 1
    # A generator without an estimate, or of whose samples nothing is known.
    assert {weight for _, weight in bed.draw(50, [])} == {1.0}
    bed.doubt = np.full(N, np.nan)
    assert {weight for _, weight in bed.draw(50)} == {1.0}


def test_a_bin_is_not_emptied_and_when_it_is_only_unknown_samples_are_left():
    bed = Bed(3, 200)
    bins, rows = strata(bed.doubt), 200
    while new := bed.draw(5):
        left = np.bincount(bins, weights=~np.isin(np.arange(rows), [*bed.weights]), minlength=5)
        if min(left) < 20 and len(bed.weights) >= AIMED_FROM:
            # A fifth of the samples, over the bin's share of those that are left.
            shares = np.maximum(left, 0.5 * left.mean())
            expected = {index: shares.sum() / shares[bins[index]] / 5.0 for index, _ in new}
            assert dict(new) == pytest.approx(expected)
        bed.weights |= dict(new)
    assert len(bed.weights) > 0.9 * rows
    # Samples of which no doubt is known yet are like all others.
    longer = Bed(3, 260)
    means = [*bed.means()]
    is_free = ~np.isin(np.arange(260), [*bed.weights])
    more = new_audits(3, np.ones(260, bool), is_free, means, len(bed.weights), 30)
    assert len(more) == 30
    assert all(index >= 200 and weight == 1.0 for index, weight in more)
    assert longer.judge.shape == (2, 260)


def test_a_single_sample_of_other_doubt_does_not_end_the_audits():
    bed = Bed(4)
    bed.doubt = np.ones(N)
    bed.doubt[next_audits(4, np.ones(N, bool), 1)] = 0.0
    while len(bed.weights) < 300:
        new = bed.draw(20)
        assert len(new) == 20
        bed.weights |= dict(new)


@pytest.mark.long
def test_wrong_weights_would_be_a_bias():
    """The bed shows what it is for: with weights of 1 the mean of z is far from 0."""
    z: list[float] = []
    for seed in range(60):
        bed = Bed(seed)
        while len(bed.weights) < 200:
            bed.weights |= dict(bed.draw(20))
        one, other = bed.means()
        h, f = one.people - other.people, one.scores - other.scores
        apart = bed.judge[0] - bed.judge[1]
        found = audited(h, f, np.ones(len(h)), float(apart.mean()), float(apart.var()) / N)
        z.append((found.value - bed.truth) / found.variance**0.5)
    assert abs(np.mean(z)) > 0.6
