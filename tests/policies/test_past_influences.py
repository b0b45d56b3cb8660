"""At unequal counts, estimates are compared by the influences that the longer run had at the shorter one's count."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import COMMON, Earlier, Pairing, joined, packed, parted, unpacked
from optimist.policies.contrasts import Contrasts
from optimist.policies.correlation import InfluenceTable
from optimist.records import codec
from tests.support.paired_arms import correlated, estimate, pairing

NOW, THEN = 0.5, 0.98
SHORT, LONG = 40, 160


def runs(then: float | None = THEN, short: int = SHORT) -> list[Estimate]:
    """A short run, and a long one whose influences on its newest estimate are less alike than they were."""
    one, other = correlated(NOW, SHORT)
    long = np.random.default_rng(5).standard_normal(LONG)
    long[:SHORT] = other
    past = b"" if then is None else packed(7.0 + 3.0 * correlated(then, SHORT)[1])
    history = (Earlier(SHORT, 1.2, 0.5**2, 1.0, (), past),)
    return [
        estimate(1.6, 0.52, 0.6, short, pairing(one[:short], short)),
        estimate(1.1, 0.25, 0.3, LONG, pairing(long, LONG, history=history)),
    ]


@pytest.mark.parametrize("base", [0, 1])
def test_the_contrast_is_that_of_the_influences_at_the_same_count(base: int):
    contrasts, sign = Contrasts(runs()), 1.0 if base else -1.0
    assert contrasts.against(base).rho[1 - base] < 0.6
    h_select, s, big = 0.5**2, 0.6, 0.3
    h = h_select * (big / 0.25) ** 2
    beta = THEN * 0.52 / math.sqrt(h_select)
    shared = contrasts.against(base).correlations[1 - base]
    variance = s**2 + big**2 + beta**2 * max(h - big**2, 0.0) - 2.0 * beta * THEN * s * math.sqrt(h)
    variance = max(variance + 2.0 * (beta - 1.0) * shared * s * big, 0.5 * (1.0 - THEN**2) * s**2)
    assert contrasts.against(base).differences[1 - base] == pytest.approx(
        sign * (1.6 + beta * (1.1 - 1.2) - 1.1), abs=2e-3
    )
    assert contrasts.errors(base, "stopping")[1 - base] == pytest.approx(math.sqrt(variance), rel=5e-3)


def test_it_is_narrower_than_by_the_newest_influences():
    then, now = (Contrasts(runs(known)).errors(0, "stopping")[1] for known in (THEN, None))
    assert then < 0.7 * now


def test_influences_that_were_not_alike_are_no_control_variate():
    opposite = Contrasts(runs(-0.9))
    assert opposite.against(0).differences[1] == pytest.approx(1.1 - 1.6)
    rho = opposite.against(0).correlations[1]
    assert opposite.errors(0, "stopping")[1] == pytest.approx(math.sqrt(0.6**2 + 0.3**2 - 2.0 * rho * 0.6 * 0.3))


def test_the_correlation_is_that_over_the_earlier_indices():
    one, other = correlated(0.9, 30)
    long = np.concatenate([one, np.random.default_rng(2).standard_normal(COMMON - 30)])
    found = InfluenceTable(np.array([long, long])).correlations_with_past(
        [0, 1, 0], [packed(other), packed(one[:9]), b""]
    )
    assert found[0] == pytest.approx(0.9, abs=1e-4)
    assert np.isnan(found[1:]).all(), "fewer than 10, and none"
    constant = InfluenceTable(np.array([np.full(COMMON, 2.0), long])).correlations_with_past([0, 1], [packed(one)] * 2)
    assert constant[0] == 0.0


@given(st.lists(st.integers(1, COMMON), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_they_are_stored_and_read_as_they_were(counts: list[int], seed: int):
    draws = [np.random.default_rng(seed).standard_normal(count) for count in counts]
    known = [packed(each) for each in draws]
    assert parted(joined(known), counts) == known
    rows, told = unpacked(known, COMMON)
    assert told.tolist() == counts
    for row, each in zip(rows, draws, strict=True):
        centred = each - each.mean()
        scale = np.abs(centred).max() or 1.0
        np.testing.assert_allclose(row[: len(each)], centred / scale, atol=1e-3)
        assert not row[len(each) :].any()


def test_one_that_is_not_known_leaves_none_to_store():
    one = packed(np.arange(12.0))
    assert joined([one, b""]) == b""
    assert parted(b"", [12, 12]) == [b"", b""]
    with pytest.raises(ValueError, match="expected 48 bytes of influences of earlier estimates, got 24"):
        parted(one, [12, 12])


def test_a_pairing_carries_them_through_json():
    made = runs()[1].pairing
    again = codec.decode(Pairing, codec.encode(made))
    assert again == made
    assert again.history == made.history
    assert made.is_sound()
    (past,) = made.history
    broken = np.frombuffer(past.influence, "<f2").copy()
    broken[3] = np.inf
    assert not replace(made, history=(past._replace(influence=broken.tobytes()),)).is_sound()
    stored = codec.plain(made)
    stored["history"][0] = ""
    with pytest.raises(ValueError, match="bytes of influences"):
        codec.decode(Pairing, json.dumps(stored)).is_sound()
