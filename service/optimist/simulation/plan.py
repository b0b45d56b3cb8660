"""What is played in a simulation: every policy in every trial, under the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from optimist.simulation.asked import Asked
from optimist.simulation.contenders import Contender
from optimist.simulation.trial import Trial
from optimist_client.config import Goal
from optimist_client.errors import FixError

Played = TypeVar("Played")
Kind = TypeVar("Kind", bound=Trial)


@dataclass(frozen=True)
class Plan:
    """The policies that compete, and the settings that all of them share."""

    asked: Asked
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
        """What came out of `trials_of`, by policy."""
        count = len(self.contenders)
        return {each.label: list(played[place::count]) for place, each in enumerate(self.contenders)}

    def _trial(self, kind: type[Kind], contender: Contender, number: int) -> Kind:
        asked = self.asked
        shared: dict[str, Any] = {**asked.settings, "metric": asked.metric, "batch_size": self.batch_size}
        if self.goal != "best":
            shared["goal"] = self.goal
        return kind(
            asked.sources,
            contender,
            shared,
            number,
            self.rounds,
            self.seed,
            self.stop,
            self.shuffle,
            asked.paired,
        )
