"""The goal "route": which generator is the best one for each prompt. Nothing waits for it, and it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from optimist.dispatch.chosen import Basis, Choice, positions_of
from optimist.dispatch.contexts import AskedContext
from optimist.numerics.mixtures.mixture import Mixture
from optimist.numerics.routing.model import RouteModel
from optimist.policies import Arm, Decision, RoutePolicy, Stopping, rivals
from optimist.policies.arms import losses
from optimist.store import ExperimentState, GeneratorState, StoredRoutes
from optimist_client.errors import FixError
from optimist_client.models import Experiment

GOES_ON = "experiments that route prompts go on until they are stopped or the budget is spent"
"""Why it is never decided."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of contexts that this process has read."""

    stored: StoredRoutes
    model: RouteModel


@dataclass(frozen=True, slots=True)
class ForRoutes:
    """The goal "route": each pick is chosen for a context, by the loaded model.

    First, active generators with fewer than `warmup` batches take turns. Later, such a generator, which was added or
    whose picks are given up again and again, gets every second pick. Where no model has been read, each generator is as
    likely as the others.
    """

    policy: RoutePolicy
    warmup: int
    stopping: Stopping
    ordinals: tuple[int, ...]
    """Of the contenders."""
    loaded: LoadedModel | None = field(default=None, compare=False)
    """The newest model that has been read, perhaps not the newest one; None before the first."""
    is_stale: bool = field(default=False, compare=False)
    """Whether a newer model has been due for too long."""

    @property
    def mixture(self) -> Mixture | None:
        """None: nothing is made from it."""
        return None

    def pick(self, arms: Sequence[Arm], told: int, round_: int, context: AskedContext | None = None) -> Choice:
        """A pure function of the arms, the model and the context; the random number depends on (seed, round) alone.

        Only active arms have a chance. One that the model does not know yet, as it has just had its warm-up, waits for
        the next model. Raises FixError if no arm is active.
        """
        able = [place for place, arm in enumerate(arms) if arm.active]
        if not able:
            raise FixError("no generator is active")
        new = [place for place in able if _batches(arms[place]) < self.warmup]
        if new and (round_ % 2 or round_ <= 2 * self.warmup * len(arms)):
            return Choice(min(new, key=lambda place: _batches(arms[place])))
        model = None if self.loaded is None or self.policy.name == "uniform" else self.loaded.model
        within = {} if model is None else {ordinal: place for place, ordinal in enumerate(model.generators)}
        known = [place for place in able if self.ordinals[place] in within]
        if model is None or context is None or not known:
            tried = [place for place in able if place not in new] or able
            chances = np.full(len(tried), 1.0 / len(tried))
            chosen = self.policy.pick(chances, round_)
            return Choice(tried[chosen], float(chances[chosen]))
        at = [within[self.ordinals[place]] for place in known]
        if self.policy.name == "best-single":
            means, widths = model.singles, np.zeros(len(model.single))
        else:
            means, widths = context.predicted(model)
        costs = None
        if self.policy.price > 0.0:
            costs = np.array([arms[place].cost or 0.0 for place in known])
        chances = self.policy.chances(means[at], widths[at], costs)
        chosen = self.policy.pick(chances, round_)
        probability = float(chances[chosen]) if self.policy.has_chances else None
        return Choice(known[chosen], probability, by_model=True)

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """Never decided; the best single generator so far, if every rival has an estimate."""
        compared = rivals(arms)
        best = None
        if compared and all(arm.estimate is not None for arm in compared):
            values = losses(compared)
            best = compared[values.index(min(values))].name
        return Decision(best, None, False, GOES_ON)

    def explain(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision, whose reason says all."""
        return self.decide(arms, told)

    def deciding_tolerance(self, arms: Sequence[Arm], told: int) -> tuple[float, float] | None:
        """None: no tolerance would decide it."""
        return None

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """Whether every active arm has had its warm-up."""
        return all(arm.batches >= self.warmup for arm in arms if arm.active)

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> Basis:
        """The positions up to which the model was made, and its name; all 0 where the choice was not made by it."""
        if self.loaded is None or not choice.by_model:
            return Basis([0] * len(contenders))
        return Basis(positions_of(self.loaded.stored.parts, contenders), model=self.loaded.stored.made)

    def awaited(self, stored: ExperimentState) -> None:
        """None: no ask waits."""

    def lacks(self, stored: ExperimentState, awaited: object) -> bool:
        """False."""
        return False


def route_goal(experiment: Experiment, stored: ExperimentState, needed: int, known: ForRoutes | None) -> ForRoutes:
    """The goal, with its policy. needed: batches of each generator that fix how contexts become columns.

    known: of an earlier state, whose model is kept until a newer one has been read, unless it was forgotten: then it
    was made of batches that were retracted since.
    """
    config = experiment.config
    # Calls until success are worth something else than one call; other scores have no success.
    is_success = config.metric.limits.get("values") == (0.0, 1.0) and not config.metric.lower_is_better
    tries = config.tries if is_success else 1
    return ForRoutes(
        replace(RoutePolicy.named(config.policy), price=config.price, seed=config.seed, tries=tries),
        max(config.warmup or 1, needed),
        Stopping(config.delta, config.tolerance),
        tuple(generator.ordinal for generator in stored.generators if generator.state != "retired"),
        None if known is None or stored.routes is None else known.loaded,
        known is not None and known.is_stale,
    )


def _batches(arm: Arm) -> int:
    return arm.batches + arm.pending_batches
