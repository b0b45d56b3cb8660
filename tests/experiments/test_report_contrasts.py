"""The contrasts of a report, on estimates made by hand: with whom, in which order, from which numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import COMMON, Pairing
from optimist.experiments.report import contrast_of, report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState, NotFound
from optimist_client.models import DecisionInfo
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator

N = 100


def paired(seed: int) -> Pairing:
    """Influences of which nearly all is common."""
    common, own = (np.random.default_rng(each).standard_normal(COMMON) for each in (0, seed))
    row = np.where(np.arange(COMMON) < N, common + 0.2 * own, np.nan)
    return Pairing(row.astype(np.float32), 1.0, told=(0, N))


def estimate(value: float, error: float | None = 1.0, pairing: Pairing | None = None) -> Estimate:
    return Estimate(value, value, N, value - 2.0, value + 2.0, value - 2.0, error, error, pairing=pairing)


def state_of(
    estimates: Mapping[str, Estimate | None],
    states: Mapping[str, Literal["paused", "retired"]] | None = None,
    decided: str = "",
) -> PolicyState:
    config = config_of(name="e", generators=list(estimates), metric="fid", reference="r")
    generators = [
        generator(place, name, N, {"fid": made}, state=(states or {}).get(name, "active"))
        for place, (name, made) in enumerate(estimates.items())
    ]
    latched = DecisionInfo(best=decided, confidence=0.99, decided=True, reason="so").model_dump_json()
    experiment = experiment_of(config, created=time.time(), instance="i")
    stored = ExperimentState(60, 60, generators, decision=latched if decided else None)
    return PolicyState(experiment, stored)


def compared(state: PolicyState) -> list[tuple[str, str]]:
    return [(one.generator, one.against) for one in report_of(state).contrasts]


def test_against_the_best_in_the_order_of_the_standings():
    known = {"c": estimate(3.0), "a": estimate(1.0), "b": estimate(2.0), "none": None}
    assert compared(state_of(known)) == [("c", "a"), ("b", "a")]
    assert compared(state_of(known, {"c": "retired"})) == [("b", "a")]
    assert compared(state_of(known, {"b": "paused"})) == [("c", "a"), ("b", "a")]
    assert compared(state_of({**known, "none": estimate(0.0, None)})) == [("c", "a"), ("b", "a")]


def test_against_the_latched_best_whatever_came_later():
    known = {"a": estimate(1.0), "b": estimate(2.0)}
    assert compared(state_of(known, decided="b")) == [("a", "b")]
    assert compared(state_of(known, {"b": "retired"}, decided="b")) == []
    (one,) = report_of(state_of(known, decided="b")).contrasts
    assert (one.difference, one.standard_error) == (-1.0, math.hypot(1.0, 1.0))


@pytest.mark.parametrize("known", [{}, {"a": 1.0}, {"a": None, "b": None}])
def test_none_without_two_to_compare(known: dict[str, float | None]):
    made = {name: None if value is None else estimate(value) for name, value in known.items()}
    assert compared(state_of({**made, "x": None, "y": None})) == []


def test_the_papers_bounds_have_none_in_the_report_and_no_error():
    state = state_of({"a": estimate(1.0, None), "b": estimate(2.0, None)})
    assert report_of(state).contrasts == []
    found = contrast_of(state, "b", "a", state.config.metric.shown_label)
    assert (found.difference, found.standard_error, found.lower, found.text) == (1.0, None, None, "1")


def test_paired_generators_have_an_error_of_their_own():
    known = {"a": estimate(1.0, pairing=paired(1)), "b": estimate(2.0, pairing=paired(2))}
    (one,) = report_of(state_of(known)).contrasts
    assert one.standard_error is not None
    assert one.standard_error < 0.4
    assert one.correlation > 0.9
    assert one.common == N
    assert '"contrasts"' in report_of(state_of(known)).model_dump_json()


def test_without_common_samples_they_are_compared_as_independent():
    (one,) = report_of(state_of({"a": estimate(1.0), "b": estimate(2.0)})).contrasts
    assert (one.standard_error, one.correlation, one.common) == (math.hypot(1.0, 1.0), 0.0, 0)


def test_any_two_even_retired_ones():
    state = state_of({"a": estimate(1.0), "b": estimate(2.0), "c": None}, {"b": "retired"})
    assert contrast_of(state, "b", "a", state.config.metric.shown_label).difference == 1.0
    with pytest.raises(NotFound, match="no generator 'x'"):
        contrast_of(state, "x", "a", state.config.metric.shown_label)
    with pytest.raises(ValueError, match="'c' has no estimate yet"):
        contrast_of(state, "a", "c", state.config.metric.shown_label)
