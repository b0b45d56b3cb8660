"""The whole service on a Redis Cluster, with access keys of two namespaces, and a scorer that dies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Experiment, FixError, Optimist, StopError
from tests.support.keys import new_key, optimist_keys
from tests.support.processes import Service, scored, scorer, serving
from tests.support.servers import Cluster, cluster, redis_6, redis_7

pytestmark = [pytest.mark.faults, pytest.mark.long]

MOST = 4


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = redis_6() or redis_7() or pytest.skip("no redis-server here")
    with cluster(program, tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture(scope="module")
def service(servers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = optimist_keys("create", f"--redis-url={servers.url}", "--role=admin")
    assert made.exit_code == 0, made.stderr
    limits = {"OPTIMIST_MAX_EXPERIMENTS": f"{MOST}"}
    options = "--no-scoring", "--require-keys", f"--redis-url={servers.url}"
    with serving(tmp_path_factory.mktemp("service"), *options, environment=limits) as service:
        yield service


def rounds(experiment: Experiment, count: int) -> list[bool]:
    """Sample so often; of each pick whether it was stale."""
    stale = []
    for _ in range(count):
        pick = experiment.ask(worker="w")
        assert pick is not None
        stale.append(pick.info.stale)
        pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 2)))
    return stale


@pytest.mark.long
def test_namespaces_share_a_cluster_and_see_nothing_of_each_other(servers: Cluster, service: Service, tmp_path: Path):
    """Each has an experiment and a reference of the same names; the scorer that has both is killed, another goes on."""
    with ExitStack() as stack:
        admins, sampled = {}, {}
        for number, namespace in enumerate(("default", "red")):
            admin = Optimist(service.url, api_key=new_key(servers.url, "admin", namespace), patience=60)
            worker = Optimist(service.url, api_key=new_key(servers.url, "worker", namespace, "x"), patience=60)
            admins[namespace] = stack.enter_context(admin)
            admin.create_reference("real", mean=np.full(2, float(number)), covariance=np.eye(2))
            admin.create_experiment("x", ["a", "b"], reference="real", max_wait=0.2, rescore_growth=0.0, stop=False)
            sampled[namespace] = stack.enter_context(worker).experiment("x")
            with pytest.raises((FixError, StopError)):
                worker.create_experiment("y", ["a"], metric="is", dimension=3)
        with scorer(servers.url, tmp_path) as first:
            for experiment in sampled.values():
                rounds(experiment, 4)
                scored(experiment)
            first.kill()
            first.wait()
            # Nothing waits for the dead: picks come, marked as made from older estimates.
            for experiment in sampled.values():
                assert any(rounds(experiment, 3))
                assert not experiment.report().scored
        with scorer(servers.url, tmp_path):
            for experiment in sampled.values():
                scored(experiment)
                assert experiment.report().rounds == 7
        scores = {name: [row.score for row in one.report().standings] for name, one in sampled.items()}
        assert len({tuple(each) for each in scores.values()}) == 2
        admins["red"].delete_experiment("x")
        assert admins["red"].experiments() == []
        assert admins["default"].experiments() == ["x"]
        assert sampled["default"].report().rounds == 7


def test_the_number_of_experiments_is_exact_in_each_namespace_of_a_cluster(servers: Cluster, service: Service):
    admins = [
        Optimist(service.url, api_key=new_key(servers.url, "admin", name), patience=60) for name in ("one", "two")
    ]

    def make(number: int) -> bool:
        try:
            admins[number % 2].create_experiment(f"e{number}", ["a"], metric="is", dimension=3)
        except FixError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(24)))
    for number, admin in enumerate(admins):
        with admin:
            assert sum(made[number::2]) == len(admin.experiments()) == MOST
