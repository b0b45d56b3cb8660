"""What is played in a simulation, every policy in every trial under the same settings, and the processes for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from optimist.metrics.threads import one_thread
from optimist.simulation.inputs import SimulationInputs
from optimist.simulation.trial import Contender, Trial
from optimist_client.config import Goal
from optimist_client.errors import FixError

Done = TypeVar("Done")


class Runner:
    """Runs work in parallel and shows its progress on stderr."""

    def __init__(self, jobs: int | None, progress: bool) -> None:
        self._jobs = jobs
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        times = TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()
        self._progress = Progress(*columns, *times, console=Console(stderr=True), disable=not progress)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def run(self, what: str, work: Sequence[Callable[[], Done]]) -> list[Done]:
        """The results of all pieces of work, in their order. The pieces run in any order."""
        shown = self._progress.add_task(what, total=len(work))
        done: dict[int, Done] = {}
        parallel: Any = Parallel(n_jobs=self._jobs, return_as="generator_unordered")
        # Each piece computes on one thread. Where joblib runs them in threads of this process, the end of one must not
        # give more to the others.
        with one_thread():
            for place, found in parallel(delayed(_numbered)(place, piece) for place, piece in enumerate(work)):
                done[place] = found
                self._progress.advance(shown)
        return [done[place] for place in range(len(work))]


def _numbered(place: int, piece: Callable[[], Done]) -> tuple[int, Done]:
    return place, piece()


Played = TypeVar("Played")
Kind = TypeVar("Kind", bound=Trial)


@dataclass(frozen=True)
class SimulationPlan:
    """The policies that compete, and the settings that all of them share."""

    inputs: SimulationInputs
    contenders: Sequence[Contender]
    goal: Goal
    rounds: int
    batch_size: int
    trials: int
    seed: int
    stop: bool
    shuffle: bool

    def check(self) -> None:
        """Raise FixError, naming the policy, if an `Evaluation` does not take its settings."""
        for contender in self.contenders:
            try:
                self._trial(Trial, contender, 0).evaluation()
            except ValueError as error:
                raise FixError(f"policy {contender.label!r}: {error}") from None

    def trials_of(self, kind: type[Kind]) -> list[Kind]:
        """Every trial of every policy: the policies of one trial stand together."""
        return [self._trial(kind, each, number) for number in range(self.trials) for each in self.contenders]

    def sorted(self, played: Sequence[Played]) -> dict[str, list[Played]]:
        """The results of `trials_of`, given in that order, by policy."""
        count = len(self.contenders)
        return {each.label: list(played[place::count]) for place, each in enumerate(self.contenders)}

    def _trial(self, kind: type[Kind], contender: Contender, number: int) -> Kind:
        inputs = self.inputs
        shared: dict[str, Any] = {**inputs.settings, "metric": inputs.metric, "batch_size": self.batch_size}
        if self.goal != "best":
            shared["goal"] = self.goal
        return kind(
            inputs.sources,
            contender,
            shared,
            number,
            self.rounds,
            self.seed,
            self.stop,
            self.shuffle,
            inputs.paired,
        )
