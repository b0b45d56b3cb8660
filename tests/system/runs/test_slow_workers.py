"""A decision about latency waits for the slow answer, and for the estimates that have it. Real processes."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import Optimist
from optimist_client.metrics import Mean
from optimist_client.models import AskReply
from tests.support.processes import Service, append_batch, until


@pytest.mark.parametrize(("answer", "is_decided"), [(1.0, True), (41.0, False)], ids=["quick", "slow"])
def test_the_slow_answer_counts(client: Optimist, service: Service, name: str, answer: float, is_decided: bool):
    """The mean of `a` is about 1 without it, and that of `b` is 2. No estimate is due at one more sample."""
    metric = Mean(higher_is_better=False, range=(0, 1e4), timed=True)
    settings: dict[str, Any] = {"policy": "uniform", "paired": False, "max_wait": 0.0, "rescore_growth": 1.0}
    experiment = client.create_experiment(name, ["a", "b"], metric=metric, **settings)
    slow = experiment.ask(worker="slow")
    assert slow is not None
    assert slow.generator == "a"
    rng = np.random.default_rng(0)
    for generator, mean in {"a": 1.0, "b": 2.0}.items():
        append_batch(service.url, name, generator, {"values": mean + 0.1 * rng.standard_normal((40, 1))})

    def ask() -> AskReply:
        reply = httpx.post(f"{service.url}/v1/experiments/{name}/picks", json={"worker": "fast"})
        return AskReply.model_validate(reply.raise_for_status().json())

    def is_held() -> bool:
        report = experiment.report()
        assert not report.ended
        return bool(report.decision.awaited)

    until(is_held)
    held = ask()
    assert (held.picks, held.ended, held.decision.awaited) == ([], False, {"a": 1})
    slow.tell(np.full((1, 1), answer))
    until(lambda: ask().ended if is_decided else ask().picks)
    report = experiment.report()
    assert (report.decision.best, report.ended) == ("a", is_decided)
    assert {row.generator: row.scored_samples for row in report.standings} == {"a": 41, "b": 40}
