"""The choice of a generator for a prompt, by the scores that are expected on it, and within a budget
(rules/routing.md).

A router keeps its budget by a price of cost: the dual variable of "the most value at this mean cost". The price is not
adjusted step by step. It is found anew for each pick from sums and the model of contexts, so that every process has the
same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from optimist.arrays import Floats
from optimist.policies.mixture_policy import drawn
from optimist.policies.policy import Draws
from optimist.routing.answers.model import best_chances
from optimist_client.config import ExperimentConfig
from optimist_client.errors import FixError
from optimist_client.goals import BestRoutes, check_pace

SAMPLED = 512
"""Prompts, a uniform sample of those recorded, on which a model says what allocations cost and score."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """The allocations of sampled prompts that maximise value − λ · cost, from λ = 0 to the cheapest one.

    Each step gives one prompt to a cheaper generator: (k,) arrays have the price λ from which it is better, ascending,
    and the mean cost and score of a prompt from there on. The first entry is of λ = 0.
    """

    prices: Floats
    costs: Floats
    """Not increasing."""
    scores: Floats
    single: float
    """The largest mean score of one generator on the same prompts."""
    dearest: float
    """The largest mean cost of one generator."""

    @classmethod
    def from_values(cls, values: Floats, scores: Floats, costs: Floats, floor: float = 0.0) -> Frontier:
        """The frontier of m ≥ 1 prompts, by arrays (m, G): values that generators are chosen by, expected scores and
        costs.

        floor: part of the prompts that all generators share evenly, whatever λ is.
        """
        rows, count = np.arange(len(values)), len(values)
        chosen = values.argmax(1)
        cost, score = costs[rows, chosen].mean(), scores[rows, chosen].mean()
        prices, saved, lost = [np.zeros(1)], [np.zeros(1)], [np.zeros(1)]
        passed = np.zeros(count)
        while len(rows):
            # The next price at which each prompt goes to a cheaper generator.
            cheaper = costs[rows, chosen][:, None] - costs[rows]
            worse = values[rows, chosen][:, None] - values[rows]
            ratio = np.divide(worse, cheaper, out=np.full(cheaper.shape, np.inf), where=cheaper > 0.0)
            following = ratio.argmin(1)
            price = ratio[np.arange(len(rows)), following]
            goes = np.isfinite(price)
            rows, chosen, following = rows[goes], chosen[goes], following[goes]
            passed = np.maximum(price[goes], passed[goes])  # rounding
            prices.append(passed)
            saved.append(costs[rows, chosen] - costs[rows, following])
            lost.append(scores[rows, chosen] - scores[rows, following])
            chosen = following
        order = np.argsort(np.concatenate(prices), kind="stable")
        even = floor * costs.mean(), floor * scores.mean()
        return cls(
            np.concatenate(prices)[order],
            even[0] + (1.0 - floor) * (cost - np.cumsum(np.concatenate(saved)[order]) / count),
            even[1] + (1.0 - floor) * (score - np.cumsum(np.concatenate(lost)[order]) / count),
            float(scores.mean(0).max()),
            float(costs.mean(0).max()),
        )

    def kept(self, price: float) -> float:
        """The part of the best single generator's mean score that prompts keep at this λ; 0 unless it is above 0."""
        score = float(self.scores[int(np.searchsorted(self.prices, price, side="right")) - 1])
        return score / self.single if self.single > 0.0 else 0.0

    def price_of_ceiling(
        self, ceiling: float, overspent: float, *, repaid: float = 4.0, reserve: float = 1.0, at_most: float = 2.0
    ) -> float:
        """The λ by which prompts cost the ceiling on average, less what is to be made up for.

        overspent: by how much prompts have cost more than the ceiling, in all. It is made up for, and what was saved is
        spent, within the prompts that `repaid` of the dearest generator pay for. With fewer, the price follows single
        prompts; with more, less is made up for. reserve: prompts of the dearest generator that are kept in reserve, so
        that the ceiling holds after one, too. at_most: prompts may cost so many times the ceiling while a router spends
        what it has saved, and at least the ceiling divided by it while it makes up for something: it does not live on
        the cheapest generator after a few dear prompts.
        """
        if ceiling >= (1.0 - 1e-9) * self.dearest:
            return 0.0
        part = 1.0 - (overspent / self.dearest + reserve) / repaid
        return self.price_of_cost(ceiling * min(max(part, 1.0 / at_most), at_most))

    def price_of_cost(self, max_cost: float) -> float:
        """The smallest λ by which prompts cost at most so much on average; the largest λ where none does."""
        return float(self.prices[min(int(np.searchsorted(-self.costs, -max_cost)), len(self.prices) - 1)])

    def price_of_score(self, min_score: float) -> float:
        """The largest λ up to which prompts score at least so much on average; 0 where they never do."""
        enough = np.minimum.accumulate(self.scores) >= min_score
        return float(self.prices[max(int(enough.sum()) - 1, 0)])


