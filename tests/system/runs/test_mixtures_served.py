"""Mixtures from end to end: a run for the best mixture, mixtures on request, and mixtures that workers share out."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.store import MIXTURE as MIXTURE_UNIT
from optimist.store import Store, running_url
from optimist_client import AsyncOptimist, ConflictError, Experiment, FixError, Optimist
from optimist_client.metrics import Gaussian, Vendi
from optimist_client.models import Mixture
from tests.support.commands import invoked
from tests.support.exchanges import claimed
from tests.support.mixed import put_mixture
from tests.support.processes import Service, append_batch, losing_replies, until

PLACES = {"a": (0.0, 1.0), "b": (3.0, 1.3), "c": (0.0, 0.5)}
"""Where the generators' samples are, and how wide they lie: the best mixture is more than half of b, the rest of a."""
KERNEL = {"sigma": 1.0, "features": 16}
CONFIG: dict[str, Any] = {"metric": "rke", "dimension": 2, "kernel": KERNEL}
MIXTURE: dict[str, Any] = {**CONFIG, "goal": "mixture", "batch_size": 10, "tolerance": "5%", "max_wait": 60}


def sampled(generator: str, size: int, seed: int) -> np.ndarray:
    place, width = PLACES[generator]
    return np.random.default_rng(seed).standard_normal((size, 2)) * width + [place, 0.0]


def generators(names: str = "abc") -> dict[str, Any]:
    return {name: lambda size, seed, name=name: sampled(name, size, seed) for name in names}


def append(url: str, experiment: str, generator: str, rows: int, seed: int = 0) -> None:
    drawn = sampled(generator, rows, seed + ord(generator))
    append_batch(url, experiment, generator, {"features": drawn}, f"{seed}").raise_for_status()


@pytest.fixture
def told(service: Service, client: Optimist, name: str) -> Experiment:
    """An experiment for the best generator, with 60 samples of each."""
    experiment = client.create_experiment(name, list(PLACES), watch=[Vendi(kernel=Gaussian(**KERNEL))], **CONFIG)
    for generator in PLACES:
        append(service.url, name, generator, 60)
    return experiment


@pytest.mark.long
def test_a_run_ends_once_the_best_mixture_is_known(
    client: Optimist, service: Service, name: str, capsys: pytest.CaptureFixture[str]
):
    experiment = client.create_experiment(name, list(PLACES), budget=3000, **MIXTURE)
    report = experiment.run(generators(), workers=4, progress=True)
    assert (report.goal, report.state, report.decision.decided, report.scored) == ("mixture", "decided", True, True)
    weights = {one.generator: one.weight for one in report.mixture.weights}
    assert list(weights) == list(PLACES)
    assert weights["b"] > weights["a"] > weights["c"]
    assert weights["b"] == pytest.approx(0.62, abs=0.12)
    assert report.decision.weights.keys() == weights.keys()
    assert report.decision.best == report.mixture.best
    assert report.mixture.gain > 3.0 * report.mixture.gain_standard_error > 0.0
    assert report.mixture.gap_bound <= 0.05
    assert report.sentences[0].startswith("Best: ")
    assert report.sentences[1].startswith("No other mixture is better than this one")
    assert (report.regret, report.optimal_pick_ratio, report.hint) == (None, None, None)
    assert "% b" in capsys.readouterr().err
    assert experiment.ask() is None
    [listed] = (one.info for one in client.list_experiments(search=name))
    assert listed.leader == " + ".join(f"{listed.decision.weights[one]:.0%} {one}" for one in "ba")
    assert (listed.score, listed.lower, listed.upper) == (
        report.mixture.score,
        report.mixture.lower,
        report.mixture.upper,
    )
    row = invoked("list", "--search", name, "--url", service.url).stdout.splitlines()[1]
    assert re.split(r"  +", row)[1:3] == ["decided", listed.leader]


@pytest.mark.long
def test_asks_under_load_are_made_from_mixtures(client: Optimist, name: str):
    experiment = client.create_experiment(name, list(PLACES), **{**MIXTURE, "tolerance": 0.0, "budget": 1500})
    picks = []

    def work(worker: int) -> None:
        for pick in experiment.picks(worker=f"{worker}"):
            picks.append(pick.info)
            pick.tell(sampled(pick.generator, pick.size, pick.seed))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sum(pick.size for pick in picks) == 1500
    assert not any(pick.stale for pick in picks)
    # Nobody was held up until the newest samples were in it: a mixture served several picks.
    named = Counter(pick.mixture for pick in picks if pick.mixture)
    assert 3 <= len(named) <= 30
    assert experiment.report().state == "out of budget"


