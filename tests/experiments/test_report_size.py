"""A report on many generators: what it takes grows as their number does."""

from __future__ import annotations

import cProfile
import pstats
import time

import numpy as np

from optimist.estimates.estimate import Estimate
from optimist.experiments.anomalies import Anomalies
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState, Origin
from optimist_client.models import AnomalousBatches
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator


def calls(generators: int) -> int:
    """Function calls that a report takes, in which every generator has an estimate, a copy of another, and a scale."""
    names, values = [f"g{place}" for place in range(generators)], np.random.default_rng(0).random(generators)
    stored = [
        generator(place, name, 100, {"fid": Estimate(value, value, 100, value - 1, value + 1, value - 1, 1.0, 1.0)})
        for place, (name, value) in enumerate(zip(names, values.tolist(), strict=True))
    ]
    for one, other in zip(stored[::2], stored[1::2], strict=True):
        one.duplicates[other.ordinal] = 5
    groups = [AnomalousBatches(generator=name, positions=(3,), whole=False, finding="is odd") for name in names]
    origins = {(place, 3): Origin(1, 5, 1.0, "w") for place in range(generators)}
    config = config_of(name="e", generators=names, metric="fid", reference="r")
    state = PolicyState(experiment_of(config, created=time.time(), instance="i"), ExperimentState(60, 60, stored))
    with cProfile.Profile() as profile:
        report = report_of(state, 1000, anomalous=Anomalies(tuple(groups), origins))
    assert [len(one.warnings) for one in report.standings] == [2] * generators
    assert report.standings[1].warnings[-1] == "identical to 'g0' so far (5 batches agree): stop?"
    assert len(report.anomalies) == generators
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


def test_a_report_on_four_times_as_many_generators_takes_about_four_times_as_much():
    calls(2)  # imports
    few, many = calls(100), calls(400)
    assert few < many < 4.4 * few
