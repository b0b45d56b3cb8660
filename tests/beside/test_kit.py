"""The kit for metrics: those of the project and the toy pass it, and each promise that is broken is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import toy_score
from toy_metric import ColumnMean
from toy_shift import ColumnShift

from optimist.metrics.base import Analysis
from optimist.testing import BrokenPromises, check_metric
from optimist_client.metrics import (
    CMMD,
    FID,
    KEN,
    KID,
    MMD,
    RKE,
    ConditionalVendi,
    Coverage,
    Density,
    Gaussian,
    InceptionScore,
    InformationVendi,
    Mean,
    Metric,
    Precision,
    Vendi,
    WinRate,
    declared,
)

KERNEL = Gaussian(2.0, features=32)
PAIRS: dict[str, Any] = {"kernel": KERNEL, "prompt_kernel": KERNEL, "dimension": 4, "prompt_dimension": 4}
METRICS: list[Metric] = [
    FID(),
    InceptionScore(dimension=5),
    RKE(kernel=KERNEL, dimension=4),
    Vendi(kernel=KERNEL, dimension=4),
    KID(),
    MMD(kernel=KERNEL),
    CMMD(),
    Precision(),
    Density(),
    Coverage(at=200),
    KEN(kernel=KERNEL),
    ConditionalVendi(**PAIRS),
    InformationVendi(**PAIRS),
    Mean(),
    WinRate(),
    ColumnMean(dimension=4, column=3),
    ColumnShift(column=1),
]


def test_every_metric_of_the_project_is_in_this_table():
    own = {name for name, kind in declared().items() if kind.__module__.startswith("optimist_client.")}
    assert own <= {metric.name for metric in METRICS}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_metrics_keep_what_the_service_relies_on(metric: Metric):
    found = check_metric(metric)
    assert found.coverage >= 0.85
    assert metric.title in str(found)


def test_a_law_with_its_truth():
    def law(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        return {"features": rng.exponential(2.0, size=(count, 3))}

    found = check_metric("column-mean", law, truth=2.0, dimension=3, column=1)
    assert found.truth == 2.0
    with pytest.raises(BrokenPromises, match=r"are off by -\d+\.\d+ of their errors on average"):
        check_metric("column-mean", law, truth=3.0, dimension=3, column=1)


def test_settings_that_are_not_valid_are_refused_as_everywhere():
    with pytest.raises(ValueError, match="needs kernel"):
        check_metric("rke", dimension=4)
    with pytest.raises(ValueError, match="it does not take order"):
        check_metric("fid", order=2.0)


def _splits(self: toy_score.Sums, rows: torch.Tensor) -> None:
    """Batches count, not samples."""
    values = rows[:, self.column]
    self.sums = self.sums + torch.stack([values.mean(), values.square().mean()]) * 2.0
    self.samples += len(rows)


def _forgetful(self: toy_score.Sums, tensors: dict[str, torch.Tensor]) -> toy_score.Sums:
    self.sums = tensors["sums"]
    return self


def _lossy(self: toy_score.Sums, tensors: dict[str, torch.Tensor]) -> toy_score.Sums:
    self.samples, self.sums = int(tensors["samples"]), tensors["sums"].float().double()
    return self


def _analysing(errors: float = 1.0, bias: float = 0.0, least: int = 2) -> Any:
    """An analysis with errors so many times as large, off by `bias` over n, and undefined below `least` samples."""

    def analyse(self: Any, statistic: toy_score.Sums, common: object = None) -> Analysis:
        n = statistic.samples
        mean, square = (statistic.sums / n).tolist()
        error = errors * (max(square - mean**2, 0.0) / (n - 1)) ** 0.5
        estimate = float("nan") if n < least else mean + bias / n
        return Analysis(plug_in=mean, estimate=estimate, selection_error=error, stopping_error=error)

    return analyse


@pytest.mark.parametrize(
    ("of", "method", "broken", "said"),
    [
        ("Sums", "update", _splits, "in 300 batches the value of the same samples is"),
        ("Sums", "restore", _forgetful, "read again has 0 samples in place of 100"),
        ("Sums", "restore", _lossy, "stored and read goes on to another state"),
        ("MeanScore", "analyse", _analysing(errors=0.2), "errors are too small"),
        ("MeanScore", "analyse", _analysing(bias=20.0), "of their errors on average"),
        ("MeanScore", "analyse", _analysing(least=5), "2 samples have no estimate"),
    ],
)
def test_each_promise_that_is_broken_is_named(
    of: str, method: str, broken: Any, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(getattr(toy_score, of), method, broken)
    with pytest.raises(BrokenPromises, match="Column mean does not keep") as raised:
        check_metric(ColumnMean(dimension=4, column=3))
    assert said in str(raised.value)
