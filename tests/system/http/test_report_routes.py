"""Reports of watched metrics, contrasts of two generators, and modes, by HTTP and by the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist_client import Experiment, FixError, NotFoundError, Optimist
from optimist_client.metrics import RKE
from tests.support.processes import Service, append_batch, scored, until

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


CONFIG = {"metric": "rke", "dimension": 2, "kernel": {"sigma": 1.0, "features": 8}}


def append(service: Service, experiment: Experiment, generator: str, rows: int, key: str = "key") -> httpx.Response:
    features = np.random.default_rng(rows).standard_normal((rows, 2))
    return append_batch(service.url, experiment.name, generator, {"features": features}, key)


def test_samples_that_no_pick_asked_for_are_called_by_their_place_in_the_log(
    service: Service, client: Optimist, name: str
):
    experiment = client.create_experiment(name, ["a", "b"], **CONFIG)
    for key in ("x", "y"):
        assert append(service, experiment, "a", 3, key).json()["duplicate"] is False
    shown = {sample.id for mode in experiment.modes("a", count=20).modes for sample in mode.samples}
    assert shown == {f"@{seq}:{row}" for seq in (1, 2) for row in range(3)}


def test_before_the_kernel_is_fixed_it_is_said_what_that_takes(service: Service, client: Optimist, name: str):
    config = {**CONFIG, "kernel": {"sigma": "median", "features": 8}}
    experiment = client.create_experiment(name, ["a", "b"], **config)
    append(service, experiment, "a", 100)
    with pytest.raises(FixError, match=r"not fixed yet: it takes 28 more samples of 'a', 128 more samples of 'b'$"):
        experiment.modes("a")
    append(service, experiment, "b", 128)
    with pytest.raises(FixError, match=r"it takes 28 more samples of 'a'$"):
        experiment.modes("b")
    append(service, experiment, "a", 28, "another")
    assert experiment.modes("b").samples == 128


def test_who_waits_for_modes_of_an_experiment_that_is_made_again_is_told_so(not_scoring: Service, name: str):
    url = running_url(not_scoring.directory)
    with (
        Optimist(not_scoring.url) as client,
        Redis.from_url(url) as redis,
        redis.pubsub() as listening,
        ThreadPoolExecutor(1) as pool,
    ):
        append(not_scoring, client.create_experiment(name, ["a", "b"], **CONFIG), "b", 5)
        listening.subscribe("optimist:wanted")
        waiting = pool.submit(httpx.get, f"{not_scoring.url}/v1/experiments/{name}/generators/b/modes", timeout=60)
        until(lambda: (listening.get_message() or {}).get("type") == "message")
        client.delete_experiment(name)
        append(not_scoring, client.create_experiment(name, ["a"], **CONFIG), "a", 5)
        assert waiting.result().status_code == 404
        assert "Traceback" not in not_scoring.log()


MEANS = {"near": 1.0, "best": 0.0, "far": 3.0}
BATCHES = 8


def rows(generator: str, batch: int) -> np.ndarray:
    return np.random.default_rng([*generator.encode(), batch]).standard_normal((10, 4)) + MEANS[generator]


@pytest.fixture(scope="module")
def compared(service: Service) -> Iterator[Experiment]:
    """Three generators with 80 samples each, and one without."""
    with Optimist(service.url) as client:
        made = client.create_experiment(
            "contrasts", [*MEANS], reference=(np.zeros(4), np.eye(4)), batch_size=10, policy="uniform", stop=False
        )
        told = dict.fromkeys(MEANS, 0)
        for pick in made.picks(max_samples=10 * BATCHES * len(MEANS)):
            pick.tell(rows(pick.generator, told[pick.generator]))
            told[pick.generator] += 1
        scored(made)
        made.add_generator("late")
        yield made


def test_the_sdk_asks_for_any_two(compared: Experiment, service: Service):
    found = compared.contrast("near", "best")
    assert found == compared.report().contrasts[0]
    turned = compared.contrast("best", "near")
    assert turned.difference == pytest.approx(-found.difference)
    assert (turned.generator, turned.against) == ("best", "near")
    assert turned.standard_error == pytest.approx(found.standard_error)
    answer = httpx.get(f"{service.url}/v1/experiments/contrasts/contrast?generator=far&against=near")
    assert answer.json() == compared.contrast("far", "near").model_dump()
    assert answer.json()["text"].count(" to ") == 1


def test_what_cannot_be_compared(compared: Experiment, service: Service):
    for pair in (("none", "best"), ("best", "none")):
        with pytest.raises(NotFoundError, match="no generator 'none'"):
            compared.contrast(*pair)
    with pytest.raises(FixError, match="'late' has no estimate yet"):
        compared.contrast("best", "late")
    with pytest.raises(FixError, match="'best' twice"):
        compared.contrast("best", "best")
    one = httpx.get(f"{service.url}/v1/experiments/contrasts/contrast", params={"generator": "best"})
    assert (one.status_code, "against" in one.json()["detail"]) == (422, True)
