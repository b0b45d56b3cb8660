"""A goal as users bring one: which generator is the worst one. Registered here alone, named nowhere else."""

from __future__ import annotations

from dataclasses import replace

from optimist.experiments.goals.asked import AskedContext, Choice
from optimist.experiments.goals.best import ForBest
from optimist.experiments.goals.registry import register
from optimist.policies import Arm, Arms, Decision
from optimist_client.goals import Best
from optimist_client.models import Report


class Worst(Best):
    name = "worst"

    @classmethod
    def sentences(cls, report: Report, warnings: list[str]) -> list[str]:
        return [f"Worst: {report.decision.best}, {report.decision.reason}.", *warnings]


def mirrored(arms: Arms) -> list[Arm]:
    """The same arms, of which the worst one is now the best."""
    found = []
    for arm in arms:
        estimate = arm.estimate
        if estimate is not None:
            other = estimate.upper if estimate.optimistic == estimate.lower else estimate.lower
            estimate = replace(estimate, lower_is_better=not estimate.lower_is_better, optimistic=other)
        found.append(replace(arm, estimate=estimate))
    return found


class ForWorst(ForBest):
    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        return super().pick(mirrored(arms), told, number, context, overspent)

    def decide(self, arms: Arms, told: int) -> Decision:
        return super().decide(mirrored(arms), told)

    def explain(self, arms: Arms, told: int) -> Decision:
        return super().explain(mirrored(arms), told)


register(Worst, ForWorst, "worst_judge:WorstJudge")