POLICIES = (*BestRoutes.policies, "pak-ucb")


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """Chooses a generator for one context: a pure function of the predictions, the seed and the number.

    `price` is λ: a generator is worth its expected score minus λ times its cost. `rff-ucb` and `pak-ucb` are as
    published; their predictions are `PublishedRidge` or `KernelRidge`, whose widths have no unit. `promptwise` has the
    published index, but of the regressions of `rff-ucb`, where the paper has logistic ones.
    """

    name: str = "optimistic"
    price: float = 0.0
    floor: float = 0.02
    """Probability that `optimistic` shares among all generators, so that every probability is known and above 0."""
    bonus: float = 0.2
    """Widths that `optimistic` adds to each value: a generator gets the prompts on which it may be the best one."""
    blur: float = 0.1
    """Widths that remain as a standard deviation about it, so that those nearly as good have probabilities, too."""
    seed: int = 0
    rounds: int = 1000
    """T, which the width of `pak-ucb` depends on."""
    tries: int = 1
    """τ: a generator is called until it succeeds, at most so often, and scores are successes. Our policies then compare
    what all calls are worth; the published ones have an index of their own."""
    ceiling: float | None = None
    """The most that a prompt may cost on average."""
    at_least: float | None = None
    """The part of the best single generator's mean score that is kept, at the least cost."""

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise FixError(f"unknown policy {self.name!r}; expected one of {', '.join(POLICIES)}")
        check_pace(self.name, self.ceiling, self.at_least, self.price)
        if not 0.0 <= self.price < math.inf:
            raise FixError(f"price: expected a number of at least 0, got {self.price}")
        if not 0.0 <= self.floor <= 1.0:
            raise FixError(f"floor: expected a probability, got {self.floor}")

    @classmethod
    def from_config(cls, config: ExperimentConfig) -> RoutePolicy:
        """The policy of an experiment with the goal "route"."""
        # Calls until success are worth something else than one call; other scores have no success.
        is_success = config.metric.limits.get("values") == (0.0, 1.0) and not config.metric.lower_is_better
        return cls(
            config.policy,
            config.price,
            seed=config.seed,
            tries=config.tries if is_success else 1,
            ceiling=config.ceiling,
            at_least=config.at_least,
        )

    @property
    def is_published(self) -> bool:
        """True if it goes by the published regressions."""
        return self.name in ("rff-ucb", "pak-ucb", "promptwise")

    @property
    def has_chances(self) -> bool:
        """True if every generator has a probability above 0."""
        return self.name == "uniform" or (self.name == "optimistic" and self.floor > 0.0)

    @property
    def keeps_budget(self) -> bool:
        """True if the price is found so that a budget is kept."""
        return self.ceiling is not None or self.at_least is not None

    def frontier(self, means: Floats, widths: Floats, costs: Floats) -> Frontier:
        """The `Frontier` of this policy's allocations, from means and widths (m, G) on m ≥ 1 prompts, costs (G,)."""
        spent = np.broadcast_to(costs, means.shape)
        if self.tries > 1:
            spent = spent * calls_of(means, self.tries)
            upper, lower = (1.0 - (1.0 - _probable(each)) ** self.tries for each in (means + widths, means - widths))
            means, widths = 1.0 - (1.0 - _probable(means)) ** self.tries, 0.5 * (upper - lower)
        values = means
        if self.name == "ucb":
            values = means + widths
        elif self.name == "optimistic":
            # One draw for each prompt: their mean is the mean of the chances.
            values = means + (self.bonus + self.blur * np.random.default_rng(0).standard_normal(means.shape)) * widths
        return Frontier.from_values(values, means, spent, self.floor if self.has_chances else 0.0)

    def paced(self, frontier: Frontier, overspent: float = 0.0) -> RoutePolicy:
        """This policy with the price that keeps the budget, at least its own: a pure function of frontier and
        `overspent`.

        overspent: as in `Frontier.price_of_ceiling`.
        """
        if self.ceiling is not None:
            return replace(self, price=max(self.price, frontier.price_of_ceiling(self.ceiling, overspent)))
        if self.at_least is not None:
            return replace(self, price=frontier.price_of_score(self.at_least * frontier.single), at_least=None)
        return self

    def chances(self, means: Floats, widths: Floats, costs: Floats | None = None) -> Floats:
        """The probability (G,) of each generator, from means and widths (G,) of its score. One-hot without chance."""
        count = len(means)
        values = means if costs is None else means - self.price * costs
        if self.tries > 1 and not self.is_published:
            values, widths = self._after_tries(means, widths, np.zeros(count) if costs is None else costs)
        if self.name == "uniform":
            return np.full(count, 1.0 / count)
        if self.name == "optimistic":
            # Scores of any size: those that are all the same have no error.
            rounding = max(1e-12 * float(np.abs(values).max()), 1e-100)
            return best_chances(values + self.bonus * widths, np.maximum(self.blur * widths, rounding), self.floor)
        return np.eye(count)[int(np.argmax(self._index(values, means, widths, costs)))]

    def pick(self, chances: Floats, number: int) -> int:
        """The index that the chances (G,) give to pick `number`; its random number depends only on (seed, number)."""
        if chances.max() == 1.0:
            return int(np.argmax(chances))
        return drawn(chances, Draws(self.seed, number).uniform())

    def _after_tries(self, means: Floats, widths: Floats, costs: Floats) -> tuple[Floats, Floats]:
        """Values and their widths (G,) of calling until success, which grow with the probability of success."""
        middle, above, below = (
            values_of_tries(success, costs, self.price, self.tries)
            for success in (means, means + widths, means - widths)
        )
        return middle, 0.5 * (above - below)

    def _index(self, values: Floats, means: Floats, widths: Floats, costs: Floats | None) -> Floats:
        count, delta = len(means), 0.05  # δ of the published widths
        if self.name == "ucb":
            return values + widths
        if self.name == "rff-ucb":
            return values + math.sqrt(2.0 * math.log(2.0 * count / delta)) * widths
        if self.name == "pak-ucb":
            return values + math.sqrt(2.0 * math.log(2.0 * self.rounds * count / delta)) * widths
        if self.name == "promptwise":
            eta = math.sqrt(2.0 * math.log(2.0 * count / delta))
            return reservation_index(means + eta * widths, np.zeros(count) if costs is None else costs, self.price)
        return values


def reservation_index(success: Floats, costs: Floats, price: float) -> Floats:
    """u = 1 − λc/q (G,): what calling a generator until success is worth in the limit (PromptWise, arXiv 2505.18901).

    success: probabilities q, clipped to (0, 1]. Below 0 a call costs more than it brings.
    """
    return 1.0 - price * costs / np.clip(success, 1e-12, 1.0)


def values_of_tries(success: Floats, costs: Floats, price: float, tries: int) -> Floats:
    """The expected success (G,) minus λ times the cost of calling each generator until success, at most `tries` times:
    (1 − (1 − q)^τ)(1 − λc/q). success: probabilities q, clipped to (0, 1]."""
    q = _probable(success)
    return (1.0 - (1.0 - q) ** tries) * (1.0 - price * costs / q)


def calls_of(success: Floats, tries: int) -> Floats:
    """The expected calls until success, at most `tries`: (1 − (1 − q)^τ)/q."""
    q = _probable(success)
    return (1.0 - (1.0 - q) ** tries) / q


def _probable(success: Floats) -> Floats:
    return np.clip(success, 1e-9, 1.0)
