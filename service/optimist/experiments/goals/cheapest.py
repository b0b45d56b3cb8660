"""The goal "cheapest": which generator is the least costly one that meets all limits, by the estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from optimist.experiments.goals.asked import AskedContext, Choice
from optimist.experiments.goals.base import Goal
from optimist.experiments.goals.best import ForBest
from optimist.policies import Arms, Cheapest, Decision, LimitOn, rivals
from optimist.records import ExperimentState
from optimist_client.metrics import Metric
from optimist_client.metrics.mean import OfValues
from optimist_client.models import Experiment, ExperimentConfig


@dataclass(frozen=True, slots=True)
class ForCheapest(ForBest):
    """The goal "cheapest". Without limits all generators are good enough: of equally cheap ones that is the best one,
    which is found as for the goal "best"."""

    rule: Cheapest

    @property
    def awaits_answers(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return bool(self.rule.limits)

    @classmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        best = ForBest.from_state(experiment, stored, needed, earlier)
        return cls(best.policy, rule_of(experiment.config))

    @classmethod
    def weighs_costs(cls, config: ExperimentConfig) -> bool:
        """True: the answer rests on costs; `rule` says whether picks are weighed by them."""
        return True

    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        if not self.rule.limits or self.warms_up(arms):
            return ForBest.pick(self, arms, told, number, context, overspent)
        return Choice(self.rule.pick(arms, told))

    def is_by_counts(self, arms: Arms) -> bool:
        return self.warms_up(arms) if self.rule.limits else ForBest.is_by_counts(self, arms)

    def decide(self, arms: Arms, told: int) -> Decision:
        if not self.rule.limits:
            return ForBest.decide(self, arms, told)
        return self.rule.decide(rivals(arms), told)

    def explain(self, arms: Arms, told: int) -> Decision:
        if not self.rule.limits:
            return ForBest.explain(self, arms, told)
        return self.rule.decide(rivals(arms), told, explain=True)

    def deciding_tolerance(self, arms: Arms, told: int) -> tuple[float, float] | None:
        return None if self.rule.limits else ForBest.deciding_tolerance(self, arms, told)

    def with_tolerance(self, tolerance: str) -> Goal | None:
        return None


def rule_of(config: ExperimentConfig) -> Cheapest:
    """The rule of an experiment with the goal "cheapest"."""
    primary = config.metric.shown_label

    def on(label: str) -> str:
        return "" if label == primary else label

    limits = tuple(
        LimitOn(on(label), limit, config.metrics[label].shown_title, _span(config.metrics[label]))
        for label, limit in config.all_limits
    )
    measured = None if config.cost_metric is None else on(config.cost_metric)
    policy = "uniform" if config.policy == "uniform" else "top-two"
    return Cheapest(config.delta, limits, measured, policy, config.weigh_costs)


def _span(metric: Metric) -> tuple[float, float] | None:
    """The least and the largest value, where scores are means of one number for each sample."""
    return metric.limits.get("values") if isinstance(metric, OfValues) else None
