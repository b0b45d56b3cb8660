"""The goal "cheapest" through a service of two processes whose scorer is killed: decided once, and kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.processes import serving, until

SCORES = {"small": 0.0, "mid": 0.95, "big": 1.0}
SECONDS = {"small": 0.2, "mid": 0.5, "big": 2.0}


def made(generator: str, seeds: list[int]) -> dict[str, np.ndarray]:
    noise = np.array([np.random.default_rng(seed).standard_normal() for seed in seeds])
    own = np.array([np.random.default_rng((seed, *generator.encode())).standard_normal(2) for seed in seeds])
    latency = SECONDS[generator] * np.exp(0.3 * own[:, 1])
    return {"values": (SCORES[generator] + noise + 0.3 * own[:, 0])[:, None], "latency": latency[:, None]}


@pytest.mark.long
@pytest.mark.faults
def test_the_cheapest_is_decided_once_though_the_scorer_is_killed(tmp_path: Path):
    with serving(tmp_path, "--workers=2") as service, Optimist(service.url, patience=60) as client:
        experiment = client.create_experiment(
            "x",
            [*SCORES],
            metric=Mean(),
            watch=[Mean(label="latency", reads="latency", higher_is_better=False)],
            goal="cheapest",
            good_enough=0.3,
            limits={"latency": "< 1.5"},
            costs={"small": 1.0, "mid": 4.0, "big": 30.0},
            batch_size=10,
        )
        told = 0
        while (pick := experiment.ask()) is not None:
            pick.tell(made(pick.generator, pick.seeds))
            told += 1
            if told in (8, 16):
                killed = service.scorer_pid()
                assert killed is not None
                os.kill(killed, signal.SIGKILL)
                until(lambda killed=killed: service.scorer_pid() not in (None, killed))
            assert told < 1000
        reports = [experiment.report() for _ in range(6)]  # by either process
        assert {report.decision.best for report in reports} == {"mid"}
        assert {report.decision.model_dump_json() for report in reports} == {reports[0].decision.model_dump_json()}
        assert reports[0].state == "decided"
        verdicts = {(one.generator, one.label): one.verdict for one in reports[0].decision.limits}
        assert verdicts["small", ""] == "not met"
        assert verdicts["mid", ""] == verdicts["mid", "latency"] == "met"
        assert "mid is the cheapest that is good enough" in f"{reports[0]}"
        assert "at 1/7.5 of the cost of big" in reports[0].answer
        assert sum(row.samples for row in reports[0].standings) == reports[0].samples
