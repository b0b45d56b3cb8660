"""What an evaluation in memory is for: the best generator, or the best mixture. Picks and decisions follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimist.estimation.metric_estimators import MetricEstimators
from optimist.numerics.batches import check_number, check_text, check_whole
from optimist.numerics.mixture import Mixture
from optimist.policies import (
    LEAST_SAMPLES,
    Arm,
    Decision,
    MixturePolicy,
    Policy,
    Stopping,
    check_policy,
    decide_mixture,
    explained,
    is_mixture_due,
    warmup_batches,
)
from optimist_client.errors import FixError
from optimist_client.goals import check_goal, mixture_growth, of_mixture
from optimist_client.metrics import Metric
from optimist_client.presets import resolve_preset


@dataclass(frozen=True)
class GoalSettings:
    """A goal with its policy, a preset being replaced by what it stands for."""

    goal: str
    policy: str
    bound: str
    warmup: int | None
    """Batches of each generator, None: the default."""
    growth: float
    """The part by which a generator's samples grow until its estimate is due."""

    @classmethod
    def from_arguments(
        cls,
        goal: str,
        policy: str | None,
        bound: str | None,
        metric: Metric,
        prompts_are: str,
        *,
        warmup: int | None = None,
        growth: float | None = None,
    ) -> GoalSettings:
        """The plan that these arguments of `Evaluation` ask for. Raises FixError if they do not go together."""
        if goal == "route":
            raise FixError(
                "goal: prompts are routed by the service, not in memory; `optimist route` says what routing would "
                "gain, and `optimist simulate --goal route` plays its policies"
            )
        check_text("bound", "influence" if bound is None else bound)
        named = check_text("policy", _default(goal, bound, metric) if policy is None else policy)
        known: dict[str, Any] = {"policy": named, "bound": bound or "influence", "warmup": None, "rescore_growth": 0.04}
        known |= of_mixture({"policy": named}) if goal == "mixture" else resolve_preset(named, type(metric), bound)
        growth = check_number("rescore_growth", known["rescore_growth"] if growth is None else growth)
        if not 0 <= growth < math.inf:
            raise FixError(f"rescore_growth must be finite and not negative, not {growth}")
        if warmup is not None:
            check_whole("warmup", warmup, 1)
        found = cls(goal, known["policy"], known["bound"], known["warmup"] if warmup is None else warmup, growth)
        check_goal(goal, found.policy, metric, found.bound, prompts_are)
        if goal == "best":
            check_policy(found.policy, found.bound, type(metric))
        return found

    def aim(self, metric: Metric, stopping: Stopping, seed: int, batch_size: int, needed: int) -> Aim:
        """The goal with its policy. needed: the samples of each generator that fix open kernels."""
        if self.goal == "mixture":
            needed = max(needed, LEAST_SAMPLES)
            warmup = warmup_batches(type(metric), self.bound, self.warmup, needed, batch_size)
            return BestMixture(MixturePolicy.from_metric(self.policy, metric, warmup, stopping, seed))
        warmup = warmup_batches(type(metric), self.bound, self.warmup, needed, batch_size)
        return BestGenerator(Policy(self.policy, warmup, stopping, seed))


class BestGenerator:
    """The best generator, by estimates."""

    mixture: Mixture | None = None

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def follow(self, estimators: MetricEstimators, arms: Sequence[Arm]) -> None:
        """Do nothing: beside estimates nothing is made."""

    def pick(self, arms: Sequence[Arm], told: int) -> int:
        """Position of the generator to sample after `told` batches, and those on their way."""
        return self._policy.pick(arms, told, told + _open(arms) + 1)

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """True if the warm-up is over and every generator has an estimate."""
        return all(arm.batches >= self._policy.warmup and arm.estimate is not None for arm in arms)

    def decide(self, arms: Sequence[Arm], told: int, explain: bool) -> Decision:
        """The decision after `told` batches."""
        return explained(self._policy, arms, told) if explain else self._policy.stopping.decide(arms, told)


class BestMixture:
    """The best mixture of all generators. Each mixture is made with the batch that makes it due."""

    def __init__(self, policy: MixturePolicy) -> None:
        self.mixture: Mixture | None = None
        """The newest one."""
        self._policy = policy
        self._growth = mixture_growth(policy.name)

    def follow(self, estimators: MetricEstimators, arms: Sequence[Arm]) -> None:
        """Make the mixture if it is due. Raises ArithmeticError if it is not finite."""
        if is_mixture_due(arms, self.mixture, self._growth, estimators.question.rows_to_fit(len(arms))):
            self.mixture = estimators.mixture(self._policy.goes_by_published)

    def pick(self, arms: Sequence[Arm], told: int) -> int:
        """Position of the generator to sample after `told` batches, and those on their way."""
        return self._policy.pick(arms, self.mixture, told, told + _open(arms) + 1)

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """True if the warm-up is over and there is a mixture."""
        return self.mixture is not None and all(arm.batches >= self._policy.warmup for arm in arms)

    def decide(self, arms: Sequence[Arm], told: int, explain: bool) -> Decision:
        """The decision after `told` batches; there are no verdicts to explain it by."""
        del explain
        return decide_mixture(self._policy.stopping, arms, self.mixture, told)


Aim = BestGenerator | BestMixture


def _open(arms: Sequence[Arm]) -> int:
    return sum(arm.pending_batches for arm in arms)


def _default(goal: str, bound: str | None, metric: Metric) -> str:
    """The policy of new experiments. Under the papers' bounds it is `ucb`, as they have no standard errors."""
    if goal != "best":
        return "ogd" if goal == "mixture" else "optimistic"
    return "top-two" if metric.has_errors(bound or "influence") else "ucb"
