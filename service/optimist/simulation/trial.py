"""Runs one policy on one draw of the samples: Protocol 1 of the papers, with the service's own `Evaluation`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.local.evaluation import Evaluation
from optimist.metrics.threads import one_thread
from optimist.simulation.contenders import Contender
from optimist.simulation.sources.base import Draw, Source

NO_GENERATOR = -1
"""The value for no generator: no best one is named yet, or the trial has ended."""


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial. Generators are given by index, scores are on the natural scale."""

    picks: NDArray[np.int32]
    """The generator picked in each round played (rounds played,)."""
    named: NDArray[np.int32]
    """The generator named best after each round; `NO_GENERATOR` while a generator has no estimate."""
    estimates: NDArray[np.float64]
    """Value, lower and upper end of the last estimate of each generator (G, 3); NaN without an estimate."""
    samples: NDArray[np.int64]
    """Samples drawn from each generator (G,)."""
    decided: bool
    """Whether the stopping rule ended the trial."""
    exhausted: str | None
    """The generator that ran out of samples, if that ended the trial."""


@dataclass(frozen=True)
class Trial:
    """One policy in one trial. `settings` are the parameters of `Evaluation` that all policies share."""

    sources: Mapping[str, Source]
    contender: Contender
    settings: Mapping[str, Any]
    number: int
    rounds: int
    seed: int
    stop: bool
    shuffle: bool
    paired: bool
    """Whether row i of every generator is drawn alike, and estimates are compared by index."""

    def evaluation(self) -> Evaluation:
        """A new `Evaluation` for this trial. Raises FixError for invalid settings."""
        settings = {**self.settings, **self.contender.settings, "paired": self.paired}
        return Evaluation(list(self.sources), **settings, seed=self.seed + self.number)

    def play(self, advance: Callable[[], None] = lambda: None) -> TrialResult:
        """Ask, draw and tell until the last round, the decision, or a generator without a full batch left.

        `advance` is called after each round.
        """
        with one_thread():
            return self._play(advance)

    def told(self, evaluation: Evaluation) -> Iterator[int]:
        """Ask, draw and tell: after each round the place of its generator. Ends early if that has no full batch left.

        The generator without one is then what `evaluation` asks for.
        """
        names = list(self.sources)
        places = {name: place for place, name in enumerate(names)}
        draws = {name: Draw(self.seed, self.number, name, self.shuffle, self.paired) for name in names}
        streams = {name: source.stream(draws[name]) for name, source in self.sources.items()}
        for _ in range(self.rounds):
            name = evaluation.ask()
            batch = streams[name].take(evaluation.batch_size)
            if batch is None:
                return
            evaluation.tell(name, batch)
            yield places[name]

    def _play(self, advance: Callable[[], None]) -> TrialResult:
        evaluation, names = self.evaluation(), list(self.sources)
        places = {name: place for place, name in enumerate(names)}
        picks, named = (np.full(self.rounds, NO_GENERATOR, np.int32) for _ in range(2))
        samples = np.zeros(len(names), np.int64)
        decided, played = False, 0
        for place in self.told(evaluation):
            decision = evaluation.decision(explain=False)
            picks[played] = place
            named[played] = NO_GENERATOR if decision.best is None else places[decision.best]
            samples[place] += evaluation.batch_size
            decided = self.stop and decision.decided
            played += 1
            advance()
            if decided:
                break
        exhausted = None if decided or played == self.rounds else evaluation.ask()
        return TrialResult(picks[:played], named[:played], _ends(evaluation), samples, decided, exhausted)


def _ends(evaluation: Evaluation) -> NDArray[np.float64]:
    rows = np.full((len(evaluation.generators), 3), np.nan)
    for place, estimate in enumerate(evaluation.estimates().values()):
        if estimate is not None:
            ends = (estimate.value, estimate.lower, estimate.upper)
            rows[place] = [estimate.natural(end) for end in ends]
    return rows
