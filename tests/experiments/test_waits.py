"""What an ask waits for: nothing in the warm-up, then what lacks much, and all that is due where that may decide."""

from __future__ import annotations

import time
from typing import Any

import pytest

from optimist.estimates.estimate import Estimate
from optimist.experiments.report import waits_for
from optimist.experiments.state import LATE, PolicyState
from optimist.records import ExperimentState
from optimist_client.models import WaitReason
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator, unit


def state_of(
    made: dict[str, tuple[int, int]], values: tuple[float, float] = (10.0, 10.01), **config: Any
) -> PolicyState:
    """Generators by name with so many batches told, of which the estimate has so many; 0: it has no estimate."""
    experiment = experiment_of(config_of(name="e", generators=[*made], **config), created=time.time(), instance="i")
    label = experiment.config.metric.shown_label
    generators = [
        generator(place, name, 5 * told, {}, units={label: unit(known, _estimate(value, 5 * known) if known else None)})
        for place, ((name, (told, known)), value) in enumerate(zip(made.items(), values, strict=True))
    ]
    told = sum(each.batches for each in generators)
    return PolicyState(experiment, ExperimentState(told, told, generators))


def _estimate(value: float, samples: int) -> Estimate:
    return Estimate(value, value, samples, value - 1.0, value + 1.0, value - 1.0, 1.0, 1.0)


def waits(state: PolicyState, among: list[str] | None = None) -> bool:
    return state.waits_for(state.goal.pending(state.stored), among) is not None


def test_what_is_waited_for_is_named():
    state = state_of({"a": (100, 80), "b": (100, 100)})
    assert state.waits_for(state.goal.pending(state.stored)) == WaitReason.ESTIMATES
    assert waits_for(state) == WaitReason.ESTIMATES, "in the report, too"
    assert waits_for(state_of({"a": (100, 100), "b": (100, 100)})) is None


def test_picks_of_the_warm_up_wait_for_nothing():
    assert not waits(state_of({"a": (2, 0), "b": (1, 0)}))
    assert waits(state_of({"a": (2, 0), "b": (2, 0)}, rescore_growth=0.0)), "the next pick rests on estimates"
    assert waits(state_of({"a": (2, 2), "b": (2, 0)}, rescore_growth=0.0))


def test_generators_take_turns_before_their_first_estimates_until_each_has_what_a_decision_needs():
    """The reference may still be decomposed: nobody waits for that."""
    assert not waits(state_of({"a": (3, 0), "b": (3, 0)}))
    assert not waits(state_of({"a": (4, 4), "b": (3, 0)}))
    assert waits(state_of({"a": (4, 0), "b": (4, 0)})), "20 samples of each"
    assert waits(state_of({"a": (4, 3), "b": (4, 4)})), "the next pick rests on estimates"
    assert not waits(state_of({"a": (1, 0), "b": (3, 3)}))


def test_a_worker_that_makes_only_generators_behind_their_warm_up_waits():
    state = state_of({"a": (4, 0), "b": (0, 0)})
    assert not waits(state)
    assert waits(state, ["a"])
    assert not waits(state, ["b"])


@pytest.mark.parametrize(("known", "is_waited_for"), [(100, False), (90, False), (89, True)])
def test_estimates_that_lack_little_are_not_waited_for(known: int, is_waited_for: bool):
    assert LATE == 0.1
    assert waits(state_of({"a": (100, known), "b": (100, 100)})) == is_waited_for


def test_where_every_batch_is_scored_all_are_waited_for():
    assert waits(state_of({"a": (100, 99), "b": (100, 100)}, rescore_growth=0.0))


def test_what_would_decide_waits_for_all_that_are_due():
    made = {"a": (100, 95), "b": (100, 100)}
    apart = state_of(made, (10.0, 20.0))
    assert apart.would_stop
    assert waits(apart)
    assert not waits(state_of(made, (10.0, 20.0), stop=False))
    assert not waits(state_of({"a": (100, 100), "b": (100, 100)}, (10.0, 20.0)))
