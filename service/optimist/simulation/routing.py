"""Plays routing policies on prompts whose scores are known for every generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import ContextMap, Floats, median_distance
from optimist.numerics.routing.kernel_ridge import KernelRidge
from optimist.numerics.routing.moments import Moments
from optimist.numerics.routing.ridge import Predictor, Published, Regressions
from optimist.policies.routing import RoutePolicy

GROWTH = 0.05
"""The regressions are made again when the samples have grown by this part."""
FEWEST = 3
"""Prompts that each generator gets first, in turn, under our policies; the published ones give one."""


@dataclass(frozen=True, eq=False)
class RouteBed:
    """Prompts in an order of arrival, what each generator scores on them, and what it would score on average."""

    name: str
    contexts: Floats
    """(m, d)."""
    scores: Floats
    """(m, G): what a generator scores if it gets the prompt."""
    expected: Floats
    """(m, G): its expectation, by which regret is measured; the scores themselves where nothing better is known."""
    costs: Floats | None = None
    """(G,)."""


@dataclass(frozen=True, eq=False)
class Routed:
    """One trial."""

    chosen: NDArray[np.int64]
    """(T,): which generator each prompt was given to."""
    probability: Floats
    """(T,): with which it was chosen; NaN where no chance was involved."""
    values: Floats
    """(T,): its expected score less the price of its cost."""
    order: NDArray[np.int64]
    """(T,): the prompts of the bed in the order of their arrival."""
    best: float
    """What the best single generator would have got on average."""
    ideal: float
    """What the best generator for each prompt would have got on average."""

    @property
    def regret(self) -> Floats:
        """Σ (best for the prompt − chosen) up to each prompt, divided by the number of prompts (T,)."""
        return self.ideal - np.cumsum(self.values) / np.arange(1, len(self.values) + 1)

    @property
    def share_of_ideal(self) -> float:
        """The gain over the best single generator as a part of the gain that is possible; 0 is as good as that one."""
        possible = self.ideal - self.best
        return math.nan if possible <= 1e-12 else (float(self.values.mean()) - self.best) / possible


def play(bed: RouteBed, policy: RoutePolicy, *, trial: int = 0, features: int = 128, seed: int = 0) -> Routed:
    """One trial of a policy: prompts come in a random order of (`seed`, `trial`), each is given to one generator.

    The bandwidth is the median distance of all contexts, which the service takes from the first ones.
    """
    order = np.random.default_rng((seed, trial)).permutation(len(bed.contexts))
    contexts, scores = bed.contexts[order], bed.scores[order]
    charged = np.zeros(scores.shape[1]) if bed.costs is None else policy.price * bed.costs
    values = bed.expected[order] - charged
    chosen, probability = _chosen(policy, contexts, scores, values, bed.costs, features, (seed, trial))
    got = values[np.arange(len(order)), chosen]
    return Routed(chosen, probability, got, order, float(values.mean(0).max()), float(values.max(1).mean()))


def _chosen(
    policy: RoutePolicy,
    contexts: Floats,
    scores: Floats,
    values: Floats,
    costs: Floats | None,
    features: int,
    seeds: tuple[int, int],
) -> tuple[NDArray[np.int64], Floats]:
    probability = np.full(len(scores), np.nan)
    if policy.name == "best-single":
        return np.full(len(scores), int(values.mean(0).argmax())), probability
    sigma = median_distance(contexts)
    learner: _Learner
    if policy.name == "pak-ucb":
        learner = _Kernels(contexts, scores, sigma)
    else:
        phi = ContextMap.drawn(contexts.shape[1], features, sigma, seeds[0])(contexts)
        fit: Callable[[Sequence[Moments]], Predictor] = Published.of if policy.is_published else Regressions.of
        learner = _Sums(phi, scores, fit, 0.0 if policy.is_published and features <= 64 else GROWTH)
    first = 1 if policy.is_published else FEWEST
    chosen = np.zeros(len(scores), dtype=np.int64)
    counts = np.zeros(scores.shape[1], dtype=np.int64)
    for t in range(len(scores)):
        if counts.min() < first:
            place = int(counts.argmin())
        else:
            means, widths = learner.predict(t)
            chances = policy.chances(means, widths, costs)
            place = policy.pick(chances, t)
            probability[t] = chances[place] if policy.has_chances else np.nan
        learner.add(t, place)
        counts[place] += 1
        chosen[t] = place
    return chosen, probability


class _Sums:
    """Regressions on features, made again when the samples have grown."""

    def __init__(
        self, phi: Floats, scores: Floats, fit: Callable[[Sequence[Moments]], Predictor], growth: float
    ) -> None:
        self._phi, self._scores, self._fit, self._growth = phi, scores, fit, growth
        self._moments = [Moments.none(phi.shape[1]) for _ in range(scores.shape[1])]
        self._told, self._due, self._start = 0, 0, 0
        self._means: Floats = np.zeros((0, scores.shape[1]))
        self._widths = self._means

    def predict(self, t: int) -> tuple[Floats, Floats]:
        if self._told >= self._due:
            self._due = max(self._told + 1, math.ceil((1.0 + self._growth) * self._told))
            # The prompts until the next regressions at once, which is many times faster.
            block = self._phi[t : t + self._due - self._told]
            self._start, (self._means, self._widths) = t, self._fit(self._moments).predict(block)
        return self._means[t - self._start], self._widths[t - self._start]

    def add(self, t: int, place: int) -> None:
        self._moments[place] += Moments.of(self._phi[t : t + 1], self._scores[t, place : place + 1])
        self._told += 1


class _Kernels:
    """The kernel regressions of PAK-UCB."""

    def __init__(self, contexts: Floats, scores: Floats, bandwidth: float) -> None:
        self._contexts, self._scores = contexts, scores
        self._arms = [KernelRidge(bandwidth) for _ in range(scores.shape[1])]

    def predict(self, t: int) -> tuple[Floats, Floats]:
        known = np.array([arm.predict(self._contexts[t]) for arm in self._arms])
        return known[:, 0], known[:, 1]

    def add(self, t: int, place: int) -> None:
        self._arms[place].add(self._contexts[t], float(self._scores[t, place]))


_Learner = _Sums | _Kernels


def compare(
    bed: RouteBed, policies: Mapping[str, RoutePolicy], *, trials: int = 10, features: int = 128, seed: int = 0
) -> dict[str, list[Routed]]:
    """Every policy in every trial; all policies see the same order of prompts in a trial."""
    return {
        label: [play(bed, policy, trial=trial, features=features, seed=seed) for trial in range(trials)]
        for label, policy in policies.items()
    }
