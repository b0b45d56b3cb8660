"""What the report of a long undecided experiment says, and when uniform sampling is mentioned."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from optimist.estimates.estimate import Estimate
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState
from optimist_client.models import Report
from optimist_client.models.decisions import about
from tests.support.configs import config_of, experiment_of
from tests.support.reports import unwrapped
from tests.support.scored_states import generator


def reported(values: dict[str, float], samples: int, error: float, after: int | None = 100, **config: Any) -> Report:
    """The report on generators with these estimates, each of `samples` samples, with batches of 5."""
    kind = {"metric": "is", "dimension": 10} if config.pop("log", False) else {"metric": "fid"}
    made = config_of(**{"name": "e", "generators": list(values), **kind, **config})
    label, is_log = made.metric.shown_label, kind["metric"] == "is"
    generators = [
        generator(place, name, samples, {label: estimate(value, error, samples, is_log)})
        for place, (name, value) in enumerate(values.items())
    ]
    told = sum(each.batches for each in generators)
    experiment = experiment_of(made, created=time.time(), instance="i")
    return report_of(PolicyState(experiment, ExperimentState(told, told, generators)), after)


def estimate(value: float, error: float, samples: int, log: bool) -> Estimate:
    scale = "log" if log else "linear"
    return Estimate(value, value, samples, value - error, value + error, value, error, error, scale, not log)


def test_it_comes_with_enough_samples_and_only_undecided():
    near, far = {"a": 10.0, "b": 10.05}, {"a": 10.0, "b": 20.0}
    assert reported(near, 200, 0.1, after=None).hint is None
    assert reported(near, 200, 0.1, after=401).hint is None
    assert reported(near, 200, 0.1, after=400).hint is not None
    assert reported(far, 200, 0.1, stop=False).hint is None


@pytest.mark.parametrize(("values", "log"), [({"a": 10.0, "b": 10.05}, False), ({"a": 2.0, "b": 1.995}, True)])
def test_the_tolerance_that_it_names_decides(values: dict[str, float], log: bool):
    error = 0.01 if log else 0.1
    hint = reported(values, 200, error, log=log).hint
    share = hint.split("A tolerance of ")[1].split("% would decide it now")[0]
    assert not reported(values, 200, error, log=log, tolerance=f"{0.9 * float(share)}%", stop=False).decision.decided
    assert reported(values, 200, error, log=log, tolerance=f"{share}%", stop=False).decision.decided
    assert "1% is recommended" in hint


def test_it_names_budget_and_samples():
    clear = {"a": 10.0, "b": 10.3}
    unbounded = reported(clear, 200, 0.1)
    assert unbounded.hint.endswith("A budget would end it undecided.")
    assert unbounded.decision.hardest.more_samples is not None
    assert "more samples would decide it. " in unbounded.hint
    assert (reported(clear, 200, 0.1, budget=5000).hint or "").endswith("Its budget is 5,000 samples.")
    level = reported({"a": 10.0, "b": 10.0}, 200, 0.1).hint or ""
    assert "How many more samples would decide it cannot be said" in level
    assert unbounded.hint in unwrapped(unbounded)


@pytest.mark.parametrize("log", [False, True])
def test_of_many_generators_it_says_how_many_samples_a_usual_tolerance_takes(log: bool):
    values = {f"g{place}": 2.0 - 0.001 * place if log else 10.0 + 0.005 * place for place in range(10)}
    error = 0.005 if log else 0.05

    def sentence(**config: Any) -> str | None:
        said = (reported(values, 200, error, log=log, **config).hint or "").split("nearly tied: ")
        return said[1].split(". ")[0] if len(said) > 1 else None

    found = sentence()
    assert found.startswith('with tolerance="1%" about ')
    tolerant = reported(values, 200, error, log=log, tolerance="1%").decision.hardest
    assert tolerant.more_samples is not None
    assert about(tolerant.more_samples).lower() in found
    assert sentence(tolerance="0.5%") is None
    del values["g9"]
    assert sentence() is None


def test_uniform_sampling_is_mentioned_only_where_it_would_have_cost_more():
    near, far = {"a": 10.0, "b": 10.1}, {"a": 10.0, "b": 20.0, "c": 40.0}
    assert reported(near, 200, 0.1, stop=False).uniform_samples is None  # undecided
    assert reported(far, 200, 0.1, stop=False).uniform_samples is None  # below what was spent
    barely = reported({"a": 10.0, "b": 10.0 + 3.6 * math.sqrt(2) * 0.1}, 200, 0.1, stop=False)
    assert barely.decision.decided
    assert barely.uniform_samples is None or barely.uniform_samples > barely.samples


def test_with_limits_it_says_what_would_decide_the_open_ones():
    config = {"goal": "cheapest", "good_enough": 1.0, "costs": {"a": 1.0, "b": 5.0}, "budget": 9000}
    hint = reported({"a": 10.7, "b": 10.0}, 200, 0.1, **config).hint
    assert hint is not None
    assert hint.startswith("Undecided after 400 samples. a would be good enough now if 1.")
    assert ", and not if less than 0." in hint
    assert hint.endswith(" more samples. Its budget is 9,000 samples.")
    high = float(hint.split("now if ")[1].split(" was")[0])
    low = float(hint.split("less than ")[1].split(" was")[0])
    above = reported({"a": 10.7, "b": 10.0}, 200, 0.1, **{**config, "good_enough": 1.01 * high, "stop": False})
    below = reported({"a": 10.7, "b": 10.0}, 200, 0.1, **{**config, "good_enough": 0.99 * low, "stop": False})
    assert (above.decision.best, below.decision.best) == ("a", "b")
    assert above.decision.decided
    assert below.decision.decided
