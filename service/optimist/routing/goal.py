"""The goal "route": which generator is the best one for each prompt. Nothing waits for it, and it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from optimist.arrays import Floats
from optimist.experiments.admission import needed_to_fit
from optimist.experiments.curves import short, since
from optimist.experiments.goals.asked import AskedContext, Choice, PickBasis, positions_of
from optimist.experiments.goals.base import Goal, Pending, WithModel
from optimist.experiments.report import OLD
from optimist.policies import Arms, Decision, Stopping
from optimist.policies.arms import active_among
from optimist.records import (
    ArtefactPoint,
    ExperimentState,
    GeneratorState,
    LogExtent,
    StoredArtefact,
    extents,
    is_outgrown,
)
from optimist.routing.answers.features import contexts_to_fit
from optimist.routing.answers.model import RouteModel
from optimist.routing.answers.policy import Frontier, RoutePolicy
from optimist.routing.answers.rows import RoutedRows
from optimist.routing.gain.reports import RoutingSettings, route_table
from optimist_client.errors import FixError
from optimist_client.goals import COMPONENTS, check_route_size, priced_by
from optimist_client.models import Experiment, ExperimentConfig, Report, RouteCurve, RoutePace, Routes

if TYPE_CHECKING:
    from optimist.experiments.state import PolicyState

GOES_ON = "experiments that route prompts go on until they are stopped or the budget is spent"
"""The reason why it is never decided."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of contexts that this process has read; `stored` is without its payload."""

    stored: StoredArtefact
    model: RouteModel
    indices: dict[int, int]
    """The index of each generator in the model, by ordinal."""
    _frontiers: dict[tuple[tuple[int, ...], tuple[float, ...]], Frontier] = field(default_factory=dict)

    @classmethod
    def from_stored(cls, stored: StoredArtefact, model: RouteModel) -> LoadedModel:
        """The model as it is stored."""
        return cls(stored, model, {ordinal: index for index, ordinal in enumerate(model.generators)})

    def frontier(self, policy: RoutePolicy, at: Sequence[int], costs: Floats) -> Frontier:
        """The costs and scores of the policy's allocations among the generators at these indices of the model."""
        key = tuple(at), tuple(costs.tolist())
        if key not in self._frontiers:
            # Workers may ask for different generators, whose costs may change: both seldom, so that dropping all
            # frontiers is as good as dropping the oldest.
            if len(self._frontiers) >= 64:
                self._frontiers.clear()
            means, widths = self.model.sampled
            self._frontiers[key] = policy.frontier(means[:, at], widths[:, at], costs)
        return self._frontiers[key]


