"""What the choice of a finite reference adds to the error of a difference."""

import math

import numpy as np
import pytest

from optimist.estimates.pairing import Pairing
from optimist.policies.contrasts import contrasts_of
from optimist.records import codec
from tests.support.paired_arms import correlated, estimate, pairing

ONE, OTHER = correlated(0.8)
ROWS = np.random.default_rng(1).standard_normal((3, 256)).astype(np.float32) / 100


def errors(kind, *references, influence=(ONE, OTHER)):
    made = [
        estimate(float(place), 0.02, 0.03, 100, pairing(each, 100, reference=reference))
        for place, (each, reference) in enumerate(zip(influence, references, strict=True))
    ]
    return contrasts_of(made).errors(0, kind)[1]


@pytest.mark.parametrize("influence", [(ONE, OTHER), correlated(0.0)])
def test_it_is_the_variance_of_what_their_influences_differ_by(influence):
    without, found = (errors("stopping", *which, influence=influence) for which in ((None, None), ROWS[:2]))
    added = np.var((ROWS[1] - ROWS[0]).astype(np.float64), ddof=1)
    assert found == pytest.approx(math.sqrt(without**2 + added), rel=1e-6)
    assert found > without


def test_what_both_have_in_common_drops_out():
    without, common, shifted = (
        errors("stopping", *which) for which in ((None, None), (ROWS[0], ROWS[0]), (ROWS[0], ROWS[0] + 1.0))
    )
    assert common == without
    assert shifted == pytest.approx(without, rel=1e-6)


def test_ranking_takes_the_reference_as_exact():
    assert errors("selection", *ROWS[:2]) == errors("selection", None, None)


@pytest.mark.parametrize("references", [(None, ROWS[0]), (ROWS[0], None), (ROWS[0], ROWS[1][:9]), (ROWS[0][:1],) * 2])
def test_without_the_same_rows_nothing_is_added(references):
    assert errors("stopping", *references) == errors("stopping", None, None)


def test_it_is_stored_with_the_estimate():
    made = pairing(ONE, 100, reference=ROWS[0])
    again = codec.decode(Pairing, codec.encode(made))
    assert again.reference is not None
    np.testing.assert_array_equal(again.reference, ROWS[0])
    assert made.is_sound()
    assert pairing(ONE, 100).reference is None
    assert not pairing(ONE, 100, reference=np.array([np.nan, 1.0], np.float32)).is_sound()
