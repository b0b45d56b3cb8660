"""Service and `Evaluation` pick, score, compare and decide alike, to the last bit, by all kinds of metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.policies import Stopping
from optimist_client import Optimist
from optimist_client.config import RULES
from optimist_client.metrics import CMMD, KID, MMD, RKE, Gaussian, Metric, Vendi, WinRate
from tests.support.alike import same

SCALES = {"near": 1.0, "wide": 12.0, "flat": 3.0}
REAL = np.random.default_rng(0).standard_normal((60, 3)) + 0.5
OPEN = {"sigma": "median", "features": 32}
KERNEL = Gaussian(2.0, features=16)
Drawn = Callable[[str, int, int], np.ndarray]


def rows(generator: str, start: int, size: int) -> np.ndarray:
    """Samples of these indices, whose noise all generators have in common."""
    noise = [np.random.default_rng(index).standard_normal(3) for index in range(start, start + size)]
    return SCALES[generator] * np.stack(noise)


def wins(generator: str, start: int, size: int) -> np.ndarray:
    rate = {"near": 0.85, "wide": 0.3, "flat": 0.15}[generator]
    drawn = [np.random.default_rng((index, *generator.encode())).random() for index in range(start, start + size)]
    return np.array([[float(one < rate)] for one in drawn])


@pytest.mark.parametrize(
    ("metric", "draw", "config"),
    [
        (RKE(dimension=3, kernel=OPEN), rows, {"policy": "ucb"}),
        (Vendi(dimension=3, kernel=OPEN), rows, {"policy": "ucb"}),
        (Vendi(dimension=3, kernel={**OPEN, "name": "nystrom"}), rows, {"policy": "ucb"}),
        (Vendi(dimension=3, kernel=KERNEL), rows, {"policy": "uniform"}),  # whose scores have brackets
        (KID(reference=REAL), rows, {"policy": "top-two"}),
        (CMMD(reference=REAL, kernel=Gaussian(10.0, features=6)), rows, {"policy": "top-two"}),
        (MMD(reference=REAL, kernel=Gaussian("median", 12)), rows, {"policy": "top-two"}),
        (WinRate(), wins, {"policy": "top-two", "bound": "empirical-bernstein", "stop": True, "budget": 2000}),
        (WinRate(), wins, {"policy": "top-two", "bound": "betting", "stop": True, "budget": 2000}),
        *(
            pytest.param(
                RKE(dimension=3, kernel=KERNEL),
                rows,
                {"goal": "mixture", "policy": policy, "tolerance": 0.0, "rescore_growth": 0.04, "budget": 200},
                marks=pytest.mark.long,
            )
            for policy in ("ogd", "mixture-ucb-cab")
        ),
    ],
    ids=lambda value: "-".join([value.name, *map(str, value.kernels)]) if isinstance(value, Metric) else "",
)
def test_service_and_evaluation_are_alike(
    client: Optimist, name: str, metric: Metric, draw: Drawn, config: dict[str, Any]
):
    given: dict[str, Any] = {"batch_size": 8, "rescore_growth": 0.0, "seed": 3, "max_wait": 60.0, "stop": False}
    given |= {"budget": 320, **config}
    experiment = client.create_experiment(name, list(SCALES), metric=metric, **given)
    in_memory = {field: given[field] for field in given.keys() - {"max_wait", "stop", "budget"}}
    evaluation = Evaluation(list(SCALES), metric=metric, **in_memory)
    for pick in experiment.picks():
        assert pick.generator == evaluation.ask(), f"in round {pick.number}"
        assert not pick.info.stale
        batch = draw(pick.generator, pick.start or 0, pick.size)
        pick.tell(batch)
        evaluation.tell(pick.generator, batch, start=pick.start)
    report, decision, info = same(experiment, evaluation), evaluation.decision(), client.experiment(name).info
    assert (report.decision.best, report.decision.confidence) == (decision.best, decision.confidence)
    assert (report.decision.decided, report.decision.reason) == (decision.decided, decision.reason)
    assert [one.verdict for one in report.decision.verdicts] == [one.verdict for one in decision.verdicts]
    assert experiment.contrast("near", "wide") == evaluation.contrast("near", "wide")
    kernels = evaluation._primary.question.kernels
    assert info.bandwidths == {field: kernels[field].sigma for field in kernels if "median" in str(metric)}
    assert info.rules == RULES
    if config["policy"] == "ucb":
        assert f"{Stopping().threshold(3, evaluation.told):.2f} are needed" in report.decision.reason
