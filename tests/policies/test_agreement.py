"""Raters who share audits: Krippendorff's alpha beside its own package, and who answers as if at random."""

from __future__ import annotations

from collections.abc import Iterator

import krippendorff
import numpy as np
import pytest

from optimist.policies.agreement import agreement_among
from optimist.records import Rating

DELTA = 0.05
RUNS = 100


def rated(seed: int, audits: int, *, raters: int = 3, each: int = 3, skill: float = 0.8, **odd: float) -> list[Rating]:
    """Marks from 1 to 5 of raters with scales of their own, `each` of whom score an audit.

    skill: how much a rater's opinion correlates with the truth. odd: that of single raters; 0 is at random.
    """
    rng = np.random.default_rng(seed)
    shifts, scales = rng.normal(0, 0.5, raters), rng.uniform(0.6, 1.4, raters)

    def all_marks() -> Iterator[Rating]:
        for audit in range(audits):
            truth = rng.normal(0, 0.6) + rng.normal(0, 0.8, 2)
            for rater in rng.permutation(raters)[:each]:
                own = odd.get(f"r{rater}", skill)
                opinion = own * truth + np.sqrt(1 - own**2) * rng.standard_normal(2)
                marks = np.clip(np.round(3 + 1.1 * scales[rater] * opinion + shifts[rater]), 1, 5)
                yield from (Rating(f"{audit}", f"r{rater}", place, mark) for place, mark in enumerate(marks.tolist()))

    return list(all_marks())


def named(ratings: list[Rating]) -> tuple[str, ...]:
    return agreement_among(ratings, DELTA).random


@pytest.mark.parametrize("each", [2, 3, 5])
def test_alpha_is_that_of_the_package(each: int):
    """Of two raters, of some of five, and of all."""
    ratings = rated(each, 30, raters=5, each=each)
    units = sorted({(one.audit, one.generator) for one in ratings})
    table = np.full((5, len(units)), np.nan)
    for one in ratings:
        table[int(one.rater[1:]), units.index((one.audit, one.generator))] = one.score
    # What one rater alone has scored says nothing of agreement.
    alone = [Rating("alone", "r0", 0, 5.0)]
    agreement = agreement_among(ratings + alone, DELTA)
    assert agreement.audits == 30
    expected = krippendorff.alpha(table, level_of_measurement="interval")
    assert agreement.alpha == pytest.approx(expected, rel=0, abs=1e-12)


def test_what_is_said_of_raters():
    ratings = rated(1, 80, raters=4, each=4, skill=0.95, r2=0.0)
    agreement = agreement_among(ratings, DELTA)
    part = f"raters agree only in part (Krippendorff's alpha {agreement.alpha:.2f} on 80 shared audits)"
    assert agreement.sentences == (part, "rater r2 answers as if at random")
    same = [Rating(f"{audit}", f"r{rater}", 0, audit % 5 + 1.0) for audit in range(40) for rater in range(2)]
    assert agreement_among(same, DELTA).sentences == ("raters agree (Krippendorff's alpha 1.00 on 40 shared audits)",)
    assert agreement_among(rated(2, 80, skill=0.0), DELTA).sentences[0].startswith("raters do not agree")


@pytest.mark.parametrize("ratings", [[], rated(0, 50, each=1), rated(0, 19)], ids=["none", "not shared", "few"])
def test_nothing_is_said_of_too_few(ratings: list[Rating]):
    assert agreement_among(ratings, DELTA).sentences == ()


def test_equal_scores_say_nothing():
    ratings = [Rating(f"{audit}", f"r{rater}", 0, 0.1) for audit in range(40) for rater in range(3)]
    assert agreement_among(ratings, DELTA).sentences == ()


def test_of_two_nobody_is_named():
    assert named(rated(0, 200, raters=2, each=2, r0=0.0)) == ()


def test_who_gives_one_score_to_everything_is_named():
    ratings = [one._replace(score=0.1) if one.rater == "r1" else one for one in rated(0, 200, skill=0.9)]
    assert named(ratings) == ("r1",)


@pytest.mark.parametrize(("audits", "power"), [(60, 0.5), pytest.param(120, 0.9, marks=pytest.mark.long)])
def test_who_answers_at_random_is_named_and_nobody_else(audits: int, power: float):
    found = [named(rated(seed, audits, r1=0.0)) for seed in range(RUNS)]
    assert sum("r1" in one for one in found) >= power * RUNS
    assert sum(bool({*one} - {"r1"}) for one in found) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("raters", "each", "skill", "worst"),
    [(3, 3, 0.9, 0.45), (4, 2, 0.9, 0.45), (4, 3, 0.0, 0.0)],
    ids=["half as good, all", "half as good, pairs", "all at random"],
)
def test_looks_at_every_time_name_an_honest_rater_rarely(raters: int, each: int, skill: float, worst: float):
    """Of raters who are just good enough: at most δ, with a one-sided limit of 95 % of `RUNS`."""
    wrong = 0
    for seed in range(RUNS):
        ratings = rated(seed, 240, raters=raters, each=each, skill=skill, r0=worst)
        looks = ([one for one in ratings if int(one.audit) < end] for end in range(20, 241, 10))
        wrong += any(map(named, looks))
    assert wrong <= 9
