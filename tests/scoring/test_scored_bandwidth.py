"""The scorer fixes the bandwidth "median" as `Evaluation` does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optimist import Evaluation
from optimist.store import EmbeddedRedis, open_store
from optimist_client import tensors
from tests.support.made import scoring, settled

KERNEL = {"name": "gaussian", "sigma": "median", "features": 32}
SCALES = {"g0": 1.0, "g1": 1e29}


@pytest.mark.filterwarnings("ignore:values over")
async def test_a_generator_that_is_absurd(make, server: EmbeddedRedis):
    made = await make(metric="rke", dimension=4, kernel=KERNEL)
    evaluation = Evaluation(list(SCALES), metric="rke", kernel=KERNEL, max_magnitude=1e40)
    for place, (name, scale) in enumerate(SCALES.items()):
        rng = np.random.default_rng(place)
        for _ in range(4):
            batch = scale * rng.standard_normal((40, 4))
            await made.tell(place, {"features": batch})
            evaluation.tell(name, batch)
    async with open_store(server.url) as store, scoring(store):
        stored = await settled(made)
    fitted = await made.fitted()
    assert fitted is not None
    sigma = float(tensors.decode(fitted)["kernel.sigma"][0])
    assert sigma == evaluation._primary.question.kernels["kernel"].sigma
    estimates = {name: json.loads(stored.generators[place].primary.estimate) for place, name in enumerate(SCALES)}
    for name, estimate in evaluation.estimates().items():
        assert estimate is not None
        assert estimates[name]["value"] == pytest.approx(estimate.value, rel=1e-12, abs=1e-12)
    assert 1.0 < sigma < 5.0
    assert np.exp(estimates["g0"]["value"]) > 1.5
