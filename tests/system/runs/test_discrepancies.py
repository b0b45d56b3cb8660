"""Experiments by KID and CMMD: service and `Evaluation` compute the same, and rows of zeros are refused."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import FixError, Optimist
from optimist_client.metrics import CMMD, KID, MMD, Gaussian, Metric
from tests.support.processes import Service, scored

REAL = np.random.default_rng(0).standard_normal((60, 6)) + 0.5
SCALES = {"good": 1.0, "wide": 1.4}


def rows(generator: str, start: int, size: int) -> np.ndarray:
    """Samples of these indices, which depend on the generator by their scale alone."""
    return 0.5 + SCALES[generator] * np.stack(
        [np.random.default_rng(index).standard_normal(6) for index in range(start, start + size)]
    )


@pytest.mark.parametrize("metric", [KID(), CMMD(kernel=Gaussian(10.0, features=6)), MMD(kernel=Gaussian("median", 12))])
def test_service_and_evaluation_agree(client: Optimist, service: Service, name: str, metric: Metric):
    declared = metric.model_copy(update={"reference": REAL})
    experiment = client.create_experiment(name, list(SCALES), metric=declared, stop=False, seed=3)
    evaluation = Evaluation(list(SCALES), metric=declared, policy="top-two", seed=3)
    for pick in experiment.picks(max_samples=60):
        batch = rows(pick.generator, pick.start or 0, pick.size)
        pick.tell(batch)
        evaluation.tell(pick.generator, batch, start=pick.start or 0)
    scored(experiment)
    standings = {row.generator: row for row in experiment.report().standings}
    for generator, found in evaluation.estimates().items():
        assert found is not None
        row = standings[generator]
        assert (row.score, row.lower, row.upper) == (found.value, found.lower, found.upper)
    one, other = SCALES
    contrast = experiment.contrast(one, other)
    assert contrast == evaluation.contrast(one, other)
    assert contrast.common > 0


def test_a_reference_of_moments_and_rows_of_zeros_are_refused(client: Optimist, name: str):
    client.create_reference(f"{name}-moments", mean=np.zeros(6), covariance=np.eye(6))
    with pytest.raises(FixError, match="compares with rows"):
        client.create_experiment(name, list(SCALES), metric=KID(reference=f"{name}-moments"))
    experiment = client.create_experiment(f"{name}-rows", list(SCALES), metric=CMMD(reference=REAL))
    pick = experiment.ask()
    assert pick is not None
    with pytest.raises(FixError, match="features: the metric needs rows that are not all zero; row 1 is"):
        pick.tell(np.concatenate([np.ones((1, 6)), np.zeros((pick.size - 1, 6))]))
    pick.tell(np.ones((pick.size, 6)))
