"""Watched metrics in a report, on estimates made by hand: standings, best, errors, whether all is scored; and costs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from optimist.estimates.estimate import Estimate
from optimist.experiments.decision import decision_cost
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState, Unit, UnitState
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator, unit

N = 100
RKE = {"name": "rke", "kernel": {"name": "gaussian", "sigma": 1.0, "features": 8}, "dimension": 4, "reads": "features"}


def fid(value: float, error: float | None = 1.0) -> Estimate:
    return Estimate(value, value, N, value - 2.0, value + 2.0, value - 2.0, error, error)


def rke(value: float, error: float | None = 0.01) -> Estimate:
    """value: the score, whose logarithm is estimated."""
    log = math.log(value)
    return Estimate(log, log, N, log - 0.1, log + 0.1, log + 0.1, error, error, "log", lower_is_better=False)


def state_of(
    estimates: Mapping[str, Estimate | None],
    decision: str | None = None,
    watched: Mapping[Unit, UnitState] = MappingProxyType({}),
    known: PolicyState | None = None,
    **fields: Any,
) -> PolicyState:
    """watched: by ordinal and label; others were never scored."""
    names = list(estimates)
    watch = [RKE | {"label": label} for label in ("rke", "spread")]
    config = config_of(
        **{"name": "e", "generators": names, "metric": "fid", "reference": "r", "watch": watch, **fields}
    )
    generators = []
    for place, (name, made) in enumerate(estimates.items()):
        others = {label: watched.get((place, label), UnitState()) for label in ("rke", "spread")}
        generators.append(generator(place, name, N, {}, units={"fid": unit(20, made), **others}))
    experiment = experiment_of(config, created=time.time(), instance="i")
    return PolicyState(experiment, ExperimentState(60, 60, generators, decision=decision), known)


def watched_of(estimates: Mapping[Unit, Estimate], seq: int = 20) -> dict[Unit, UnitState]:
    return {of: unit(seq, made) for of, made in estimates.items()}


THREE = {"a": fid(1.0), "b": fid(30.0), "c": fid(40.0)}


def test_the_standings_by_a_watched_metric_have_the_form_of_the_others():
    scores = {(0, "rke"): rke(2.0), (1, "rke"): rke(3.0), (2, "rke"): rke(1.5)}
    report = report_of(state_of(THREE, watched=watched_of(scores)))
    assert list(report.watched) == ["rke", "spread"]
    by = report.watched["rke"]
    assert (by.metric, by.title, by.lower_is_better, by.scale, by.offers) == (
        *("rke", "RKE", False, "log"),
        ["mixtures", "modes"],
    )
    assert [row.generator for row in by.standings] == ["a", "b", "c"]
    first = by.standings[0]
    assert first.score == pytest.approx(2.0)
    assert first.standard_error == pytest.approx(0.02)
    assert (first.lower, first.upper) == pytest.approx((2.0 * math.exp(-0.1), 2.0 * math.exp(0.1)))
    assert (first.samples, first.batches, first.scored_samples) == (N, 20, N)
    assert (by.best, by.sure, by.scored) == ("b", True, True)
    assert [(one.generator, one.against) for one in by.contrasts] == [("a", "b"), ("c", "b")]
    assert [row.generator for row in by.in_order] == ["b", "a", "c"]
    assert report.decision.best == "a"
    assert "names a; RKE (" in report.disagreement
    assert "RKE (spread)" not in report.disagreement


def test_a_watched_metric_without_estimates_has_no_best():
    by = report_of(state_of(THREE, watched=watched_of({(1, "rke"): rke(3.0)}))).watched
    assert (by["rke"].best, by["rke"].confidence, by["rke"].sure, by["rke"].scored) == (None, None, False, False)
    assert [row.score is None for row in by["rke"].standings] == [True, False, True]
    assert (by["spread"].best, by["spread"].contrasts, by["spread"].scored) == (None, [], False)


def test_an_estimate_behind_the_one_that_is_due_is_shown_as_not_yet_scored():
    scores = {(g, "rke"): rke(2.0 + g) for g in range(3)}
    by = report_of(state_of(THREE, watched=watched_of(scores, seq=19))).watched["rke"]
    assert (by.best, by.scored) == ("c", False)
    primary = report_of(state_of(THREE, watched=watched_of(scores, seq=19)))
    assert primary.scored


def test_the_tolerance_is_of_the_deciding_metric_alone():
    close = {(0, "rke"): rke(2.0), (1, "rke"): rke(2.001), (2, "rke"): rke(1.0)}
    state = state_of({"a": fid(1.0), "b": fid(1.1), "c": fid(1.2)}, watched=watched_of(close), tolerance=50.0)
    report = report_of(state)
    assert state.live_decision.decided
    assert (report.watched["rke"].best, report.watched["rke"].sure) == ("b", False)


def test_damage_of_a_watched_metric_is_a_warning_there_only():
    stored = {
        (0, "rke"): unit(20, rke(2.0)),
        (1, "rke"): UnitState(scoring_error="CorruptData: torn"),
    }
    report = report_of(state_of(THREE, watched=stored))
    [_, torn, whole] = report.watched["rke"].standings
    assert (torn.incomplete, torn.warnings) == (True, ("not scored: CorruptData: torn",))
    assert (whole.incomplete, whole.warnings) == (False, ())
    assert not any(row.incomplete or row.warnings for row in report.standings)


def test_unchanged_estimates_are_not_parsed_again():
    units = watched_of({(0, "rke"): rke(2.0), (1, "rke"): rke(3.0)})
    known = state_of(THREE, watched=units)
    changed = unit(21, rke(4.0))
    newer = state_of(THREE, watched={**units, (1, "rke"): changed}, known=known)
    assert newer.estimates_by("rke")[0] is known.estimates_by("rke")[0]
    assert newer.estimates[0] is known.estimates[0]
    estimate = newer.estimates_by("rke")[1]
    assert estimate.score == pytest.approx(4.0)
    assert newer.estimates_by("rke")[2] is None


def latched(samples: list[int]) -> str:
    return json.dumps({"best": "a", "confidence": 0.97, "decided": True, "reason": "so", "samples": samples})


COSTS = {"a": 1.0, "b": 2.0, "c": 5.0}


def test_the_cost_at_the_decision_is_that_of_the_samples_told_by_then():
    state = state_of(THREE, latched([50, 60, 70]), costs=COSTS)
    report = report_of(state)
    assert report.decision_cost == 50 + 120 + 350
    assert report.cost == 8 * N
    state.stored.generators.append(state.stored.generators[0])  # one that joined later
    assert decision_cost(state) == report.decision_cost


@pytest.mark.parametrize(("decision", "costs"), [(None, COSTS), (latched([50, 60, 70]), None)])
def test_there_is_no_cost_at_the_decision_without_one(decision: str | None, costs: dict[str, float] | None):
    assert report_of(state_of(THREE, decision, costs=costs)).decision_cost is None


def test_uniform_sampling_costs_what_as_many_samples_of_each_do():
    near = {"a": fid(1.0, 0.1), "b": fid(1.2, 0.1), "c": fid(60.0, 0.1)}
    report = report_of(state_of(near, latched([N, N, N]), costs=COSTS))
    assert report.uniform_samples is not None
    assert report.uniform_cost == pytest.approx(report.uniform_samples * 8 / 3)
    part = report_of(state_of(near, latched([N, N, N]), costs={"a": 1.0}))
    assert (part.uniform_cost, part.decision_cost) == (None, N)
    far = report_of(state_of(THREE, latched([N, N, N]), costs=COSTS))  # it would have spent less
    assert (far.uniform_samples, far.uniform_cost) == (None, None)
    assert report_of(state_of(near, costs=COSTS)).uniform_cost is None
