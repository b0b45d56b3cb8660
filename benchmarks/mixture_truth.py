"""The true loss of mixtures on a benchmark problem by one metric, and its least value: without the measured code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize

from mixture_problems import Floats, Problem
from optimist.metrics.mmd import orthogonal_normals

METRICS = ("rke", "vendi", "vendi-2", "vendi-1.5", "mmd", "fid")


class Loss(Protocol):
    """A convex loss of weights (G,) on the scale of estimates, with its gradient (G,)."""

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        ...


class Entropy:
    """Minus the log Vendi score of the mixture's mean φφᵀ; of order 2 it is −log RKE."""

    def __init__(self, problem: Problem, order: float) -> None:
        self._order = order
        self._seconds = np.stack([law.second(problem.omegas) for law in problem.laws.values()])
        flat = self._seconds.reshape(len(self._seconds), -1)
        self.products = flat @ flat.T

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        if self._order == 2.0:
            image = self.products @ weights
            square = float(weights @ image)
            return math.log(square), 2.0 * image / square
        blend = np.tensordot(weights, self._seconds, 1)
        values, vectors = np.linalg.eigh(blend)
        values = values.clip(1e-300)
        if self._order == 1.0:
            loss, slope = float(values @ np.log(values)), np.log(values) + 1.0
        else:
            power = float((values**self._order).sum())
            scale = 1.0 / (self._order - 1.0)
            loss, slope = scale * math.log(power), scale * self._order * values ** (self._order - 1.0) / power
        # The slope is infinite where the mixture has nothing; nothing has weight there in any generator either.
        image = (vectors * slope) @ vectors.T
        return loss, np.tensordot(self._seconds, image, 2)


class Discrepancy:
    """‖Σ α_i m_i − m_r‖² − `excess`."""

    def __init__(self, problem: Problem) -> None:
        # MMD draws its frequencies in another way than RKE.
        omegas = orthogonal_normals(problem.dimension, problem.features, 0) / problem.sigma
        firsts = [np.concatenate(law.waves(omegas)) for law in problem.laws.values()]
        self._firsts = np.stack(firsts) / math.sqrt(problem.features)
        angles = problem.real_rows @ omegas
        real = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(problem.features)
        self._real, rows = real.mean(0), len(real)
        # The reference's own sampling error, of which the unbiased score is free.
        self._excess = float((1.0 - self._real @ self._real) / (rows - 1))

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        apart = weights @ self._firsts - self._real
        return float(apart @ apart) - self._excess, 2.0 * self._firsts @ apart


class Frechet:
    """The Fréchet distance of the mixture's mean and covariance from those of the real rows (1/(n − 1))."""

    def __init__(self, problem: Problem) -> None:
        pairs = [law.moments for law in problem.laws.values()]
        self._means = np.stack([mean for mean, _ in pairs])
        self._squares = np.stack([covariance + np.outer(mean, mean) for mean, covariance in pairs])
        self.mean, self.covariance = problem.real_rows.mean(0), np.cov(problem.real_rows, rowvar=False)
        values, vectors = np.linalg.eigh(self.covariance)
        self._root = (vectors * np.sqrt(values.clip(0.0))) @ vectors.T

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        mean = weights @ self._means
        covariance = np.tensordot(weights, self._squares, 1) - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(self._root @ covariance @ self._root)
        values = values.clip(1e-12 * values[-1])
        apart = mean - self.mean
        loss = float(apart @ apart + covariance.trace() + self.covariance.trace() - 2.0 * np.sqrt(values).sum())
        inverse = self._root @ (vectors / np.sqrt(values)) @ vectors.T @ self._root
        along = np.eye(len(mean)) - inverse
        slope = np.tensordot(self._squares, along, 2) - 2.0 * self._means @ (along @ mean)
        return loss, slope + 2.0 * self._means @ apart


def loss_of(problem: Problem, metric: str) -> Loss:
    """The true loss of a problem by a metric, one of `METRICS`."""
    if metric == "fid":
        return Frechet(problem)
    if metric == "mmd":
        return Discrepancy(problem)
    return Entropy(problem, {"rke": 2.0, "vendi": 1.0}.get(metric) or float(metric.partition("-")[2]))


@dataclass(frozen=True)
class Truth:
    """What is true of the mixtures of a problem."""

    loss: Loss
    generators: int
    is_log: bool
    """Whether the loss is a logarithm, so that a share of it is its exponential's."""

    @classmethod
    def of(cls, problem: Problem, metric: str) -> Truth:
        """The true mixture of a problem by a metric."""
        return cls(loss_of(problem, metric), len(problem.generators), metric not in ("fid", "mmd"))

    @cached_property
    def weights(self) -> Floats:
        """The best weights."""
        found: list[Any] = []
        for start in (
            np.full(self.generators, 1.0 / self.generators),
            *(np.eye(self.generators) * 0.9 + 0.1 / self.generators),
        ):
            start = start / start.sum()
            found.append(
                minimize(
                    self.loss,
                    start,
                    jac=True,
                    bounds=[(0.0, 1.0)] * self.generators,
                    constraints={"type": "eq", "fun": lambda a: a.sum() - 1.0, "jac": np.ones_like},
                    method="SLSQP",
                    options={"ftol": 1e-15, "maxiter": 500},
                )
            )
        best = np.clip(min(found, key=lambda each: each.fun).x, 0.0, 1.0)
        return best / best.sum()

    @cached_property
    def least(self) -> float:
        """The least loss."""
        return self.loss(self.weights)[0]

    @cached_property
    def singles(self) -> Floats:
        """The loss of each generator alone (G,)."""
        return np.array([self.loss(alone)[0] for alone in np.eye(self.generators)])

    def excess(self, weights: Floats) -> float:
        """Loss above the least one."""
        return self.loss(weights)[0] - self.least

    def share(self, weights: Floats) -> float:
        """The same as a share of the least loss; of a logarithm, of that of which it is."""
        excess = self.excess(weights)
        return math.expm1(excess) if self.is_log else excess / self.least

    def gain(self, weights: Floats) -> float:
        """By how much the loss is below that of the best single generator."""
        return float(self.singles.min()) - self.loss(weights)[0]
