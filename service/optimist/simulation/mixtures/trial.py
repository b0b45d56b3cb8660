"""Runs one policy of the goal "mixture" on one draw of the samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.metrics.threads import one_thread
from optimist.numerics.mixture import Mixture
from optimist.simulation.trial import Trial


@dataclass(frozen=True)
class Named:
    """A mixture as it was named after a round."""

    played: int
    """Rounds played by then."""
    mixture: Mixture


@dataclass(frozen=True)
class Play:
    """The result of one trial."""

    picks: NDArray[np.int32]
    """The generator, by index, picked in each round played (rounds played,)."""
    named: tuple[Named, ...]
    """The mixtures in their order, each when it was new."""
    decided: bool
    """Whether the stopping rule ended the trial."""
    exhausted: str | None
    """The generator that ran out of samples, if that ended the trial."""


@dataclass(frozen=True)
class MixtureTrial(Trial):
    """One policy in one trial, with the goal "mixture"."""

    def blended(self) -> Play:
        """Ask, draw and tell until the last round, the decision, or a generator without a full batch left."""
        with one_thread():
            evaluation = self.evaluation()
            picks: list[int] = []
            named: list[Named] = []
            decided = False
            for place in self.told(evaluation):
                picks.append(place)
                newest = evaluation.latest_mixture
                if newest is not None and (not named or newest is not named[-1].mixture):
                    named.append(Named(len(picks), newest))
                if self.stop and evaluation.decision(explain=False).decided:
                    decided = True
                    break
            is_short = not decided and len(picks) < self.rounds
            exhausted = evaluation.ask() if is_short else None
            return Play(np.array(picks, np.int32), tuple(named), decided, exhausted)