@dataclass(frozen=True, slots=True)
class ForRouting(WithModel):
    """The goal "route": each pick is chosen for a context, by the loaded model.

    First, active generators with fewer than `warmup` batches take turns. Later, such a generator, which was added or
    whose picks are given up again and again, gets every second pick. Where no model has been read, each generator is as
    likely as the others.
    """

    learner: ClassVar[str] = "optimist.routing.learning.learner:RouteLearner"
    policy: RoutePolicy
    warmup: int
    rule: Stopping
    ordinals: tuple[int, ...]
    """The ordinals of the contenders."""
    loaded: LoadedModel | None = field(default=None, compare=False)
    """The newest model that has been read, perhaps not the newest one; None before the first."""
    is_stale: bool = field(default=False, compare=False)
    """True if a newer model has been due for too long."""

    @property
    def stopping(self) -> Stopping:
        return self.rule

    @classmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        """The loaded model is the earlier state's until a newer one has been read, unless it was forgotten: then
        it was made of batches that were retracted since."""
        config, before = experiment.config, earlier if isinstance(earlier, cls) else None
        return cls(
            RoutePolicy.from_config(config),
            max(config.warmup or 1, needed),
            Stopping(config.delta, config.tolerance),
            tuple(generator.ordinal for generator in stored.generators if generator.state != "retired"),
            None if before is None or stored.model is None else before.loaded,
            before is not None and before.is_stale,
        )

    @property
    def model(self) -> str:
        return "" if self.loaded is None else self.loaded.stored.made

    def with_model(self, stored: StoredArtefact) -> ForRouting:
        model = RouteModel.unpack(stored.payload)
        return replace(self, loaded=LoadedModel.from_stored(replace(stored, payload=b""), model))

    def marked(self, *, is_stale: bool) -> ForRouting:
        return replace(self, is_stale=is_stale)

    def foresee(self, contexts: Sequence[AskedContext], limit: int) -> None:
        """Predict the first contexts, where a model has been read."""
        if self.loaded is not None:
            for context in contexts[:limit]:
                context.predicted(self.loaded.model)

    @classmethod
    def work(cls, config: ExperimentConfig) -> float:
        """Triangular factors for each ridge: about two eigenproblems a generator."""
        return (2 * len(config.generators) + 2) * (config.context_features + COMPONENTS) ** 3

    @classmethod
    def needed(cls, config: ExperimentConfig, active: int) -> int:
        """Batches, as each brings one context."""
        return max(needed_to_fit(config.metric, active), contexts_to_fit(config.context_bandwidth, active))

    @classmethod
    def brought(cls, generator: GeneratorState) -> int:
        return generator.batches

    @classmethod
    def weighs_costs(cls, config: ExperimentConfig) -> bool:
        return priced_by(config) is not None

    @classmethod
    def check_added(cls, config: ExperimentConfig, count: int, cost: float | None) -> None:
        if (named := priced_by(config)) and cost is None:
            raise FixError(f"cost: expected a number, as an experiment with `{named}` needs it for every generator")
        check_route_size(config.context_features, count)

    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        """A pure function of the arms, the model, the context and what was spent; the random number depends on (seed,
        round) alone.

        Only active arms have a chance. One that the model does not know yet, as it has just had its warm-up, waits for
        the next model. Raises FixError if no arm is active.
        """
        able = active_among(arms)
        new = [index for index in able if arms[index].all_batches < self.warmup]
        # A generator whose picks never come back would otherwise get every pick for ever.
        if new and (number % 2 or number <= 2 * self.warmup * len(arms)):
            return Choice(min(new, key=lambda index: arms[index].all_batches))
        loaded = None if self.policy.name == "uniform" else self.loaded
        within = {} if loaded is None else loaded.indices
        modelled = [index for index in able if self.ordinals[index] in within]
        if loaded is None or context is None or not modelled:
            tried = [index for index in able if index not in new] or able
            chances = np.full(len(tried), 1.0 / len(tried))
            chosen = self.policy.pick(chances, number)
            return Choice(tried[chosen], float(chances[chosen]))
        at = [within[self.ordinals[index]] for index in modelled]
        if self.policy.name == "best-single":
            means, widths = loaded.model.singles, np.zeros(len(loaded.model.single))
        else:
            means, widths = context.predicted(loaded.model)
        costs = np.array([arms[index].cost or 0.0 for index in modelled])
        policy = self._paced(loaded, at, costs, overspent)
        chances = policy.chances(means[at], widths[at], costs)
        chosen = policy.pick(chances, number)
        probability = float(chances[chosen]) if policy.has_chances else None
        return Choice(modelled[chosen], probability, policy.price if self.policy.keeps_budget else None, by_model=True)

    def overspent(self, state: PolicyState) -> float:
        """The cost of all prompts above the ceiling; below 0 where they cost less. 0 without a ceiling.

        Open picks count as the recorded ones of their generator did. What was retracted was paid for.
        """
        if state.config.ceiling is None:
            return 0.0
        open_, told = state.open_picks.batches, state.stored.generators
        calls = (open_[g.ordinal] * (g.samples / g.batches if g.batches else 1.0) for g in told)
        pending = sum(state.costs.get(g.name, 0.0) * each for g, each in zip(told, calls, strict=True))
        return state.cost + pending - state.config.ceiling * (state.stored.told + open_.total())

    def price(self, arms: Arms, overspent: float) -> tuple[float, float]:
        """The price of a unit of cost in the next pick among all active generators, and the part of the best single
        one's score that this price keeps; the policy's own price and 1 without a model that knows one of them."""
        within = {} if self.loaded is None else self.loaded.indices
        modelled = [index for index, arm in enumerate(arms) if arm.active and self.ordinals[index] in within]
        if self.loaded is None or not modelled:
            return self.policy.price, 1.0
        costs = np.array([arms[index].cost or 0.0 for index in modelled])
        frontier = self.loaded.frontier(self.policy, [within[self.ordinals[index]] for index in modelled], costs)
        price = self.policy.paced(frontier, overspent).price
        return price, frontier.kept(price)

    def _paced(self, loaded: LoadedModel, at: Sequence[int], costs: Floats, overspent: float) -> RoutePolicy:
        """The policy with the price by which the generators at these indices of the model keep the budget, if any."""
        if not self.policy.keeps_budget:
            return self.policy
        return self.policy.paced(loaded.frontier(self.policy, at, costs), overspent)

    def decide(self, arms: Arms, told: int) -> Decision:
        """Never decided, and no generator leads: their means are over prompts of their own. A table of routes names the
        best single one."""
        return Decision(None, None, False, GOES_ON)

    def has_begun(self, arms: Arms) -> bool:
        """True if every active arm has had its warm-up."""
        return all(arm.batches >= self.warmup for arm in arms if arm.active)

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> PickBasis:
        """The positions up to which the model was made, and its name; all 0 where the choice was not made by it."""
        if self.loaded is None or not choice.by_model:
            return PickBasis([0] * len(contenders))
        return PickBasis(positions_of(self.loaded.stored.parts, contenders), model=self.loaded.stored.made)

    def pending(self, stored: ExperimentState) -> Pending:
        """Nothing: no ask waits."""
        return None

    def is_pending(
        self, stored: ExperimentState, lacking: Mapping[int, GeneratorState], pending: Pending, late: float = 0.0
    ) -> bool:
        """False: no ask waits."""
        return False

    def table(self, state: PolicyState, rows: RoutedRows, parts: Mapping[int, LogExtent]) -> Routes:
        """The table of rows that were made of these parts. Raises as `route_table`."""
        config, metric, generators = state.config, state.config.metric, state.stored.generators
        pace = self._pace(state)
        routing = RoutingSettings(
            names=[generator.name for generator in generators],
            lower_is_better=metric.lower_is_better,
            policy=config.policy,
            price=config.price if pace is None else pace.price,
            costs=state.all_costs,
            retired=[generator.name for generator in generators if generator.state == "retired"],
            tries=config.tries,
            contexts=rows.settings,
            seed=config.seed,
            title=metric.shown_title,
            scale=metric.scale,
            delta=config.delta,
        )
        facts: dict[str, object] = {
            "experiment": config.name,
            "positions": positions_of(parts, generators),
            "samples": sum(part.samples for part in parts.values()),
            "pace": pace,
        }
        return route_table(rows, routing).model_copy(update=facts)

    def _pace(self, state: PolicyState) -> RoutePace | None:
        """The pace at which the budget is spent, by the loaded model; None without a budget, or before a model."""
        config = state.config
        if not config.keeps_budget or self.loaded is None:
            return None
        price, kept = self.price(state.arms, self.overspent(state))
        return RoutePace(
            ceiling=config.ceiling,
            at_least=config.at_least,
            kept=None if config.at_least is None else kept,
            spent=state.cost / max(state.stored.told, 1),
            price=price,
        )

    @classmethod
    def read_table(cls, state: PolicyState, stored: StoredArtefact) -> Routes:
        """The table, with the positions that it was made of; it is stale where samples have grown much, or costs have
        changed, since."""
        made, parts = Routes.model_validate_json(stored.payload), stored.parts
        return made.model_copy(
            update={
                "experiment": state.config.name,
                "positions": positions_of(parts, state.stored.generators),
                "stale": is_outgrown(parts, extents(state.stored.modelled), OLD) or cls.has_other_costs(state, made),
            }
        )

    @classmethod
    def has_other_costs(cls, state: PolicyState, table: Routes) -> bool:
        return table.costs != state.all_costs

    @classmethod
    def table_point(cls, table: Routes) -> str:
        """The table as JSON, to six digits, with null for what is not known.

        [gain, two ends of its interval, expected score of routed prompts, best single generator, its score], on the
        scale of the metric.
        """
        numbers = [short(number) for number in (table.gain, table.lower, table.upper, table.score, table.best_score)]
        gain, lower, upper, score, best_score = numbers
        return json.dumps([gain, lower, upper, score, table.best, best_score], separators=(",", ":"))

    @classmethod
    def charted(cls, points: Sequence[ArtefactPoint], after: int) -> dict[str, Any]:
        points = since(points, after, 2000)  # of more points, every second, third, … is drawn
        columns = zip(*(json.loads(point.point) for point in points), strict=True) if points else [()] * 6
        names = ("gains", "lower", "upper", "scores", "best", "best_scores")
        told, samples = [point.told for point in points], [point.samples for point in points]
        curves: dict[str, Any] = dict(zip(names, map(list, columns), strict=True))
        return {"routes": RouteCurve(told=told, samples=samples, **curves)}

    @classmethod
    def reported(cls, report: Report, table: Routes) -> Report:
        """The report with the table, which names the best single generator."""
        best = report.decision.model_copy(update={"best": table.best})
        return report.model_copy(update={"decision": best, "routes": table})
