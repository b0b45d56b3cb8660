"""Judges of goals whose policies sample generators: an `Evaluation` chooses, and the metric gives the truth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from optimist.simulation.inputs import SimulationInputs, check_amounts
from optimist.simulation.judges.judge import GoalJudge, Setup
from optimist.simulation.plan import Plan
from optimist.simulation.run import Play
from optimist.simulation.runner import Runner
from optimist.simulation.sources import Draw, Rows, Source
from optimist.simulation.trial import Contender, Recorder, Trial
from optimist_client.errors import FixError
from optimist_client.metrics import Metric


@dataclass(frozen=True, eq=False)
class SampledJudge(GoalJudge):
    """The judge of a goal that a metric decides."""

    takes = frozenset(
        {"metric", "watch", "truth", "batch_size", "shuffle", "paired", "prompts_are", "stop", "delta", "tolerance"}
    )
    recorder: ClassVar[type[Recorder]]

    inputs: SimulationInputs
    metric: Metric

    @classmethod
    def from_asked(cls, asked: Setup, plan: Plan, policies: Sequence[Contender], runner: Runner) -> Self:
        inputs = SimulationInputs.from_asked(asked, plan)
        for contender in policies:
            try:
                cls._trial(inputs, contender, 0).evaluation()
            except ValueError as error:
                raise FixError(f"policy {contender.label!r}: {error}") from None
        if plan.prompts_are is None:  # a list may end
            check_amounts(inputs.sources, plan)
        return cls.with_truth(inputs, asked.truth, runner)

    @classmethod
    @abstractmethod
    def with_truth(cls, inputs: SimulationInputs, truth: Any, runner: Runner) -> Self:
        """The judge by the caller's truth, or else by all samples."""

    @property
    def unit(self) -> str:
        return self.metric.title

    @property
    def subject(self) -> str:
        return f"{self.unit} of {len(self.generators)} generators{', paired' * bool(self.plan.paired)}"

    def trials(self, policies: Sequence[Contender]) -> list[Callable[[], Play]]:
        numbers = range(self.plan.trials)
        return [self._trial(self.inputs, policy, number).play for number in numbers for policy in policies]

    @classmethod
    def _trial(cls, inputs: SimulationInputs, contender: Contender, number: int) -> Trial:
        plan = inputs.plan
        shared = {"metric": inputs.metric, "delta": plan.delta, "tolerance": plan.tolerance, "goal": cls.goal}
        return Trial(inputs.sources, contender, shared, plan, number, cls.recorder)

    def notes(self) -> Iterator[str]:
        if self.plan.paired:
            yield "Paired: sample i of every generator had the same seed or prompt, and scores were compared by sample."


def all_samples(name: str, source: Source, seed: int, unlimited: int = 20_000) -> tuple[Rows, int]:
    """All samples of a source, or as many of an `unlimited` one, drawn apart from all trials; and how many they are."""
    count = unlimited if source.samples is None else source.samples
    rows = source.stream(Draw(seed, None, name, shuffle=source.samples is None)).take(count)
    assert rows is not None
    return rows, count
