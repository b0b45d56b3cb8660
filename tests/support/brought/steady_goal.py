"""A goal with a model of its own, as users bring one: which generator's scores vary the least. Named nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from optimist.experiments.goals.asked import AskedContext, Choice, PickBasis
from optimist.experiments.goals.base import Goal, WithModel
from optimist.experiments.goals.best import ForBest
from optimist.experiments.goals.registry import register
from optimist.experiments.state import PolicyState
from optimist.policies import Arms, Decision
from optimist.records import ExperimentState, GeneratorState, LogExtent, StoredArtefact
from optimist_client.config import ExperimentConfig
from optimist_client.goals import Best
from optimist_client.models import Experiment, Report
from optimist_client.wire import Wire

ENOUGH = 60
"""Samples of each generator by which it is decided."""


class Steady(Best):
    name = "steady"

    @classmethod
    def model_growth(cls, config: ExperimentConfig) -> float:
        return config.rescore_growth


class Spreads(Wire):
    """The table: variances by name."""

    spreads: dict[str, float]

    @property
    def steadiest(self) -> str:
        return min(self.spreads, key=lambda name: self.spreads[name])


@dataclass(frozen=True, slots=True)
class ForSteady(ForBest, WithModel):
    learner = "steady_learner:SteadyLearner"
    ordinals: tuple[int, ...] = ()
    made: str = field(default="", compare=False)
    spreads: Mapping[int, float] = field(default_factory=dict, compare=False)

    @classmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        policy = ForBest.from_state(experiment, stored, needed, earlier).policy
        goal = cls(policy, tuple(one.ordinal for one in stored.generators if one.state != "retired"))
        if not isinstance(earlier, cls) or stored.model is None:
            return goal
        return replace(goal, made=earlier.made, spreads=earlier.spreads)

    @property
    def model(self) -> str:
        return self.made

    def with_model(self, stored: StoredArtefact) -> Self:
        spreads = {int(ordinal): spread for ordinal, spread in json.loads(stored.payload).items()}
        return replace(self, made=stored.made, spreads=spreads)

    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        counts = [arm.samples + arm.pending_samples for arm in arms]
        return Choice(counts.index(min(counts)), by_model=bool(self.made))

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> PickBasis:
        return PickBasis([0] * len(contenders), model=self.made or None)

    def decide(self, arms: Arms, told: int) -> Decision:
        spread_arms = [(self.spreads[g], arm) for g, arm in zip(self.ordinals, arms, strict=True) if g in self.spreads]
        best = min(spread_arms, key=lambda one: one[0])[1].name if len(spread_arms) == len(arms) else None
        return Decision(best, None, best is not None and min(arm.samples for arm in arms) >= ENOUGH, "by their spreads")

    def explain(self, arms: Arms, told: int) -> Decision:
        return self.decide(arms, told)

    def table(self, state: PolicyState, rows: Any, parts: Mapping[int, LogExtent]) -> Spreads:
        return Spreads(spreads={state.stored.generators[ordinal].name: spread for ordinal, spread in rows.items()})

    @classmethod
    def read_table(cls, state: PolicyState, stored: StoredArtefact) -> Spreads:
        return Spreads.model_validate_json(stored.payload)

    @classmethod
    def reported(cls, report: Report, table: Spreads) -> Report:
        return report.model_copy(update={"note": f"{table.steadiest} varies the least."})


register(Steady, ForSteady, "steady_learner:SteadyJudge")
