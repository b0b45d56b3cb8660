"""Keeps a router within a budget: the price of cost by which its allocation costs, or scores, what is asked for.

The price is the dual variable of "the most value at this mean cost". It is not adjusted step by step but found anew for
each pick from sums and the model of contexts, so that every process has the same one (decisions.md, routing).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimist.numerics.routing.features import Floats

SAMPLED = 512
"""Prompts, a uniform sample of those told, on which a model says what allocations cost and score."""
REPAID = 4.0
"""A router makes up for what it has spent above its ceiling, or spends what it has saved, within the prompts that so
many of the dearest generator pay for. With fewer, the price follows single prompts; with more, less is made up for."""
MOST = 2.0
"""Prompts may cost at most so many times the ceiling while a router spends what it has saved, and at least the ceiling
divided by it while it makes up for something: it does not live on the cheapest generator after a few dear prompts."""
RESERVE = 1.0
"""As many prompts of the dearest generator are kept in reserve, so that the ceiling holds after one, too."""


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
    def of(cls, values: Floats, scores: Floats, costs: Floats, floor: float = 0.0) -> Frontier:
        """From arrays (m, G) of m ≥ 1 prompts: values that generators are chosen by, expected scores and costs.

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
        found = float(self.scores[int(np.searchsorted(self.prices, price, side="right")) - 1])
        return found / self.single if self.single > 0.0 else 0.0

    def price_of_ceiling(self, ceiling: float, overspent: float) -> float:
        """The λ by which prompts cost the ceiling on average, less what is to be made up for.

        overspent: by how much prompts have cost more than the ceiling, in all.
        """
        if ceiling >= (1.0 - 1e-9) * self.dearest:
            return 0.0
        part = 1.0 - (overspent / self.dearest + RESERVE) / REPAID
        return self.price_of_cost(ceiling * min(max(part, 1.0 / MOST), MOST))

    def price_of_cost(self, most: float) -> float:
        """The smallest λ by which prompts cost at most so much on average; the largest λ where none does."""
        return float(self.prices[min(int(np.searchsorted(-self.costs, -most)), len(self.prices) - 1)])

    def price_of_score(self, least: float) -> float:
        """The largest λ up to which prompts score at least so much on average; 0 where they never do."""
        enough = np.minimum.accumulate(self.scores) >= least
        return float(self.prices[max(int(enough.sum()) - 1, 0)])
