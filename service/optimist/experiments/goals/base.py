"""The interface of goals: the choice of the next pick, the decision, and the waits of asks. No I/O."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from optimist.estimates.mixture import Mixture
from optimist.experiments.admission import needed_to_fit
from optimist.experiments.goals.asked import AskedContext, Choice, PickBasis
from optimist.policies import Arms, Decision, Stopping
from optimist.records import ArtefactPoint, ExperimentState, GeneratorState, LogExtent, StoredArtefact
from optimist_client.models import Experiment, ExperimentConfig, Report, WaitReason

if TYPE_CHECKING:
    from optimist.experiments.state import PolicyState

Pending = tuple[int, ...] | str | None
"""The wait of an ask: the log positions of due estimates by ordinal; or the name of the mixture that is due to be
made again, "" for the first one, None where none is due."""


class Goal(Protocol):
    """The goal of an experiment, at one moment. `arms` are all contenders.

    Picks and decisions are pure functions of the config, the counts and what was made of the samples. The defaults fit
    a goal that goes by the estimates.
    """

    mixture: Mixture | None = None
    """The mixture that picks are made from; None where they are not made from one, and before the first."""
    awaits_answers: bool = False
    """True if a decision waits for all answers on their way."""
    is_stale: bool = False
    """True if picks made now rest on what is too old, although no ask waits for anything newer."""

    @property
    @abstractmethod
    def stopping(self) -> Stopping:
        """The stopping rule."""

    @classmethod
    @abstractmethod
    def from_state(cls, experiment: Experiment, stored: ExperimentState, needed: int, earlier: Goal | None) -> Self:
        """The goal with its policy, whose warm-up brings what is `needed`.

        earlier: of an earlier state, of which what still stands is taken. Raises ValueError, KeyError or TypeError if
        the stored state cannot be read.
        """

    @classmethod
    def needed(cls, config: ExperimentConfig, active: int) -> int:
        """The amount that each of so many active generators must bring, as of `brought`, before kernels can be
        fixed."""
        return needed_to_fit(config.metric, active)

    @classmethod
    def brought(cls, generator: GeneratorState) -> int:
        """The amount that a generator has brought: its samples."""
        return generator.samples

    @classmethod
    def weighs_costs(cls, config: ExperimentConfig) -> bool:
        """True if costs matter to the picks."""
        return config.weigh_costs

    @classmethod
    def check_added(cls, config: ExperimentConfig, count: int, cost: float | None) -> None:
        """Raise FixError unless a generator with this cost may be added, after which there are so many."""

    @abstractmethod
    def pick(self, arms: Arms, told: int, number: int, context: AskedContext | None, overspent: float) -> Choice:
        """The generator to sample next. Raises FixError if no arm is active.

        number: of the pick. context: of the prompt that it is for, where asks bring some; overspent:
        as of the method.
        """

    def overspent(self, state: PolicyState) -> float:
        """The cost above the budget that the goal keeps."""
        return 0.0

    @abstractmethod
    def decide(self, arms: Arms, told: int) -> Decision:
        """The decision of the stopping rule now."""

    def explain(self, arms: Arms, told: int) -> Decision:
        """The decision with verdicts, on rivals and limits, and the hardest rival, where the goal has these."""
        return self.decide(arms, told)

    def deciding_tolerance(self, arms: Arms, told: int) -> tuple[float, float] | None:
        """The tolerance above which the decision would be made now, and the value that a share of it is of."""
        return None

    def with_tolerance(self, tolerance: str) -> Goal | None:
        """The same goal with this tolerance; None where it has one, or would not decide sooner by one."""
        return None

    @abstractmethod
    def has_begun(self, arms: Arms) -> bool:
        """True if the warm-up is over."""

    def used(self, contenders: Sequence[GeneratorState], choice: Choice) -> PickBasis:
        """The estimates, mixture or model that this choice rests on, if it is made now."""
        return PickBasis([generator.primary.estimate_seq for generator in contenders])

    def rests_on(self, generator: GeneratorState, position: int) -> bool:
        """True if a decision made now rests on the generator's batch at this log position."""
        return position <= generator.primary.estimate_seq

    def warnings(self, stored: ExperimentState) -> tuple[str, ...]:
        """Warnings of a decision."""
        return ()

    def pending(self, stored: ExperimentState) -> Pending:
        """The wait of an ask that comes now: the positions at which estimates are due."""
        return tuple(generator.due_seq for generator in stored.generators)

    def warms_up(self, arms: Arms) -> bool:
        """True if the next pick among the active arms is one of the warm-up, and rests on nothing that is made."""
        return False

    def is_by_counts(self, arms: Arms) -> bool:
        """True if the next pick among the active arms follows from the counts alone, and brings what all need."""
        return self.warms_up(arms)

    waits_for: ClassVar[WaitReason] = WaitReason.ESTIMATES
    """The name of what is pending in answers to asks."""

    def is_pending(
        self, stored: ExperimentState, lacking: Mapping[int, GeneratorState], pending: Pending, late: float = 0.0
    ) -> bool:
        """True if something of that has not been made yet, and is still to be waited for.

        lacking: the generators that are not retired and lack an estimate that is due, by ordinal. late: the share of a
        generator's batches that its estimate may lack without being waited for.
        """
        assert isinstance(pending, tuple)
        # Generators that were added since are the last ones. An ask does not wait for estimates of batches that Redis
        # has lost.
        told = (g for ordinal, g in lacking.items() if ordinal < len(pending))
        awaited = ((g, (1.0 - late) * min(pending[g.ordinal], g.due_seq)) for g in told)
        return any(g.scored_until(stored.limited) < position for g, position in awaited)


