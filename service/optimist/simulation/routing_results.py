"""What routing policies get on a table of scores, as rows for people and for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optimist.numerics.routing.features import Floats
from optimist.policies.routing import RoutePolicy
from optimist.routing_gain.outcomes import ScoredPrompts
from optimist.simulation.routing import RoutingProblem, play
from optimist_client.errors import FixError
from optimist_client.goals import PACED


@dataclass(frozen=True)
class PlayedPolicy:
    """One policy over all trials."""

    policy: str
    mean: float
    """Mean score of a prompt, less the price of its cost."""
    error: float
    """Standard error of `mean` over the trials; 0 with one."""
    share_of_ideal: float | None
    """The gain over the best single generator as a part of what the best one for each prompt would gain; None where
    nothing can be gained."""
    picks: dict[str, float]
    """Part of the prompts that each generator got."""
    cost: float | None
    """Mean cost of a prompt; None without costs."""
    saved: float | None
    """The cost of the best single generator minus `cost`."""
    saved_dearest: float | None
    """The cost of the dearest generator minus `cost`."""


@dataclass(frozen=True)
class PlayedRouting:
    """Policies on the same prompts."""

    names: tuple[str, ...]
    prompts: int
    trials: int
    best: float
    """Mean score of the best single generator."""
    ideal: float
    """Mean score of the best generator for each prompt."""
    single_cost: float | None
    """Mean cost of a prompt with the best single generator; None without costs."""
    dearest_cost: float | None
    """With the dearest one."""
    rows: tuple[PlayedPolicy, ...]
    ceiling: float | None = None
    """The ceiling of the mean cost of a prompt."""
    at_least: float | None = None
    """The part of the best single generator's mean that is to be kept."""
    mixture: float | None = None
    """Mean score of the best fixed mixture of generators that the ceiling allows; None without one."""

    @property
    def sentence(self) -> str:
        """A sentence that says how many prompts and trials there were, and what the best generator alone scores."""
        costs = ""
        if self.single_cost is not None:
            dearest = f"{self.dearest_cost:.3g} with the dearest"
            costs = f" Cost of a prompt: {self.single_cost:.3g} with the best alone, {dearest}."
        if self.mixture is not None:
            costs += f" Best fixed mixture at a mean cost of {self.ceiling:.3g}: {self.mixture:.4f}."
        return (
            f"{self.prompts:,} prompts, {self.trials} trials. Mean score of the best generator alone: {self.best:.4f}; "
            f"of the best one for each prompt: {self.ideal:.4f}.{costs}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def played(
    known: ScoredPrompts,
    policies: Sequence[str],
    *,
    rounds: int = 1000,
    trials: int = 20,
    seed: int = 0,
    price: float = 0.0,
    tries: int = 1,
    ceiling: float | None = None,
    at_least: float | None = None,
) -> PlayedRouting:
    """Each policy (`policies.routing.RouteName`) on up to `rounds` prompts, in another random order in each trial.

    price: what a unit of cost is worth in units of the score. tries: a generator is called for its prompt until it
    succeeds, at most so often; the scores are the probabilities of it. ceiling, at_least: the budget of those policies
    that can keep one; others are played without it. Raises FixError for an unknown policy, unless every generator has
    one score on every prompt, for a price or a budget without costs, for a budget that no policy keeps, and for tries
    of other scores.
    """
    if ceiling is not None or at_least is not None:
        known.costs_of_budget(ceiling, at_least)
        if not set(policies) & set(PACED):
            raise FixError(f"ceiling, at_least: expected one of the policies {', '.join(PACED)}, which keep a budget")
    if price and known.costs is None:
        raise FixError("price: it is multiplied by costs, and there are none")
    table = known.table()
    chosen = np.random.default_rng((seed, 1)).permutation(len(table))[:rounds]
    problem = RoutingProblem("", known.contexts[chosen], table[chosen], table[chosen], known.costs, tries=tries)
    has_costs = known.costs is not None
    single = play(problem, RoutePolicy("best-single", price=price))
    rows: list[PlayedPolicy] = []
    for name in policies:
        budget = {"ceiling": ceiling, "at_least": at_least} if name in PACED else {}
        policy = RoutePolicy.named(name, len(chosen), price, tries, **budget)
        runs = [play(problem, policy, trial=trial, seed=seed) for trial in range(trials)]
        means = np.array([run.values.mean() for run in runs])
        counts = sum(np.bincount(run.chosen, minlength=len(known.names)) for run in runs)
        share = float(np.mean([run.share_of_ideal for run in runs]))
        cost = float(np.mean([run.costs.mean() for run in runs]))
        rows.append(
            PlayedPolicy(
                policy=name,
                mean=float(means.mean()),
                error=float(means.std(ddof=1) / math.sqrt(trials)) if trials > 1 else 0.0,
                share_of_ideal=None if math.isnan(share) else share,
                picks=dict(zip(known.names, (counts / np.sum(counts)).tolist(), strict=True)),
                cost=cost if has_costs else None,
                saved=single.single_cost - cost if has_costs else None,
                saved_dearest=single.dearest_cost - cost if has_costs else None,
            )
        )
    return PlayedRouting(
        names=known.names,
        prompts=len(chosen),
        trials=trials,
        best=single.best,
        ideal=single.ideal,
        single_cost=single.single_cost if has_costs else None,
        dearest_cost=single.dearest_cost if has_costs else None,
        rows=tuple(rows),
        ceiling=ceiling,
        at_least=at_least,
        mixture=None if ceiling is None else best_mixture(problem.results.mean(0), problem.spent.mean(0), ceiling),
    )


def best_mixture(scores: Floats, costs: Floats, ceiling: float) -> float:
    """The largest mean score of a fixed mixture of generators, with mean scores and costs (G,), at this mean cost at
    most: of one generator, or of two. -inf where each costs more."""
    found = [float(scores[costs <= ceiling].max(initial=-math.inf))]
    for cheap, dear in zip(*np.nonzero(costs[:, None] < costs), strict=True):
        part = (ceiling - costs[cheap]) / (costs[dear] - costs[cheap])
        if 0.0 <= part <= 1.0:
            found.append(float((1.0 - part) * scores[cheap] + part * scores[dear]))
    return max(found)
