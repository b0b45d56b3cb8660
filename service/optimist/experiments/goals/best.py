"""The goal "best": which generator is the best one, by the estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from optimist.experiments.goals.asked import AskedContext, Choice
from optimist.experiments.goals.base import Goal
from optimist.policies import Arms, Decision, Policy, Stopping, deciding_tolerance, explained, rivals, warmup_batches
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import ExperimentState
from optimist_client.models import Experiment


@dataclass(frozen=True, slots=True)
class ForBest(Goal):
    """The goal "best": picks and decisions are made from the estimates."""

    policy: Policy

    @property
    def stopping(self) -> Stopping:
        return self.policy.stopping

    @classmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        config = experiment.config
        warmup = warmup_batches(type(config.metric), config.bound, config.warmup, needed, config.batch_size)
        return cls(Policy(config.policy, warmup, Stopping(config.delta, config.tolerance), config.seed))

    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        return Choice(self.policy.pick(arms, told, number))

    def decide(self, arms: Arms, told: int) -> Decision:
        """The decision on the arms that it compares."""
        return self.stopping.decide(rivals(arms), told)

    def explain(self, arms: Arms, told: int) -> Decision:
        """The decision with its verdicts."""
        return explained(self.policy, rivals(arms), told)

    def deciding_tolerance(self, arms: Arms, told: int) -> tuple[float, float] | None:
        """The tolerance by the contrasts with the best generator, and that generator's value."""
        tolerance = deciding_tolerance(self.policy, rivals(arms), told)
        best = self.decide(arms, told).best
        value = next((arm.estimate.value for arm in arms if arm.estimate and arm.name == best), None)
        return None if tolerance is None or value is None else (tolerance, value)

    def with_tolerance(self, tolerance: str) -> Goal | None:
        if self.stopping.tolerance:
            return None
        return replace(self, policy=replace(self.policy, stopping=replace(self.stopping, tolerance=tolerance)))

    def warms_up(self, arms: Arms) -> bool:
        """True if some active arm has fewer batches than the warm-up, those on their way included."""
        return any(arm.all_batches < self.policy.warmup for arm in arms if arm.active)

    def is_by_counts(self, arms: Arms) -> bool:
        """True in the warm-up, and where the next pick is of an arm without an estimate that has fewer samples, those
        on their way included, than a decision needs."""
        unknown = [arm for arm in arms if arm.active and arm.estimate is None]
        few = min((arm.all_samples for arm in unknown), default=FEWEST_SAMPLES) < FEWEST_SAMPLES
        return few or self.warms_up(arms)

    def has_begun(self, arms: Arms) -> bool:
        """True if every active arm has had its warm-up and has an estimate."""
        return all(arm.batches >= self.policy.warmup and arm.estimate is not None for arm in arms if arm.active)
