"""Ranks of generators: by Holm's method on all pairs, at every look; and which k are surely the best ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate
from optimist.policies import Arm
from optimist.policies.ranks import ranking_of
from optimist_client import FixError
from optimist_client.models import Ranking

DELTA = 0.05


def arm(name: str, value: float | None, error: float | None = 0.1, samples: int = 100, **fields: object) -> Arm:
    """One by FID-like estimates, which are no means."""
    if value is None:
        return Arm(name)
    estimate = Estimate(value, value, samples, -math.inf, math.inf, value, error, error)
    return Arm(name, estimate, samples, **fields)  # type: ignore[arg-type]


def quantile(comparisons: int, told: int) -> float:
    return NormalDist().inv_cdf(1.0 - DELTA / (2.0 * comparisons * (1.0 + math.log(told)) ** 1.5))


def by_brute_force(values: Sequence[float], errors: Sequence[float], told: int) -> list[tuple[int, int]]:
    """First and last rank of each: one pair after the other is ordered, the surest first."""
    size = len(values)
    pairs = [(i, j) for i in range(size) for j in range(size) if values[i] < values[j]]
    z = {(i, j): (values[j] - values[i]) / math.hypot(errors[i], errors[j]) for i, j in pairs}
    left, better = size * (size - 1) // 2, set[tuple[int, int]]()
    while left and pairs:
        pair = max(pairs, key=z.__getitem__)
        if z[pair] <= quantile(left, told):
            break
        pairs.remove(pair)
        better.add(pair)
        left -= 1
    return [
        (1 + sum((j, i) in better for j in range(size)), size - sum((i, j) in better for j in range(size)))
        for i in range(size)
    ]


def ends(ranking: Ranking) -> dict[str, tuple[int, int]]:
    return {one.generator: (one.first, one.last) for one in ranking.ranks}


@pytest.mark.parametrize("told", [1, 40, 3_000])
@pytest.mark.parametrize("size", [2, 3, 7, 12])
def test_ranks_are_those_of_holms_method(size: int, told: int):
    rng = np.random.default_rng((size, told))
    partial = 0
    for _ in range(25):
        values, errors = rng.normal(0.0, 0.5, size).tolist(), rng.uniform(0.02, 0.2, size).tolist()
        arms = [arm(f"g{place}", value, error) for place, (value, error) in enumerate(zip(values, errors, strict=True))]
        ranking = ranking_of(arms, DELTA, told)
        expected = by_brute_force(values, errors, told)
        assert ends(ranking) == {f"g{place}": both for place, both in enumerate(expected)}
        assert [one.generator for one in ranking.ranks] == [f"g{place}" for place in np.argsort(values)]
        partial += 1 < len(set(expected)) < size
        order = np.argsort(values)
        for k in range(1, size):
            apart = min(
                (values[j] - values[i]) / math.hypot(errors[i], errors[j]) for i in order[:k] for j in order[k:]
            )
            assert (k in ranking.decided) == (apart > quantile(k * (size - k), told))
    assert size < 3 or partial > 2, "all or none was ordered"


def test_a_quantile_of_few_rows_of_means_is_larger():
    z = quantile(1, 500)
    reach = z * (1.0 + (z * z - 9.0) / (4.0 * 30))
    assert z > 3.0
    for factor, is_sure in ((0.999, False), (1.001, True)):
        gap = factor * reach * math.sqrt(2.0) * 0.1
        arms = [
            Arm(
                name,
                Estimate(value, value, 30, -1.0, 9.0, value, 0.1, 0.1, value_skewness=0.0, farthest=(1.0, 1.0)),
                30,
            )
            for name, value in (("a", 1.0), ("b", 1.0 + gap))
        ]
        assert ends(ranking_of(arms, DELTA, 500)) == (
            {"a": (1, 1), "b": (2, 2)} if is_sure else {"a": (1, 2), "b": (1, 2)}
        )


def test_who_has_no_estimate_or_few_samples_may_have_every_rank():
    arms = [arm("none", None), arm("few", 9.0, samples=19), arm("a", 1.0), arm("b", 5.0)]
    ranking = ranking_of(arms, DELTA, 50)
    assert ends(ranking) == {"a": (1, 3), "b": (2, 4), "few": (1, 4), "none": (1, 4)}
    assert ranking.ranks[-1].generator == "none"
    assert ranking.decided == []
    without = ranking_of([arm("x", None), arm("y", None)], DELTA, 1)
    assert ends(without) == {"x": (1, 2), "y": (1, 2)}


def test_intervals_that_hold_at_any_time_order_what_is_apart():
    def strict(name: str, lower: float, upper: float) -> Arm:
        value = (lower + upper) / 2
        return Arm(
            name, Estimate(value, value, 9, lower, upper, upper, None, None, "linear", False, None, strict=True), 9
        )

    ranking = ranking_of([strict("low", 0.0, 0.3), strict("high", 0.6, 0.9), strict("wide", 0.2, 0.7)], DELTA, 9)
    assert ends(ranking) == {"high": (1, 2), "wide": (1, 3), "low": (2, 3)}


def test_the_k_best_are_said_where_it_is_sure_which_they_are():
    ranking = ranking_of([arm("small", 9.0), arm("mid", 3.0), arm("big", 1.0), arm("base", 3.05)], DELTA, 40)
    assert ranking.text == "big is 1st, mid and base 2nd to 3rd, small 4th."
    assert (ranking.top(1), ranking.top(2), ranking.top(3)) == (["big"], None, ["big", "mid", "base"])
    for k in (0, 4):
        with pytest.raises(FixError, match="k: expected 1 to 3, for 4 generators; got"):
            ranking.top(k)
    assert str(ranking).splitlines()[:2] == ["generator        rank", "big               1st"]


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(1, 1, "1st"), (2, 3, "2nd to 3rd"), (4, 11, "4th to 11th"), (12, 13, "12th to 13th"), (21, 22, "21st to 22nd")],
)
def test_ranks_in_words(first: int, last: int, text: str):
    ranking = Ranking.model_validate(
        {"delta": DELTA, "ranks": [{"generator": "a", "first": first, "last": last}], "decided": []}
    )
    assert ranking.ranks[0].text == text
