"""What `steady_goal.Steady` learns, with torch, and what simulations know of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from torch import Tensor

from optimist.estimation.learner import Learned, Learner
from optimist.estimation.streaming import StreamingEstimator
from optimist.simulation.judges.best import BestJudge
from optimist_client.config import ExperimentConfig


class Sums(Learned):
    held = ("_sums",)

    def __init__(self) -> None:
        self._sums = np.zeros(3)

    def read(self, scores: Tensor, prompt: Any) -> Tensor:
        return scores

    def add(self, batch: Tensor) -> None:
        self._sums += [len(batch), batch.sum(), batch.square().sum()]

    @property
    def variance(self) -> float:
        count, total, squares = self._sums
        return float(squares / count - (total / count) ** 2)


class SteadyLearner(Learner):
    @classmethod
    def from_config(cls, config: ExperimentConfig) -> Self:
        return cls()

    def learned(self, *, lower_is_better: bool, ordinal: int) -> Sums:
        return Sums()

    def rows(self, estimators: Mapping[int, StreamingEstimator], generators: int) -> dict[int, float]:
        kept = {ordinal: estimator.learned for ordinal, estimator in estimators.items()}
        return {ordinal: one.variance for ordinal, one in kept.items() if isinstance(one, Sums)}

    def model(self, estimators: Mapping[int, StreamingEstimator]) -> bytes:
        return json.dumps(self.rows(estimators, len(estimators))).encode()


class SteadyJudge(BestJudge):
    goal = "steady"
