"""Batches on another scale: which are named, against random streams, and that nothing but the levels matters."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.anomalies.levels import EXTREMES, KEPT, Level, Levels, anomalies, in_words, keep, rank
from optimist.anomalies.plausibility import level_of

PIXELS = math.log(255.0)


def levels(values: Sequence[float], rows: int = 5, **more: object) -> Levels:
    kept: list[Level] = []
    for position, value in enumerate(values, start=1):
        keep(kept, Level(position, rows, value))
    return Levels(kept, len(values), **more)  # type: ignore[arg-type]


def usual(count: int, seed: int = 0, at: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [at + rng.gauss(0.0, 0.1) for _ in range(count)]


def named(generators: Sequence[Levels], reference: float | None = None) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one in anomalies(generators, reference):
        found.setdefault(one.generator, []).append(one.position)
    return {generator: sorted(those) for generator, those in sorted(found.items())}


@pytest.mark.parametrize("factor", [PIXELS, -PIXELS, math.log(16.0)])
@pytest.mark.parametrize("place", [0, 5, 10])
def test_a_batch_on_another_scale_is_named_wherever_it_came(factor: float, place: int):
    wrong = usual(11)
    wrong[place] += factor
    (found,) = anomalies([levels(usual(11, 1)), levels(wrong)])
    assert (found.generator, found.position, found.against, found.is_general) == (1, place + 1, "batches", False)
    assert found.difference == pytest.approx(factor, abs=0.5)


@pytest.mark.parametrize(("wrong", "right"), [(2, 2), (2, 3), (3, 3), (3, 2), (5, 4)])
def test_several_of_few_are_named_where_others_confirm_the_rest(wrong: int, right: int):
    mixed = levels([*usual(wrong, 1, PIXELS), *usual(right, 2)])
    expected = list(range(1, wrong + 1))
    assert named([mixed, levels(usual(5)), levels(usual(5, 3))]) == {0: expected}
    assert named([mixed], 0.5) == {0: expected}
    # Alone, the larger group is right, and of two equal ones either may be wrong.
    many = list(range(wrong + 1, wrong + right + 1))
    assert named([mixed]) == {0: [*expected, *many] if wrong == right else expected if right > wrong else many}


def test_less_than_a_factor_of_three_is_never_named():
    assert named([levels([*[0.0] * 200, math.log(2.9)]), levels([0.0] * 100)]) == {}
    assert named([levels([*[0.0] * 200, math.log(3.1)]), levels([0.0] * 100)]) == {0: [201]}


def test_a_generator_on_another_scale():
    sane, other, wrong = levels(usual(6)), levels(usual(8, 1, 0.5)), levels(usual(5, 2, PIXELS))
    assert named([sane, other, wrong]) == {2: [1, 2, 3, 4, 5]}
    assert {(one.against, one.is_general) for one in anomalies([sane, other, wrong])} == {("generators", True)}
    # Two accuse each other, unless a reference decides.
    assert named([sane, wrong]) == {0: [1, 2, 3, 4, 5, 6], 1: [1, 2, 3, 4, 5]}
    assert named([sane, wrong], 0.2) == {1: [1, 2, 3, 4, 5]}
    assert named([sane, wrong], PIXELS) == {0: [1, 2, 3, 4, 5, 6]}
    assert {one.against for one in anomalies([sane, wrong], 0.2)} == {"reference"}
    assert named([levels([0.0]), levels([0.1]), levels([14.0])]) == {2: [1]}, "the first batch of each"


@pytest.mark.parametrize("factor", [PIXELS, -PIXELS])
def test_a_reference_tells_where_all_batches_agree(factor: float):
    assert named([levels(usual(5, 2, factor))], 0.0) == {0: [1, 2, 3, 4, 5]}
    assert named([levels(usual(5, 2, factor))], factor) == {}


def test_where_others_confirm_the_few_the_many_are_wrong():
    mixed = [*usual(7, 3, PIXELS), *usual(2, 4)]
    assert named([levels(usual(7)), levels(mixed)]) == {1: [1, 2, 3, 4, 5, 6, 7]}
    assert named([levels(mixed)], 0.0) == {0: [1, 2, 3, 4, 5, 6, 7]}
    mixed = [*usual(20, 3, PIXELS), *usual(2, 4)]
    assert named([levels(mixed)]) == {0: [21, 22]}
    assert named([levels(mixed)], PIXELS) == {0: [21, 22]}


def test_where_fewer_confirm_the_few_the_many_are_right():
    mixed = [*usual(12), PIXELS]
    found = named([levels(mixed), levels([PIXELS])])
    assert found == {0: [13], 1: [1]}


def test_of_two_batches_the_reference_says_which_is_wrong():
    far = 3 * PIXELS
    assert named([levels([0.0, far], 100)], 0.3) == {0: [2]}
    assert named([levels([0.0, far], 100)], far) == {0: [1]}
    assert named([levels([0.0, far], 100)]) == {0: [1, 2]}


def test_what_was_accepted_is_not_named():
    wrong = [*usual(20), PIXELS, PIXELS]
    assert named([levels(wrong)]) == {0: [21, 22]}
    assert named([levels(wrong, accepted=frozenset({21}))]) == {0: [22]}
    assert named([levels(wrong, accepted_until=22)]) == {}
    assert named([levels([*wrong, PIXELS], accepted_until=22)]) == {0: [23]}
    assert named([levels(usual(5)), levels(usual(5, 1, PIXELS), accepted_until=3)], 0.0) == {}


def test_batches_of_few_rows_may_vary_more():
    rng = random.Random(5)
    kept: list[Level] = []
    for position in range(1, 101):
        rows = 1 if position % 20 == 0 else 100
        keep(kept, Level(position, rows, rng.gauss(0.0, 0.6 / math.sqrt(rows))))
    assert named([Levels(kept, 100)]) == {}


def test_extremes_stay_and_the_threshold_is_that_of_all_batches():
    rng = random.Random(6)
    values = [rng.gauss(0.0, 0.3) for _ in range(5000)]
    for place in (3, 2000, 4999):
        values[place] += PIXELS
    one = levels(values)
    assert len(one.kept) == KEPT
    in_order = sorted(Level(place, 5, value) for place, value in enumerate(values, start=1))
    in_order.sort(key=rank)
    assert one.kept[:EXTREMES] == in_order[:EXTREMES]
    assert one.kept[-EXTREMES:] == in_order[-EXTREMES:]
    assert sum(one.weights) == pytest.approx(5000)
    assert named([one]) == {0: [4, 2001, 5000]}


def test_a_quarter_on_another_scale_is_named_in_long_runs():
    values = [value + (PIXELS if place % 5 == 0 else 0.0) for place, value in enumerate(usual(2000))]
    found = named([levels(values), levels(usual(2000, 1))])
    assert len(found[0]) >= EXTREMES
    assert all((position - 1) % 5 == 0 for position in found[0])


def brute(values: Sequence[float]) -> set[int]:
    """Of one generator of batches of one size without reference, three or more, as the rule is written down."""
    ordered = sorted(values)
    gap, cut = max((ordered[place] - ordered[place - 1], place) for place in range(1, len(ordered)))
    parts = [ordered[:cut], ordered[cut:]]
    if gap <= max(math.log(10), 3 * max(part[-1] - part[0] for part in parts)):
        parts = [ordered]
    virtual = [0.675 / math.sqrt(5) * -math.log2(1 - (place + 0.5) / 6) for place in range(6)]
    own = [sorted(abs(value - median(part)) for value in part)[1:] for part in parts]
    known = sorted(sum(own, virtual))
    middle = median(known)
    tail = median([one - middle for one in known[(len(known) + 1) // 2 :]]) / math.log(2)
    most = max(math.log(3), middle + tail * (math.log(len(known) / 2) + math.log(1e4)))
    if len(parts[0]) == len(parts[-1]) != len(ordered):  # either may be wrong
        return set(range(1, len(values) + 1)) if median(parts[1]) - median(parts[0]) > most else set()
    lawful = max(parts, key=len)
    is_apart = len(parts) == 2 and median(parts[1]) - median(parts[0]) > most
    return {
        place
        for place, value in enumerate(values, start=1)
        if (abs(value - median(lawful)) > most if value in lawful else is_apart)
    }


LEVELS = st.floats(-20, 20).map(lambda value: round(value, 4))


@given(st.lists(st.one_of(LEVELS, st.just(0.0), st.sampled_from([0.1, -0.1, 5.5])), min_size=3, max_size=40))
def test_of_one_generator_it_is_the_rule_by_brute_force(values: list[float]):
    assert set(named([levels(values)]).get(0, [])) == brute(values)


@given(st.lists(st.lists(LEVELS, max_size=6), min_size=1, max_size=4), st.one_of(st.none(), LEVELS), st.randoms())
def test_neither_order_nor_unit_matters(streams: list[list[float]], reference: float | None, rng: random.Random):
    known = [levels(stream) for stream in streams]
    found = named(known, reference)
    # In another order of generators.
    order = list(range(len(known)))
    rng.shuffle(order)
    again = named([known[place] for place in order], reference)
    assert {order[place]: positions for place, positions in again.items()} == found
    # In another order of batches.
    shuffled = [sorted(range(len(stream)), key=lambda _: rng.random()) for stream in streams]
    moved = named([levels([stream[i] for i in at]) for stream, at in zip(streams, shuffled, strict=True)], reference)
    assert {g: sorted(shuffled[g][p - 1] + 1 for p in those) for g, those in moved.items()} == found
    # In a unit eight times as large, which is exact here.
    up = [levels([value + 8.0 for value in stream]) for stream in streams]
    assert named(up, None if reference is None else reference + 8.0) == found or _is_close(streams, reference)


def _is_close(streams: list[list[float]], reference: float | None) -> bool:
    """Whether rounding may decide: adding 8 rounds at another digit."""
    jittered = [[value + 1e-9 * place for place, value in enumerate(stream)] for stream in streams]
    return named([levels(one) for one in jittered], reference) != named([levels(one) for one in streams], reference)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_what_is_alike_is_never_named(one: list[float], other: list[float]):
    assert named([levels([x / 2 for x in one]), levels([x / 2 for x in other])], 0.0) == {}


def test_the_level_is_the_median_of_the_norms_that_are_not_zero():
    assert level_of([0.0, math.e, math.e**3, 0.0, math.e**2]) == 2.0
    assert level_of([0.0]) is None


def test_words():
    assert in_words(PIXELS, "batches") == "about 255 times larger than its others: pixels 0–255 instead of 0–1?"
    assert in_words(-PIXELS, "reference") == "about 255 times smaller than the reference: pixels 0–1 instead of 0–255?"
    assert in_words(math.log(4.0), "generators") == "about 4 times larger than those of other generators"
    assert in_words(math.log(12345.0), "batches") == "about 12,345 times larger than its others"
