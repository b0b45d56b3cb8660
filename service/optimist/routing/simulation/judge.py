"""The goal "route" in a simulation: what each prompt's generator scores, beside the best single one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from optimist.arrays import Floats
from optimist.metrics.threads import one_thread
from optimist.routing.answers.policy import POLICIES, RoutePolicy
from optimist.routing.gain.outcomes import ScoredPrompts, prompts_in
from optimist.routing.simulation.trials import RoutingProblem, RoutingTrial, play
from optimist.simulation.judges.judge import CurveFigure, GoalJudge, ReportColumn, Setup
from optimist.simulation.plan import Plan
from optimist.simulation.run import Play, PolicyRun
from optimist.simulation.runner import Runner
from optimist.simulation.trial import Contender
from optimist_client.errors import FixError
from optimist_client.goals import PACED


@dataclass(frozen=True, eq=False)
class RouteJudge(GoalJudge):
    """Judges by a table of scores: on each prompt regret is the best generator's score less the chosen one's."""

    goal = "route"
    policies = POLICIES
    default = ("optimistic", "rff-ucb", "uniform", "best-single")
    shows_shares = True
    takes = frozenset({"price", "tries", "ceiling", "at_least"})
    columns = (
        ReportColumn("mean score", "mean"),
        ReportColumn("part of the possible gain", "share_of_ideal"),
        ReportColumn("cost", "cost"),
        ReportColumn("saved", "saved"),
        ReportColumn("of the dearest", "saved_dearest"),
    )
    figures: ClassVar = {"average_regret": CurveFigure("average_regret", "regret per prompt ({unit})")}

    problem: RoutingProblem

    @classmethod
    def from_asked(cls, asked: Setup, plan: Plan, policies: Sequence[Contender], runner: Runner) -> RouteJudge:
        if asked.settings:
            raise FixError(f"{', '.join(asked.settings)}: the goal 'route' has no metric: scores are in the file")
        prompts = prompts_in(Path(asked.sources)) if isinstance(asked.sources, str | Path) else asked.sources
        if not isinstance(prompts, ScoredPrompts):
            raise FixError(f"sources: expected a file of scored prompts, got {type(prompts).__name__}")
        if plan.ceiling is not None or plan.at_least is not None:
            prompts.costs_of_budget(plan.ceiling, plan.at_least)
            if not {each.settings["policy"] for each in policies} & set(PACED):
                raise FixError(
                    f"ceiling, at_least: expected one of the policies {', '.join(PACED)}, which keep a budget"
                )
        if plan.price and prompts.costs is None:
            raise FixError("price: it is multiplied by costs, and there are none")
        for each in policies:
            if foreign := each.settings.keys() - {"policy"}:
                raise FixError(f"policy {each.label!r}: policies of routes have no options, got {', '.join(foreign)}")
        table = prompts.table()
        chosen = np.random.default_rng((plan.seed, 1)).permutation(len(table))[: plan.rounds]
        scores = table[chosen]
        problem = RoutingProblem("", prompts.contexts[chosen], scores, scores, prompts.costs, tries=plan.tries)
        plan = plan.model_copy(update={"rounds": len(chosen), "batch_size": 1})
        return cls(prompts.names, plan, problem)

    @cached_property
    def single(self) -> RoutingTrial:
        """All prompts with the best single generator."""
        return play(self.problem, RoutePolicy("best-single", price=self.plan.price))

    def trials(self, policies: Sequence[Contender]) -> list[Callable[[], Play]]:
        named = [self._policy(each.settings["policy"]) for each in policies]
        return [
            partial(_played, self.problem, policy, number, self.plan.seed)
            for number in range(self.plan.trials)
            for policy in named
        ]

    def _policy(self, name: str) -> RoutePolicy:
        plan = self.plan
        policy = RoutePolicy(name, plan.price, rounds=plan.rounds, tries=plan.tries)
        return replace(policy, ceiling=plan.ceiling, at_least=plan.at_least) if name in PACED else policy

    @property
    def _has_costs(self) -> bool:
        return self.problem.costs is not None

    def judged(self, run: PolicyRun, seen: Sequence[RoutingTrial]) -> PolicyRun:
        totals = {
            "mean": np.array([trial.values.mean() for trial in seen]),
            "share_of_ideal": np.array([trial.share_of_ideal for trial in seen]),
        }
        extra: dict[str, float | None] = {}
        if self._has_costs:
            totals["cost"] = np.array([trial.costs.mean() for trial in seen])
            cost = float(np.mean(totals["cost"]))
            extra = {"saved": self.single.single_cost - cost, "saved_dearest": self.single.dearest_cost - cost}
        return replace(
            run,
            marks=np.arange(1, run.picks.shape[1] + 1),
            curves={"average_regret": np.stack([trial.regret for trial in seen])},
            totals=totals,
            extra=extra,
            wrong=np.zeros(len(seen), np.bool_),
        )

    @property
    def mixture(self) -> float | None:
        """Mean score of the best fixed mixture of generators that the ceiling allows; None without one."""
        ceiling, problem = self.plan.ceiling, self.problem
        return None if ceiling is None else best_mixture(problem.results.mean(0), problem.spent.mean(0), ceiling)

    @property
    def subject(self) -> str:
        return f"Prompts among {len(self.generators)} generators"

    @property
    def unit(self) -> str:
        return "in the score"

    def notes(self) -> Iterator[str]:
        single = self.single
        yield (
            f"{self.plan.rounds:,} prompts. Mean score of the best generator alone: {single.best:.4f}; of the best one "
            f"for each prompt: {single.ideal:.4f}. Mean ± standard error over trials."
        )
        if self._has_costs:
            costs = f"{single.single_cost:.3g} with the best alone, {single.dearest_cost:.3g} with the dearest"
            yield f"Cost of a prompt: {costs}."
        if self.plan.price:
            yield f"Scores are less {self.plan.price:g} times the cost."
        if self.mixture is not None:
            yield f"Best fixed mixture at a mean cost of {self.plan.ceiling:.3g}: {self.mixture:.4f}."

    def document(self) -> dict[str, Any]:
        document = {"best": self.single.best, "ideal": self.single.ideal, "price": self.plan.price}
        document |= {"ceiling": self.plan.ceiling, "at_least": self.plan.at_least, "mixture": self.mixture}
        costs = {"single_cost": self.single.single_cost, "dearest_cost": self.single.dearest_cost}
        return document | (costs if self._has_costs else dict.fromkeys(costs))


def _played(problem: RoutingProblem, policy: RoutePolicy, number: int, seed: int) -> Play:
    with one_thread():
        trial = play(problem, policy, trial=number, seed=seed)
    return Play(trial.chosen.astype(np.int32), trial)


def best_mixture(scores: Floats, costs: Floats, ceiling: float) -> float:
    """The largest mean score of a fixed mixture of generators, with mean scores and costs (G,), at this mean cost at
    most: of one generator, or of two. -inf where each costs more."""
    scores_at = [float(scores[costs <= ceiling].max(initial=-math.inf))]
    for cheap, dear in zip(*np.nonzero(costs[:, None] < costs), strict=True):
        part = (ceiling - costs[cheap]) / (costs[dear] - costs[cheap])
        if 0.0 <= part <= 1.0:
            scores_at.append(float((1.0 - part) * scores[cheap] + part * scores[dear]))
    return max(scores_at)
