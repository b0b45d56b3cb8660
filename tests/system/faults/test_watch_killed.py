"""An experiment that watches metrics, whose scorer is killed in the middle: the numbers are those of one in memory."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import Optimist
from optimist_client.metrics import FID, RKE, Gaussian, InceptionScore, Metric, Vendi
from tests.support.processes import Service, scored

NAMES = ["a", "b"]
ROWS = 20
SECOND = (np.ones(3), 2.0 * np.eye(3))
WATCHED: list[Metric] = [
    InceptionScore(),
    RKE(kernel=Gaussian(sigma=2.0, features=15)),
    Vendi(kernel=Gaussian(sigma="median", features=15)),
]


def arrays(generator: str, start: int) -> dict[str, np.ndarray]:
    common = np.random.default_rng(start).standard_normal((ROWS, 15))
    weights = np.exp(common[:, 4:])
    return {
        "features": common[:, :4] * (1 + NAMES.index(generator) / 5),
        "probabilities": weights / weights.sum(axis=1, keepdims=True),
        "second": common[:, 2:5] + NAMES.index(generator) / 3,
    }


@pytest.mark.long
@pytest.mark.faults
def test_a_scorer_killed_in_the_middle_changes_no_number_of_any_metric(shared: Service):
    evaluation = Evaluation(
        NAMES,
        metric=FID(reference=(np.zeros(4), np.eye(4))),
        watch=[*WATCHED, FID(reads="second", reference=SECOND)],
        rescore_growth=0.0,
    )
    with Optimist(shared.url) as client:
        client.create_reference("watch-killed", mean=np.zeros(4), covariance=np.eye(4))
        client.create_reference("watch-killed-second", mean=SECOND[0], covariance=SECOND[1])
        classes = InceptionScore(dimension=11)
        experiment = client.create_experiment(
            "watch-killed",
            NAMES,
            reference="watch-killed",
            watch=[classes, *WATCHED[1:], FID(reads="second", reference="watch-killed-second")],
            batch_size=ROWS,
            rescore_growth=0.0,
            policy="uniform",
            max_wait=0.1,
            stop=False,
        )
        for number in range(20):
            pick = experiment.ask()
            batch = arrays(pick.generator, pick.start)
            pick.tell(batch)
            evaluation.tell(pick.generator, batch, start=pick.start)
            if number in (6, 15) and (scorer := shared.scorer_pid()) is not None:
                os.kill(scorer, signal.SIGKILL)
        scored(experiment)
        report = experiment.report()
        found = {None: report.standings} | {label: watched.standings for label, watched in report.watched.items()}
        assert found.keys() == {None, *evaluation.watched}
        for label, standings in found.items():
            for standing in standings:
                estimate = evaluation.estimates(label)[standing.generator]
                assert estimate is not None
                assert (standing.score, standing.scored_samples) == (estimate.score, estimate.samples), label
                ends = sorted(estimate.natural(end) for end in (estimate.lower, estimate.upper))
                assert [standing.lower, standing.upper] == ends, label
