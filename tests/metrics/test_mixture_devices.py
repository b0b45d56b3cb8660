"""Mixtures on every device: the same as on the CPU, while rows are held and past it, with indices in common."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist.metrics.implementations import Setting, make_metric
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.numerics.mixture import Mixture
from optimist_client.metrics import FID, MMD, RKE, Gaussian, Metric, Vendi
from tests.support.real_rows import score_of
from tests.support.streams import fed, rows_of

KERNEL = Gaussian(2.0, features=10)
METRICS: dict[str, Metric] = {
    "rke": RKE(kernel=KERNEL),
    "vendi": Vendi(kernel=KERNEL),
    "vendi 3": Vendi(kernel=KERNEL, order=3.0),
    "mmd": MMD(kernel=KERNEL),
    "fid": FID(),
}


def mixture_on(device: torch.device | str, declared: Metric, count: int) -> Mixture:
    if "reference" in type(declared).model_fields:
        metric = score_of(declared, rows_of(9, 80, 4), device)
    else:
        metric = make_metric(declared, Setting({"features": 4}, device))
    rows = [rows_of(seed, count, 4, centre) for seed, centre in enumerate((0.0, 0.7, -0.7))]
    statistics = [fed(metric, each, 6) for each in rows]
    return cross_fitted(metric, statistics, ("a", "b", "c"), [{"features": each} for each in rows])


@pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", METRICS)
def test_a_mixture_is_that_on_the_cpu(device: torch.device, name: str, count: int):
    found, expected = (mixture_on(place, METRICS[name], count) for place in (device, "cpu"))
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-5)
    for field in ("value", "error", "gain", "gain_error", "slacks", "slack_errors", "deviations"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-4, atol=1e-5)
