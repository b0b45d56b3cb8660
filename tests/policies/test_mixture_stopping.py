"""When a mixture is known well enough, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Quadratic
from optimist.policies import Arm, Stopping, decide_mixture, shown_mixture
from optimist_client.metrics import FID, RKE

MIXTURE_FOUND = Mixture(
    generators=("a", "b"),
    samples=(200, 300),
    weights=(0.4, 0.6),
    value=10.0,
    error=0.2,
    best="b",
    best_value=12.0,
    gain=2.0,
    gain_error=0.25,
    slacks=(0.0, 0.0),
    slack_errors=(0.1, 0.1),
    contributions=(2.0, 3.0),
    model=Quadratic(np.eye(2), np.zeros(2)),
    deviations=(1.0, 1.0),
    bounds=((0.0, 0.0), (8.0, 0.0363)),
)
ARMS = [Arm("a", None, 200, 40), Arm("b", None, 300, 60)]


def decide(mixture: Mixture | None = MIXTURE_FOUND, tolerance: float | str = 0.2, arms: list[Arm] = ARMS):
    return decide_mixture(Stopping(tolerance=tolerance), arms, mixture, 100)


def test_it_is_decided_once_no_other_mixture_is_better_by_more_than_the_tolerance():
    bound = MIXTURE_FOUND.gap_bound(Stopping().threshold(2, 100))
    assert decide(tolerance=1.01 * bound).decided
    assert not decide(tolerance=0.99 * bound).decided


def test_the_mixture_is_better():
    found = decide()
    assert found.best == "b"
    assert found.confidence is not None
    assert found.confidence > 0.999
    assert found.reason == ("no other mixture is better than this one by more than 0.0125")


def test_no_mixture_is_better_than_one_alone():
    found = decide(replace(MIXTURE_FOUND, gain=-0.1, gain_error=0.1))
    assert found.decided
    assert found.reason == "no mixture is better than b alone by more than 0.0125"
    assert found.confidence == 0.0
    vertex = replace(MIXTURE_FOUND, weights=(0.0, 1.0), gain=0.0, gain_error=0.0, bounds=((0.0, 0.0), (8.0, 0.0)))
    found = decide(vertex, tolerance=0.0)
    assert (found.decided, found.reason) == (True, "no mixture is better than b alone")


def test_a_tolerance_of_0_is_not_met_between_generators():
    found = decide(tolerance=0.0)
    assert not found.decided
    assert found.reason == (
        "another mixture may be better by up to 0.0125; a tolerance of 0 is met only where one generator alone is best"
    )


def test_a_share_is_of_the_score_of_the_mixture():
    assert Stopping(tolerance="1%").tolerated_of(10.0, "linear") == pytest.approx(0.1)
    assert Stopping(tolerance="1%").tolerated_of(-1.0, "linear") == 0.0
    assert Stopping(tolerance="1%").tolerated_of(2.0, "log") == pytest.approx(math.log(1.01))
    assert decide(tolerance="0.1%").reason == "another mixture may be better by up to 0.0125, and the tolerance is 0.01"
    assert decide(tolerance="0.13%").decided


@pytest.mark.parametrize(
    ("mixture", "arms", "reason"),
    [
        (None, ARMS, "no mixture has been made yet with a, b"),
        (MIXTURE_FOUND, [*ARMS, Arm("c", None, 10, 2)], "no mixture has been made yet with c"),
        (MIXTURE_FOUND, ARMS[:1], "no mixture has been made yet without b"),
        (replace(MIXTURE_FOUND, samples=(19, 300)), ARMS, "fewer than 20 samples of a"),
    ],
)
def test_it_waits(mixture: Mixture | None, arms: list[Arm], reason: str):
    found = decide(mixture, arms=arms)
    assert (found.decided, found.reason) == (False, reason)


def test_a_paused_generator_without_samples_does_not_block():
    assert decide(arms=[*ARMS, Arm("c", active=False)]).decided


def test_one_generator_is_no_mixture():
    alone = Mixture(("a",), (50,), (1.0,), 1.0, 0.1, "a", 1.0, 0.0, 0.0, (0.0,), (0.0,), (0.0,),
                    Quadratic(np.eye(1), np.zeros(1)), (1.0,))  # fmt: skip
    assert decide(alone, arms=ARMS[:1]).reason == "there is no other generator to blend it with"


class TestShown:
    def test_numbers_are_those_of_the_decision(self):
        stopping = Stopping(tolerance=0.2)
        found = shown_mixture(MIXTURE_FOUND, FID(), stopping, 100, experiment="e", positions=[40, 60])
        assert (found.experiment, found.label, found.title, found.positions) == ("e", "fid", "FID", [40, 60])
        assert found.confidence == decide().confidence
        assert found.gap_bound == MIXTURE_FOUND.gap_bound(stopping.threshold(2, 100))
        assert (found.lower, found.upper) == pytest.approx((10.0 - 1.96 * 0.2, 10.0 + 1.96 * 0.2), abs=1e-4)
        assert [(one.generator, one.weight, one.samples) for one in found.weights] == [("a", 0.4, 200), ("b", 0.6, 300)]
        assert found.samples == 500

    def test_scores_are_on_the_natural_scale(self):
        logarithmic = replace(MIXTURE_FOUND, value=math.log(8.0), error=0.1, best_value=math.log(5.0), scale="log",
                              lower_is_better=False)  # fmt: skip
        found = shown_mixture(logarithmic, RKE(), Stopping())
        assert (found.score, found.best_score, found.standard_error) == pytest.approx((8.0, 5.0, 0.8))
        assert found.lower == pytest.approx(8.0 * math.exp(-0.196), rel=1e-4)
        assert found.confidence == pytest.approx(0.5 * math.erfc(-8.0 / math.sqrt(2.0)))
        assert type(found).model_validate_json(found.model_dump_json()) == found
