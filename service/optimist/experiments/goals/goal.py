"""What an experiment is after: the best generator, or the best mixture. Where goals differ, dispatch asks the goal.

Each chooses the next pick, decides, and says what asks wait for: for the best generator the due estimates, for the best
mixture the due mixture. The third goal, which generator is best for each prompt, has the module `route` to itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from optimist.experiments.goals import AskedContext, Basis, Choice, positions_of
from optimist.experiments.goals.route import ForRouting, route_goal
from optimist.numerics.mixture import Mixture
from optimist.policies import (
    LEAST_SAMPLES,
    Arm,
    Decision,
    MixturePolicy,
    Policy,
    Stopping,
    decide_mixture,
    deciding_tolerance,
    explained,
    rivals,
    warmup_batches,
)
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import ExperimentState, GeneratorState, StoredMixture
from optimist_client.models import Experiment

Pending = tuple[int, ...] | str | None
"""What an ask waits for: the log positions of due estimates by ordinal; or the name of the mixture that is due to be
made again, "" for the first one, None where none is due."""


class Goal(Protocol):
    """The interface by which a `PolicyState` picks and decides. `arms` are all contenders."""

    @property
    def stopping(self) -> Stopping:
        """The stopping rule."""
        ...

    @property
    def mixture(self) -> Mixture | None:
        """The mixture that picks are made from; None with the goal "best", and before the first."""
        ...

    @property
    def is_stale(self) -> bool:
        """True if picks made now rest on what is too old, although no ask waits for anything newer."""
        ...

    def pick(
        self,
        arms: Sequence[Arm],
        told: int,
        round_: int,
        context: AskedContext | None = None,
        overspent: float = 0.0,
    ) -> Choice:
        """The generator to sample next. context: of the prompt that the pick is for, with the goal "route"; overspent:
        `PolicyState.overspent`."""
        ...

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision of the stopping rule now."""
        ...

    def explain(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision with verdicts and the hardest rival, where the goal has these."""
        ...

    def deciding_tolerance(self, arms: Sequence[Arm], told: int) -> tuple[float, float] | None:
        """The tolerance above which the decision would be made now, and the value that a share of it is of."""
        ...

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """True if the warm-up is over."""
        ...

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> Basis:
        """The log positions, and the mixture or model, that this choice, made now, rests on."""
        ...

    def pending(self, stored: ExperimentState) -> Pending:
        """The estimates or the mixture that an ask waits for if it comes now."""
        ...

    def is_pending(self, stored: ExperimentState, pending: Pending) -> bool:
        """True if that has not been made yet, and is still to be waited for."""
        ...


@dataclass(frozen=True, slots=True)
class ForBest:
    """The goal "best": picks and decisions are made from the estimates."""

    policy: Policy

    @property
    def stopping(self) -> Stopping:
        return self.policy.stopping

    @property
    def mixture(self) -> Mixture | None:
        """None: there may be one, but nothing is made from it."""
        return None

    @property
    def is_stale(self) -> bool:
        """False: asks wait for estimates."""
        return False

    def pick(
        self,
        arms: Sequence[Arm],
        told: int,
        round_: int,
        context: AskedContext | None = None,
        overspent: float = 0.0,
    ) -> Choice:
        return Choice(self.policy.pick(arms, told, round_))

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision on the arms that it compares."""
        return self.stopping.decide(rivals(arms), told)

    def explain(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision with its verdicts."""
        return explained(self.policy, rivals(arms), told)

    def deciding_tolerance(self, arms: Sequence[Arm], told: int) -> tuple[float, float] | None:
        """The tolerance by the contrasts with the best generator, and that generator's value."""
        tolerance = deciding_tolerance(self.policy, rivals(arms), told)
        best = self.decide(arms, told).best
        value = next((arm.estimate.value for arm in arms if arm.estimate and arm.name == best), None)
        return None if tolerance is None or value is None else (tolerance, value)

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """True if every active arm has had its warm-up and has an estimate."""
        return all(arm.batches >= self.policy.warmup and arm.estimate is not None for arm in arms if arm.active)

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> Basis:
        """The positions of the estimates."""
        return Basis([generator.estimate_seq for generator in contenders])

    def pending(self, stored: ExperimentState) -> Pending:
        """The positions at which estimates are due."""
        return tuple(generator.due_seq for generator in stored.generators)

    def is_pending(self, stored: ExperimentState, pending: Pending) -> bool:
        """True if one of these estimates is missing."""
        assert isinstance(pending, tuple)
        # zip leaves out generators that were added since, which are the last ones. An ask does not wait for retired
        # generators, nor for estimates of batches that Redis has lost.
        generators = zip(stored.generators, pending, strict=False)
        return any(g.estimate_seq < min(due, g.due_seq) and g.state != "retired" for g, due in generators)


@dataclass(frozen=True, slots=True)
class ForMixture:
    """The goal "mixture": picks and decisions are made from the stored mixture."""

    policy: MixturePolicy
    stored: StoredMixture | None
    mixture: Mixture | None = field(compare=False)
    """What `stored` holds."""

    @property
    def stopping(self) -> Stopping:
        return self.policy.stopping

    @property
    def is_stale(self) -> bool:
        """False: asks wait for the mixture."""
        return False

    def pick(
        self,
        arms: Sequence[Arm],
        told: int,
        round_: int,
        context: AskedContext | None = None,
        overspent: float = 0.0,
    ) -> Choice:
        return Choice(self.policy.pick(arms, self.mixture, told, round_))

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision on the mixture."""
        return decide_mixture(self.stopping, arms, self.mixture, told)

    def explain(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision, whose reason says all."""
        return self.decide(arms, told)

    def deciding_tolerance(self, arms: Sequence[Arm], told: int) -> tuple[float, float] | None:
        """The bound of the gap and the mixture's value; None while there are too few samples for a decision."""
        if self.mixture is None or self.decide(arms, told).confidence is None:
            return None
        bound = self.mixture.gap_bound(self.stopping.threshold(len(self.mixture.generators), told))
        return (bound, self.mixture.value) if min(self.mixture.samples) >= FEWEST_SAMPLES else None

    def has_begun(self, arms: Sequence[Arm]) -> bool:
        """True if every active arm has had its warm-up and is in the mixture."""
        known = () if self.mixture is None else self.mixture.generators
        return all(arm.batches >= self.policy.warmup and arm.name in known for arm in arms if arm.active)

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> Basis:
        """The positions up to which the mixture was made, 0 where a generator is not part of it, and its name."""
        if self.stored is None:
            return Basis([0] * len(contenders))
        return Basis(positions_of(self.stored.parts, contenders), mixture=self.stored.made)

    def pending(self, stored: ExperimentState) -> Pending:
        """The name of the mixture that is due to be made again."""
        return _name(stored) if stored.is_mixture_due else None

    def is_pending(self, stored: ExperimentState, pending: Pending) -> bool:
        """True if the mixture is still that one, and due."""
        return pending is not None and pending == _name(stored) and stored.is_mixture_due


def _name(stored: ExperimentState) -> str:
    return "" if stored.mixture is None else stored.mixture.made


def policy_of(experiment: Experiment, needed: int) -> Policy | MixturePolicy:
    """The policy, whose warm-up brings the `needed` samples per generator that fix open kernels, or a first mixture."""
    config = experiment.config
    stopping = Stopping(config.delta, config.tolerance)
    needed = max(needed, LEAST_SAMPLES) if config.goal == "mixture" else needed
    warmup = warmup_batches(type(config.metric), config.bound, config.warmup, needed, config.batch_size)
    if config.goal == "mixture":
        return MixturePolicy.from_metric(config.policy, config.metric, warmup, stopping, config.seed)
    return Policy(config.policy, warmup, stopping, config.seed)


def goal_of(experiment: Experiment, stored: ExperimentState, needed: int, known: Goal | None = None) -> Goal:
    """The goal, with its policy; needed: as of `policy_of`.

    known: of an earlier state, whose mixture is taken if it is the same one, or whose model of contexts. Raises
    ValueError, KeyError or TypeError if the mixture cannot be read.
    """
    if experiment.config.goal == "route":
        return route_goal(experiment, stored, needed, known if isinstance(known, ForRouting) else None)
    policy = policy_of(experiment, needed)
    if isinstance(policy, Policy):
        return ForBest(policy)
    return ForMixture(policy, stored.mixture, _mixture(stored.mixture, known))


def _mixture(stored: StoredMixture | None, known: Goal | None) -> Mixture | None:
    if stored is None:
        return None
    if isinstance(known, ForMixture) and known.stored is not None and known.stored.made == stored.made:
        return known.mixture
    return Mixture.from_dict(json.loads(stored.payload))


def shares_of(mixture: Mixture | None) -> dict[str, float]:
    """The weight of each generator in a mixture; none without one."""
    return {} if mixture is None else dict(zip(mixture.generators, mixture.weights, strict=True))