def test_a_mixture_is_made_when_somebody_asks_and_again_for_new_samples(service: Service, told: Experiment):
    assert told.report().mixture is None
    made = told.mixture()
    assert (made.experiment, made.label, made.samples, made.positions) == (told.name, "rke", 180, [1, 1, 1])
    assert not made.stale
    assert {one.generator: one.samples for one in made.weights} == dict.fromkeys(PLACES, 60)
    assert made.lower < made.score < made.upper
    by_vendi = told.mixture("vendi")
    assert (by_vendi.label, by_vendi.title) == ("vendi", "Vendi")
    assert by_vendi.score != made.score
    report = told.report()
    assert (report.mixture, report.goal, report.decision.weights) == (made, "best", {})
    append(service.url, told.name, "a", 61, seed=1)
    report = told.report()
    assert (report.mixture.samples, report.mixture.stale) == (180, True)
    assert told.mixture().samples == 241
    assert told.mixture().score != made.score
    told.set_state("b", "retired")
    made = told.mixture()
    assert [one.generator for one in made.weights] == ["a", "c"]
    assert made.positions == [2, 0, 1]


def test_what_cannot_be_blended_is_said(service: Service, client: Optimist, told: Experiment, name: str):
    with pytest.raises(FixError, match="metric: expected one of rke, vendi; got 'kid'"):
        told.mixture("kid")
    other = client.create_experiment(f"{name}-is", ["a", "b"], metric="is", dimension=2)
    with pytest.raises(FixError, match="the metric 'is', with these settings, has no score of mixtures"):
        other.mixture()
    few = client.create_experiment(f"{name}-few", ["a", "b"], **CONFIG)
    append(service.url, few.name, "a", 3)
    with pytest.raises(FixError, match=r"too few samples .* it takes 1 more samples of 'a', 4 more samples of 'b'"):
        few.mixture()
    with pytest.raises(ConflictError, match="has no mixture yet; it is made when somebody asks for it: GET"):
        few.blend(10)
    for size, limit in ((0, "at least 1, got 0"), (10**7, "at most 1,000,000, got 10000000")):
        with pytest.raises(FixError, match=limit):
            few.blend(size)
    blended = client.create_experiment(f"{name}-goal", ["a", "b"], **MIXTURE)
    with pytest.raises(ConflictError, match="has no mixture yet; it is made once every generator has some samples"):
        blended.blend(10)
    opened = client.create_experiment(f"{name}-open", ["a", "b"], **{**CONFIG, "kernel": {"sigma": "median"}})
    for generator in "ab":
        append(service.url, opened.name, generator, 100)
    with pytest.raises(FixError, match="is not fixed yet: it takes 28 more samples of 'a', 28 more samples of"):
        opened.mixture()


@pytest.mark.long
def test_without_a_scorer_an_old_mixture_is_marked_and_none_is_an_error(not_scoring: Service, name: str):
    url = running_url(not_scoring.directory)
    assert url is not None

    async def put() -> None:
        async with Redis.from_url(url) as redis:
            await put_mixture(Store(redis, namespace="default"), f"{name}-old", a=0.7, b=0.3)

    def asked(experiment: str) -> httpx.Response:
        return httpx.get(f"{not_scoring.url}/v1/experiments/{experiment}/mixture", timeout=30)

    with Optimist(not_scoring.url, patience=0.0) as client, ThreadPoolExecutor(2) as pool:
        for label in ("old", "none"):
            client.create_experiment(f"{name}-{label}", ["a", "b"], **CONFIG)
            for generator in "ab":
                append(not_scoring.url, f"{name}-{label}", generator, 60)
        asyncio.run(put())
        append(not_scoring.url, f"{name}-old", "a", 60, seed=1)
        old, none = pool.map(asked, (f"{name}-old", f"{name}-none"))
        assert (none.status_code, none.json()["type"]) == (503, "urn:optimist:problem:no-scorer")
        assert (old.status_code, old.json()["stale"], old.json()["samples"]) == (200, True, 120)
        report = client.experiment(f"{name}-old").report()
        assert report.mixture.stale
        assert client.experiment(f"{name}-old").blend(10).counts == {"a": 7, "b": 3}


@pytest.mark.long
def test_a_mixture_that_takes_longer_than_a_request_is_waited_for(not_scoring: Service, name: str):
    url = running_url(not_scoring.directory)
    assert url is not None

    async def scored(made: Future[Mixture]) -> None:
        async with Redis.from_url(url) as redis:
            store = Store(redis, namespace="default")
            # A scorer that has begun, and is not done: it has the claim.
            claim = await claimed(store, name, MIXTURE_UNIT, "a slow scorer", 60.0, "rke")
            at = f"{not_scoring.url}/v1/experiments/{name}/mixture"
            async with httpx.AsyncClient(timeout=30) as http:
                waiting = await http.get(at)
            assert (waiting.status_code, waiting.headers["retry-after"]) == (503, "1")
            assert waiting.json()["type"] == "urn:optimist:problem:being-made"
            assert waiting.json()["action"] == "retry"
            assert not made.done(), "its patience is over, and it goes on"
            await store.end_claim(name, MIXTURE_UNIT, claim, "rke")
            await put_mixture(store, name, a=0.7, b=0.3)

    with Optimist(not_scoring.url, patience=0.5) as client, ThreadPoolExecutor(1) as pool:
        experiment = client.create_experiment(name, ["a", "b"], **CONFIG)
        for generator in "ab":
            append(not_scoring.url, name, generator, 60)
        made = pool.submit(experiment.mixture)
        asyncio.run(scored(made))
        assert made.result(60).samples == 120


