"""The experiments of the runs: one per metric; every batch is a function of its pick; and replay of a log in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from optimist.estimates.estimate import Estimate, natural
from optimist.local.evaluation import Evaluation
from optimist_client import tensors
from optimist_client.metrics import RKE, Cosine, Gaussian, Metric, Vendi

GENERATORS = ("a", "b", "c")
BATCH = 5
Replayed = tuple[int, int, int | None, range]
"""Size, seed and start of a batch, no start where its samples have no index; and which of its rows count."""


@dataclass(frozen=True)
class Question:
    """An experiment: its metric, and how its generators sample."""

    name: str
    metric: str
    dimension: int
    kernel: dict[str, Any] | None = None
    watch: tuple[Metric, ...] = ()
    """Further metrics of its features."""

    def batch(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The samples of a pick, which depend only on the pick: {tensor: (size, dimension) float64}."""
        rng = np.random.default_rng([GENERATORS.index(generator), seed])
        step = 0.3 * GENERATORS.index(generator)
        rows = rng.standard_normal((size, self.dimension))
        if self.metric != "is":
            return {"features": rows * (1.0 + step) + step}
        logits = np.exp(rows * (1.0 + step))
        return {"probabilities": logits / logits.sum(axis=1, keepdims=True)}

    def body(self, generator: str, size: int, seed: int) -> bytes:
        """The samples as a worker sends them."""
        return tensors.encode(self.batch(generator, size, seed))

    @property
    def reference(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean (d,) and covariance (d, d) of the real data, for FID."""
        return (np.zeros(self.dimension), np.eye(self.dimension)) if self.metric == "fid" else None

    def config(self, **given: Any) -> dict[str, Any]:
        """The experiment as the service expects it."""
        asked: dict[str, Any] = {} if self.metric == "mean" else {"dimension": self.dimension}
        asked = {"reference": f"{self.name}-reference"} if self.metric == "fid" else asked
        kernel = {} if self.kernel is None else {"kernel": self.kernel}
        return {
            "name": self.name,
            "generators": list(GENERATORS),
            "metric": {"name": self.metric, **asked, **kernel},
            "batch_size": BATCH,
            "stop": False,
            **({"watch": [metric.model_dump(mode="json") for metric in self.watch]} if self.watch else {}),
            **given,
        }

    def replay(
        self, log: Mapping[str, Sequence[Replayed]], growth: float
    ) -> dict[str | None, dict[str, Estimate | None]]:
        """The latest due estimate of each generator, from its batches in log order, computed in memory.

        By the label of each watched metric, and by None for the one that decides.
        """
        torch.set_num_threads(1)  # more threads would wait for each other on a busy machine
        evaluation = Evaluation(
            list(GENERATORS),
            metric=self.metric,
            reference=self.reference,
            kernel=self.kernel,
            watch=self.watch,
            rescore_growth=growth,
        )
        for generator, batches in log.items():
            for size, seed, start, rows in batches:
                batch = {
                    name: array[rows.start : rows.stop] for name, array in self.batch(generator, size, seed).items()
                }
                evaluation.tell(generator, batch, start=None if start is None else start + rows.start)
        return {None: evaluation.estimates(), **evaluation.watched}


QUESTIONS = (
    Question("fid", "fid", 16, watch=(RKE(kernel=Gaussian(sigma=4.0, features=16)), Vendi(kernel=Cosine()))),
    Question("is", "is", 10),
    Question("rke", "rke", 4, {"name": "gaussian", "sigma": 2.0, "features": 32, "seed": 0}),
)


def relative_differences(standing: Mapping[str, Any], estimate: Estimate) -> dict[str, float]:
    """The differences between a report's standing and an estimate, relative to the larger of 1 and their size."""
    error = estimate.stopping_error
    assert error is not None, "the influence bound has one"
    expected = {
        "score": estimate.score,
        "standard_error": error * (estimate.score if estimate.scale == "log" else 1.0),
        "lower": natural(estimate.lower, estimate.scale),
        "upper": natural(estimate.upper, estimate.scale),
    }
    return {
        name: abs(float(standing[name]) - value) / max(1e-300, abs(value), abs(float(standing[name])))
        for name, value in expected.items()
    }
