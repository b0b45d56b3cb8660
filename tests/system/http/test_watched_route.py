"""The report of an experiment with watched metrics over HTTP: standings by label, charts, modes."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import Experiment, Optimist
from optimist_client.metrics import RKE
from tests.support.processes import Service, scored

KERNEL: Any = {"name": "gaussian", "sigma": 2.0, "features": 8, "seed": 1}


@pytest.fixture
def experiment(client: Optimist, name: str, reference: tuple[np.ndarray, np.ndarray]) -> Experiment:
    watch = [RKE(kernel=KERNEL, dimension=4)]
    return client.create_experiment(
        name, ["near", "wide"], reference=reference, watch=watch, costs={"near": 1.0, "wide": 3.0}, stop=False, seed=1
    )


def work(experiment: Experiment, samples: int) -> None:
    for pick in experiment.picks(samples):
        scale = 1.0 if pick.generator == "near" else 3.0
        pick.tell(scale * np.random.default_rng(pick.seed).standard_normal((pick.size, 4)))


@pytest.mark.long
def test_a_report_has_the_standings_of_watched_metrics_and_its_charts_their_curves(
    experiment: Experiment, service: Service
):
    work(experiment, 200)
    report = scored(experiment)
    rke = report.watched["rke"]
    assert (report.decision.best, rke.best) == ("near", "wide")
    assert report.disagreement.startswith("Metrics disagree on the best: FID (")
    assert [row.scored_samples for row in rke.standings] == [row.scored_samples for row in report.standings]
    assert [row.cost for row in rke.standings] == [None, None]
    url = f"{service.url}/v1/experiments/{experiment.name}/report?after=0"
    for known in httpx.get(url).raise_for_status().json()["progress"]["generators"]:
        assert known["watched"]["rke"]["samples"][-1] == known["curve"]["samples"][-1]
        assert known["watched"]["rke"]["scores"][-1] > 1.0


def test_a_report_that_a_change_answers_has_watched_metrics_too(experiment: Experiment):
    work(experiment, 20)
    assert set(experiment.stop().watched) == {"rke"}
    assert set(experiment.set_cost("near", 2.0).watched) == {"rke"}


def test_modes_of_a_metric_that_has_none_or_is_unknown_are_refused(experiment: Experiment, service: Service):
    url = f"{service.url}/v1/experiments/{experiment.name}/generators/near/modes"
    assert "'fid' has no kernel" in httpx.get(url).json()["detail"]
    unknown = httpx.get(url, params={"metric": "vendi"})
    assert (unknown.status_code, unknown.json()["detail"]) == (422, "metric: expected one of fid, rke; got 'vendi'")
    early = httpx.get(url, params={"metric": "rke"})
    assert (early.status_code, early.json()["detail"]) == (422, "generator 'near' has no samples yet")