def test_mixtures_of_many_workers_sum_to_the_weights(told: Experiment):
    weights = {one.generator: one.weight for one in told.mixture().weights}
    with ThreadPoolExecutor(8) as pool:
        mixtures = list(pool.map(told.blend, [7] * 80))
    total = Counter[str]()
    for blend in mixtures:
        assert sum(blend.counts.values()) == 7
        assert min(blend.counts.values()) > 0
        assert blend.weights == pytest.approx({name: weight for name, weight in weights.items() if weight > 0.0})
        total.update(blend.counts)
    assert sum(total.values()) == 560
    for generator, weight in weights.items():
        assert abs(total[generator] - 560 * weight) < 1.0
    told.set_state("a", "paused")
    assert told.blend(1000).counts.get("a", 0) == pytest.approx(1000 * weights["a"], abs=2.0)
    told.set_state("a", "retired")
    assert "a" not in told.blend(100).counts


def test_a_lost_reply_shares_out_nothing_twice(service: Service, told: Experiment):
    weights = {one.generator: one.weight for one in told.mixture().weights}
    total = Counter[str]()
    with losing_replies(service.url, every=2) as url, Optimist(url) as unlucky:
        experiment = unlucky.experiment(told.name)
        for _ in range(30):
            total.update(experiment.blend(3).counts)
    for generator, weight in weights.items():
        assert abs(total[generator] - 90 * weight) < 1.0


@pytest.mark.long
async def test_the_asyncio_client_has_the_same(service: Service, told: Experiment):
    async with AsyncOptimist(service.url) as optimist:
        experiment = await optimist.experiment(told.name)
        made = await experiment.mixture()
        assert made == told.mixture()
        mixtures = await asyncio.gather(*(experiment.blend(4) for _ in range(5)))
        assert sum(sum(blend.counts.values()) for blend in mixtures) == 20
        blended = await optimist.create_experiment(f"{told.name}-goal", list(PLACES), budget=600, **MIXTURE)
        report = await blended.run(generators(), workers=3, progress=False)
        assert report.mixture is not None
        assert report.ended


@pytest.mark.long
def test_charts_are_given_the_mixtures_over_time(service: Service, client: Optimist, name: str):
    experiment = client.create_experiment(name, list(PLACES), **{**MIXTURE, "tolerance": 0.0, "budget": 400})
    experiment.run(generators(), progress=False)
    path = f"{service.url}/v1/experiments/{name}/report"
    until(lambda: httpx.get(path, params={"after": 0}).json()["scored"])
    curve = httpx.get(path, params={"after": 0}).json()["progress"]["mixture"]
    count = len(curve["told"])
    assert count >= 3
    assert curve["told"] == sorted(curve["told"])
    assert curve["samples"] == sorted(set(curve["samples"]))
    assert list(curve["weights"]) == list(PLACES)
    for at in range(count):
        assert sum(weights[at] for weights in curve["weights"].values()) == pytest.approx(1.0, abs=1e-4)
        assert curve["lower"][at] < curve["scores"][at] < curve["upper"][at]
        assert curve["best"][at] in PLACES
    assert {len(value) for key, value in curve.items() if key != "weights"} == {count}
    later = httpx.get(path, params={"after": curve["told"][-1]}).json()["progress"]["mixture"]
    assert later["told"] == curve["told"][-2:]
    best = client.create_experiment(f"{name}-best", ["a", "b"], **CONFIG)
    assert "mixture" not in httpx.get(path.replace(name, best.name), params={"after": 0}).json()["progress"]


def test_creating_an_experiment_again_changes_nothing(client: Optimist, name: str):
    first = client.create_experiment(name, list(PLACES), **MIXTURE)
    assert client.create_experiment(name, list(PLACES), **MIXTURE).info == first.info
    with pytest.raises(ConflictError, match=r"goal \('mixture', not 'best'\), policy \('ogd', not 'top-two'\)"):
        client.create_experiment(name, list(PLACES), **{**MIXTURE, "goal": "best"})
    best = client.create_experiment(f"{name}-best", list(PLACES), **CONFIG)
    assert "goal" not in best.info.model_dump(mode="json")["config"]
