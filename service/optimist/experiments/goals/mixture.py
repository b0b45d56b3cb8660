"""The goal "mixture": which weights make the best mixture of all generators, by the mixture that was made last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from optimist.estimates.mixture import Mixture
from optimist.experiments.goals.asked import AskedContext, Choice, PickBasis, positions_of
from optimist.experiments.goals.base import Goal, Pending
from optimist.policies import Arms, Decision, MixturePolicy, Stopping, decide_mixture, warmup_batches
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import MIN_MIXED, ExperimentState, GeneratorState, StoredArtefact, codec
from optimist_client.models import Experiment, WaitReason


@dataclass(frozen=True, slots=True)
class ForMixture(Goal):
    """The goal "mixture": picks and decisions are made from the stored mixture."""

    policy: MixturePolicy
    stored: StoredArtefact | None
    mixture: Mixture | None = field(default=None, compare=False)
    """The mixture that `stored` holds."""

    @property
    def stopping(self) -> Stopping:
        return self.policy.stopping

    @classmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        """The warm-up also brings the samples of a first mixture."""
        config, made = experiment.config, stored.mixture
        needed = max(needed, MIN_MIXED)
        warmup = warmup_batches(type(config.metric), config.bound, config.warmup, needed, config.batch_size)
        stopping = Stopping(config.delta, config.tolerance)
        policy = MixturePolicy.from_metric(config.policy, config.metric, warmup, stopping, config.seed)
        if isinstance(earlier, cls) and earlier.stored and made and earlier.stored.made == made.made:
            return cls(policy, made, earlier.mixture)
        return cls(policy, made, None if made is None else codec.decode(Mixture, made.payload))

    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        return Choice(self.policy.pick(arms, self.mixture, told, number))

    def decide(self, arms: Arms, told: int) -> Decision:
        """The decision on the mixture."""
        return decide_mixture(self.stopping, arms, self.mixture, told)

    def deciding_tolerance(self, arms: Arms, told: int) -> tuple[float, float] | None:
        """The bound of the gap and the mixture's value; None while there are too few samples for a decision."""
        if self.mixture is None or self.decide(arms, told).confidence is None:
            return None
        bound = self.mixture.gap_bound(self.stopping.threshold(len(self.mixture.generators), told))
        return (bound, self.mixture.value) if min(self.mixture.samples) >= FEWEST_SAMPLES else None

    def has_begun(self, arms: Arms) -> bool:
        """True if every active arm has had its warm-up and is in the mixture."""
        mixed = () if self.mixture is None else self.mixture.generators
        return all(arm.batches >= self.policy.warmup and arm.name in mixed for arm in arms if arm.active)

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> PickBasis:
        """The positions up to which the mixture was made, 0 where a generator is not part of it, and its name."""
        if self.stored is None:
            return PickBasis([0] * len(contenders))
        return PickBasis(positions_of(self.stored.parts, contenders), mixture=self.stored.made)

    def rests_on(self, generator: GeneratorState, position: int) -> bool:
        """True: a mixture is made of all batches."""
        return True

    def warnings(self, stored: ExperimentState) -> tuple[str, ...]:
        error = stored.mixture_error
        return () if error is None else (f"the mixture cannot be scored: {error}",)

    def pending(self, stored: ExperimentState) -> Pending:
        """The name of the mixture that is due to be made again."""
        return _name(stored) if stored.is_mixture_due else None

    waits_for = WaitReason.MIXTURE

    def is_pending(
        self, stored: ExperimentState, lacking: Mapping[int, GeneratorState], pending: Pending, late: float = 0.0
    ) -> bool:
        """True if the mixture is still that one, and due."""
        return pending is not None and pending == _name(stored) and stored.is_mixture_due


def _name(stored: ExperimentState) -> str:
    return "" if stored.mixture is None else stored.mixture.made
