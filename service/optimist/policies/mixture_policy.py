"""A policy of the goal "mixture": first a warm-up, then a rule that samples generators as the best mixture needs them.

One rule is ours, and three are published: Mixture-UCB-CAB and Mixture-UCB-OGD (Rezaei, Farnia and Li 2025, algorithms 1
and 2) and Mixture-Greedy (Dibaei Nia and Farnia 2026). equations.md names what the authors' code does otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimist.arrays import Floats
from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Quadratic, best_weights
from optimist.policies.arms import Arm, active_among, prices
from optimist.policies.policy import Draws, fewest_samples
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping
from optimist.records import MIN_MIXED
from optimist_client.errors import FixError
from optimist_client.metrics import Metric


@dataclass(frozen=True, slots=True)
class Ranges:
    """The constants of the published bonus."""

    kernel: float
    """Δ_κ, the range (sup − inf) of the kernel."""
    loss: float
    """Δ_L, the sensitivity of the loss: 2 Δ_κ + Δ_f, Δ_f the range of the linear part."""

    @classmethod
    def from_metric(cls, metric: Metric) -> Ranges | None:
        """The constants of a metric whose loss is quadratic with a kernel between 0 and 1; None for others.

        RKE has (1, 2); MMD with a factor c has (c, 4c), as Δ_f = 2c.
        """
        if metric.name == "rke":
            return cls(1.0, 2.0)
        factor = metric.setting("factor")
        return None if factor is None else cls(factor, 4.0 * factor)

    def bonus(self, samples: Floats, beta: float = 1.0) -> Floats:
        """ε_i = Δ_L √(β log t/(2 n_i)) + Δ_κ/n_i of samples (G,), at least 1 each, t their sum."""
        width = np.sqrt(beta * math.log(max(float(samples.sum()), 1.0)) / (2.0 * samples))
        return self.loss * width + self.kernel / samples


def optimistic_weights(model: Quadratic, bonus: Floats) -> Floats:
    """The weights (G,) of the least αᵀKα + fᵀα − εᵀα, as of CAB; with ε = 0 as of Mixture-Greedy."""
    return best_weights(Quadratic(model.matrix, model.linear - bonus, model.constant))


def drawn(weights: Floats, uniform: float) -> int:
    """The index that a number from [0, 1) selects by the inverse distribution function of the weights (G,)."""
    ends = np.cumsum(weights)
    index = int(np.searchsorted(ends, uniform * float(ends[-1]), side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))


def steepest(
    model: Quadratic,
    samples: Floats,
    bonus: Floats,
    able: Sequence[int] | None = None,
    costs: Sequence[float] | None = None,
) -> int:
    """The index of the generator that is sampled next: of the least h_i − ε_i, the first of equals.

    h is the gradient of the loss at the shares of the samples (G,) so far. It is Mixture-UCB-OGD with the published
    bonus, and our rule with standard errors instead. able: the indices to choose from; None: all. costs: of a
    sample in each of these; then chosen is the largest (h̄ − h_i + ε_i)/c_i, h̄ the mean of h by the shares, which is
    how fast the loss falls by what is spent.
    """
    shares = samples / samples.sum()
    gradient = model.gradient(shares)
    slopes = gradient - bonus
    able = range(len(slopes)) if able is None else able
    if costs is not None:
        gains = [float(shares @ gradient - slopes[index]) for index in able]
        if max(gains) > 0.0:
            rates = [gain / cost for gain, cost in zip(gains, costs, strict=True)]
            return able[rates.index(max(rates))]
    return min(able, key=lambda index: slopes[index])


def blend_counts(weights: Sequence[float], credits: Sequence[float], size: int) -> tuple[list[int], list[float]]:
    """The counts (G,), which sum to `size`, and the credits (G,) to go on with.

    A credit is by how many samples a generator is behind its share of all that were handed out; at first 0. It grows
    by weight · size, and falls by the count. The whole parts are handed out, and the rest to those whose next sample
    is due first: the one whose credit would be 1 first. Credits then stay between −1 and 1 for as long as the weights
    are the same (the earliest deadline first keeps every quota: Tijdeman 1980). By the largest remainder they may leave
    it: 1.08 was seen.

    Raises FixError unless weights are at least 0 with a positive sum, and `size` is at least 0.
    """
    total = math.fsum(weights)
    if size < 0 or not 0.0 < total < math.inf or min(weights) < 0.0:
        raise FixError(f"expected weights of at least 0 and a size of at least 0, got {list(weights)} and {size}")
    shares = [weight / total for weight in weights]
    owed = [credit + share * size for credit, share in zip(credits, shares, strict=True)]
    counts = [max(0, math.floor(credit)) for credit in owed]
    able = [index for index, share in enumerate(shares) if share > 0.0]

    def due(index: int) -> tuple[bool, float]:
        # Nothing is due of a generator that is ahead, while another one is behind.
        left = owed[index] - counts[index]
        return left <= 0.0, (1.0 - left) / shares[index]

    # Where the weights have changed, whole parts may be too many.
    while sum(counts) > size:
        counts[min((i for i, count in enumerate(counts) if count), key=lambda i: owed[i] - counts[i])] -= 1
    while sum(counts) < size:
        counts[min(able, key=due)] += 1
    return counts, [credit - count for credit, count in zip(owed, counts, strict=True)]


_WITH_RANGES = ("mixture-ucb-cab", "mixture-ucb-ogd")


@dataclass(frozen=True, slots=True)
class MixturePolicy:
    """Chooses the next pick: a pure function of (arms, mixture, told, round, seed).

    `warmup` is in batches per generator. The published policies go by mixtures with the published model
    (`goes_by_published`). Random numbers depend only on (`seed`, round).
    """

    name: str
    warmup: int
    stopping: Stopping
    seed: int = 0
    ranges: Ranges | None = None
    """The constants of the metric; only the policies `mixture-ucb-…` need them."""

    def __post_init__(self) -> None:
        if self.name in _WITH_RANGES and self.ranges is None:
            raise FixError(f"policy {self.name!r} is for metrics whose loss is quadratic: rke, mmd and cmmd")

    @classmethod
    def from_metric(cls, name: str, metric: Metric, warmup: int, stopping: Stopping, seed: int = 0) -> MixturePolicy:
        """The policy with the constants of the metric. Raises FixError if it is not for this metric."""
        return cls(name, warmup, stopping, seed, Ranges.from_metric(metric))

    @property
    def goes_by_published(self) -> bool:
        """True if mixtures are to be made with the published model (`Mixture.model`)."""
        return self.name.startswith("mixture-")

    def pick(self, arms: Sequence[Arm], mixture: Mixture | None, told: int, round_: int) -> int:
        """Position in `arms`, the contenders, of the generator to sample in round `round_`, after `told` batches.

        A generator that the mixture does not know yet has its warm-up first, and then waits for a new mixture. Raises
        FixError if no arm is active.
        """
        active = active_among(arms)
        new = [i for i in active if self._is_new(arms[i])]
        if new:
            return min(new, key=lambda i: (arms[i].all_batches, arms[i].all_samples))
        names = () if mixture is None else frozenset(mixture.generators)
        able = [i for i in active if arms[i].name in names]
        if mixture is None or not able or self.name == "uniform":
            return active[fewest_samples([arms[i] for i in active])]
        if self.goes_by_published:
            return able[self._published([arms[i] for i in able], mixture, round_)]
        return self._followed(arms, mixture, told, able)

    def _is_new(self, arm: Arm) -> bool:
        return arm.all_batches < self.warmup or arm.all_samples < MIN_MIXED

    def _published(self, arms: Sequence[Arm], mixture: Mixture, round_: int) -> int:
        """The index that a published rule samples, by the active arms and their samples, recorded and open."""
        model = _model(mixture, _places(arms, mixture))
        samples = _samples(arms)
        bonus = np.zeros(len(arms)) if self.ranges is None else self.ranges.bonus(samples)
        if self.name == "mixture-ucb-ogd":
            return steepest(model, samples, bonus)
        weights = optimistic_weights(model, np.zeros(len(arms)) if self.name == "mixture-greedy" else bonus)
        return drawn(weights, Draws(self.seed, round_).uniform())

    def _followed(self, arms: Sequence[Arm], mixture: Mixture, told: int, able: Sequence[int]) -> int:
        """Our rule: `steepest` with the standard errors of the gradient's entries, at the shares of all contenders.

        Once no slack keeps the stopping rule from its decision but for errors, it is sampled what still does: first a
        generator with few samples, and entries count with as many errors as the stopping rule needs.
        """
        names = frozenset(mixture.generators)
        mixed = [i for i, arm in enumerate(arms) if arm.name in names]
        indices = _places([arms[i] for i in mixed], mixture)
        samples = _samples([arms[i] for i in mixed])
        errors: Floats = np.array(mixture.deviations)[indices] / np.sqrt(samples)
        tolerated = self.stopping.tolerated_of(mixture.value, mixture.scale)
        if mixture.gap_bound(1.0) <= tolerated:
            rarest = able[fewest_samples([arms[i] for i in able])]
            if arms[rarest].all_samples < FEWEST_SAMPLES:
                return rarest
            needed = self.stopping.threshold(len(mixed), told)
            errors = errors * (needed if mixture.gap_bound(needed) > tolerated else 1.0)
        costs = prices([arms[i] for i in able])
        within = {i: index for index, i in enumerate(mixed)}
        return mixed[steepest(_model(mixture, indices), samples, errors, [within[i] for i in able], costs)]


def _places(arms: Sequence[Arm], mixture: Mixture) -> list[int]:
    """The indices of these arms in the mixture."""
    positions = {name: index for index, name in enumerate(mixture.generators)}
    return [positions[arm.name] for arm in arms]


def _model(mixture: Mixture, indices: list[int]) -> Quadratic:
    """The model of the loss of mixtures of these generators alone."""
    return mixture.model if indices == list(range(len(mixture.generators))) else mixture.model.restricted_to(indices)


def _samples(arms: Sequence[Arm]) -> Floats:
    return np.array([float(arm.all_samples) for arm in arms])
