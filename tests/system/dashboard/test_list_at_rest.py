"""The list of experiments reads the state of those only that have changed since."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import start_embedded
from optimist_client import Optimist
from optimist_client.metrics import Mean
from optimist_client.models import ExperimentPage
from tests.support.processes import serving


@pytest.mark.long
def test_a_line_is_made_anew_when_its_experiment_has_changed(tmp_path: Path):
    with (
        start_embedded(tmp_path / "redis") as server,
        serving(tmp_path / "service", f"--redis-url={server.url}", "--no-scoring") as service,
        Optimist(service.url) as client,
        httpx.Client(base_url=service.url) as http,
        Redis(unix_socket_path=server.url.removeprefix("unix://")) as redis,
    ):
        made = [client.create_experiment(name, ["a", "b"], metric=Mean(), max_wait=0.0) for name in ("x", "y", "z")]
        for experiment in made:
            experiment.ask().tell(np.ones((5, 1)))

        def listed() -> tuple[dict[str, tuple[int, list[str]]], int]:
            """Samples and tags by name, and how many states were read for it."""
            before = states()
            lines = ExperimentPage.model_validate(http.get("/v1/experiments").json()).experiments
            return {line.name: (line.samples, line.tags) for line in lines}, states() - before

        def states() -> int:
            return redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

        before = {name: (5, []) for name in "xyz"}
        assert listed() == (before, 3)
        assert listed() == (before, 0)
        made[0].ask().tell(np.zeros((5, 1)))
        assert listed() == (before | {"x": (10, [])}, 1)
        made[1].annotate(tags=["new"])
        assert listed() == (before | {"x": (10, []), "y": (5, ["new"])}, 1)
        client.delete_experiment("z")
        client.create_experiment("z", ["a", "b", "c"], metric=Mean())
        assert listed()[0]["z"] == (0, [])
