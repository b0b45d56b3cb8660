"""The gate and the ranks by a service: functions sampled until it is sure, the command, and what a report has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist_client import Experiment, FixError, NotFoundError, Optimist
from tests.support.commands import invoked
from tests.support.processes import Service
from tests.support.reports import unwrapped

MEANS = {"new": 0.02, "old": 0.0, "far": -1.0, "near": 0.03}


def model(mean: float) -> Any:
    def sample(size: int, seeds: list[int]) -> NDArray[np.float64]:
        own = round(1000.0 * (mean + 2.0))
        rngs = ((np.random.default_rng(seed), np.random.default_rng((seed, own))) for seed in seeds)
        return np.array([[mean + common.normal() + 0.3 * of_model.normal()] for common, of_model in rngs])

    return sample


@pytest.fixture
def experiment(client: Optimist, name: str) -> Experiment:
    return client.create_experiment(name, [*MEANS], metric="mean", policy="uniform", stop=False, seed=1)


def test_a_gate_samples_the_two_until_it_is_sure(experiment: Experiment, service: Service):
    assert experiment.gate("new", "old", 0.2).answer == "open"
    both = {name: model(MEANS[name]) for name in ("new", "old")}
    found = experiment.gate("new", "old", 0.2, both, max_samples=2_000)
    assert (found.answer, found.units, found.warnings) == ("yes", "pairs", ())
    rows = {row.generator: row.samples for row in experiment.report().standings}
    assert rows["new"] == rows["old"] == found.samples
    assert found.samples <= 100
    assert rows["far"] == rows["near"] == 0
    arguments = ("new", "old", "--experiment", experiment.name, "--url", service.url, "--margin", "0.2")
    assert invoked("gate", *arguments, code=0).stdout == f"{found.text}\n"
    assert experiment.gate("new", "old", {"mean": 1e-6}).answer == "open"
    for wrong, kind in ((("none", "old", 0.2), NotFoundError), (("new", "old", {"fid": 0.2}), FixError)):
        with pytest.raises(kind):
            experiment.gate(*wrong)
    with pytest.raises(FixError, match="generators: expected functions of new and old, got new"):
        experiment.gate("new", "old", 1e-6, {"new": model(0.0)})


def test_a_report_has_the_ranks(experiment: Experiment):
    with pytest.raises(FixError, match="no ranks"):
        experiment.report().ranking()
    report = experiment.run({name: model(mean) for name, mean in MEANS.items()}, max_samples=400, progress=False)
    ranking = report.ranking()
    assert [(one.first, one.last) for one in ranking.ranks] == [(1, 3)] * 3 + [(4, 4)]
    assert ranking.top(1) is None
    assert sorted(ranking.top(3) or []) == ["near", "new", "old"]
    assert f"Ranks: {ranking.text}" in unwrapped(report)
    lines = report.table("latex", ranks=True).splitlines()
    assert lines[2].startswith("generator & rank & Mean & ")
    assert lines[-3].startswith("far & 4th & ")