class WithModel(Goal):
    """A goal whose picks are made from a model, which a scorer makes of all generators whenever it has been outgrown.

    A table of the same samples, made when somebody asks for it, says in reports what the model is worth.
    """

    learner: ClassVar[str]
    """The `estimation.Learner` that makes the model, as "module:class", whose `from_config` takes the config."""

    @property
    @abstractmethod
    def model(self) -> str:
        """The name of the newest model that has been read; "" before the first."""

    @abstractmethod
    def with_model(self, stored: StoredArtefact) -> WithModel:
        """The same goal with this model. Raises ValueError if it cannot be read."""

    def marked(self, *, is_stale: bool) -> WithModel:
        """The same goal with this mark, which picks then bear."""
        return self

    def foresee(self, contexts: Sequence[AskedContext], limit: int) -> None:
        """Compute what picks for the first contexts need, at most so many. Runs in a thread."""

    @classmethod
    def work(cls, config: ExperimentConfig) -> float:
        """About the multiplications that a model takes, in units of an eigendecomposition of order 1."""
        return len(config.generators)

    @abstractmethod
    def table(self, state: PolicyState, rows: Any, parts: Mapping[int, LogExtent]) -> Any:
        """The table of what `Learner.rows` made of these parts."""

    @classmethod
    @abstractmethod
    def read_table(cls, state: PolicyState, stored: StoredArtefact) -> Any:
        """The table as it was stored, with what is known of it now. Raises pydantic's ValidationError."""

    @classmethod
    def has_other_costs(cls, state: PolicyState, table: Any) -> bool:
        """True if costs have changed since this table was made."""
        return False

    @classmethod
    def table_point(cls, table: Any) -> str:
        """A table as one point of a chart; "" where none is drawn."""
        return ""

    @classmethod
    def charted(cls, points: Sequence[ArtefactPoint], after: int) -> dict[str, Any]:
        """The fields of `Progress` of points made after so many batches were recorded, and of the last one before."""
        return {}

    @classmethod
    @abstractmethod
    def reported(cls, report: Report, table: Any) -> Report:
        """The report with what this table says."""
