"""The goal "mixture" in a simulation: one policy in its trials, and what its samples and weights are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from optimist.metrics.threads import one_thread
from optimist.numerics.mixture import Mixture
from optimist.numerics.programme import Floats
from optimist.simulation.run import Curve, curve_of, mean_of
from optimist.simulation.trial import NO_GENERATOR, Trial


@dataclass(frozen=True)
class Named:
    """A mixture as it was named after a round."""

    played: int
    """Rounds played by then."""
    mixture: Mixture


@dataclass(frozen=True)
class Play:
    """The result of one trial of a policy that mixtures."""

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

    def play_mixture(self) -> Play:
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


MARKS = 24
"""Rounds at which losses are computed, at most: the true loss of a mixture can take as long as an estimate."""
MEASURES = ("drawn_excess", "named_excess", "drawn_share", "named_share", "gain_holds")
"""The curves of a run, by name."""


def marks_of(rounds: int, generators: int) -> NDArray[np.int64]:
    """The rounds at which losses are computed, evenly in their logarithm, from one batch of each generator on."""
    first = min(generators, rounds)
    return np.unique(np.geomspace(first, rounds, MARKS).round().astype(np.int64))


@dataclass(frozen=True)
class MixtureSummary:
    """The numbers of one policy at the end of its trials, each with the standard error of its mean over trials.

    None if unknown. Excesses are true losses above the least one, on the metric's scale; shares are of the least loss.
    """

    policy: str
    drawn_excess: float
    """The excess of the samples drawn, as the mixture in which every sample counts alike."""
    drawn_excess_se: float | None
    drawn_share: float | None
    drawn_share_se: float | None
    named_excess: float | None
    """The excess of the weights named."""
    named_excess_se: float | None
    named_share: float | None
    named_share_se: float | None
    gain: float | None
    """The mean gain of the mixture over the best single generator, as its policy estimated it."""
    gain_se: float | None
    gain_holds: float | None
    """The part of the trials in which the interval of the gain has the true gain of the weights named."""
    gain_holds_se: float | None
    samples: float
    samples_se: float | None
    decided: int
    stop_samples: float | None
    """Samples until the decision, in the trials that have one."""
    stop_samples_se: float | None
    wrong_stops: int
    """Decisions on weights whose excess is larger than the tolerance."""
    exhausted: int
    first_exhausted: int | None
    trials: int


@dataclass(frozen=True, eq=False)
class MixtureRun:
    """The trials of one policy. Curves are known after the rounds `marks` (M,)."""

    marks: NDArray[np.int64]
    picks: NDArray[np.int32]
    """(trials, rounds), `NO_GENERATOR` after the end."""
    samples: NDArray[np.int64]
    """Samples drawn from each generator (trials, G)."""
    weights: Floats
    """The last weights named (trials, G); NaN without."""
    drawn_excess: Floats
    """(trials, M) as the other curves: NaN where unknown; after a decision the last value is repeated."""
    named_excess: Floats
    drawn_share: Floats
    named_share: Floats
    gain_holds: Floats
    """1 where the interval of the newest mixture's gain has the true gain of its weights, else 0."""
    gains: Floats
    """The last gain (trials,); NaN without."""
    decided: NDArray[np.bool_]
    exhausted: tuple[str | None, ...]
    batch_size: int
    tolerated: float
    """The excess that does not matter to the stopping rule."""

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rounds played in each trial (trials,)."""
        return (self.picks != NO_GENERATOR).sum(axis=1)

    @property
    def pick_shares(self) -> Floats:
        """The fraction of all samples that was drawn from each generator (trials, G)."""
        return self.samples / np.maximum(self.samples.sum(axis=1, keepdims=True), 1)

    def curve(self, measure: str) -> Curve:
        """The mean over trials of a measure (one of `MEASURES`) at each of the `marks`."""
        return curve_of(getattr(self, measure))

    def summary(self, policy: str) -> MixtureSummary:
        """The numbers at the end of the trials, averaged over them."""
        drawn = self.lengths * self.batch_size
        ends = {measure: _last(getattr(self, measure)) for measure in MEASURES} | {"gain": self.gains}
        numbers = {key: value for name, values in ends.items() for key, value in mean_of(name, values).items()}
        early = [length for length, name in zip(self.lengths.tolist(), self.exhausted, strict=True) if name is not None]
        return MixtureSummary(
            policy=policy,
            **numbers,
            **mean_of("samples", drawn),
            decided=int(self.decided.sum()),
            **mean_of("stop_samples", drawn[self.decided]),
            wrong_stops=int((ends["named_excess"][self.decided] > self.tolerated).sum()),
            exhausted=len(early),
            first_exhausted=min(early, default=None),
            trials=len(self.picks),
        )


@dataclass(frozen=True)
class Judge:
    """Judges plays by the truth."""

    loss: Callable[[Floats], float]
    least: float
    best_single: float
    """The least loss of a single generator."""
    is_log: bool
    """Whether losses are logarithms, so that a share is of that of which they are."""
    tolerated: float
    delta: float

    def share(self, excess: Floats) -> Floats:
        """An excess as a share of the least loss; NaN where that is not above 0."""
        if self.is_log:
            return np.expm1(excess)
        return excess / self.least if self.least > 0.0 else np.full_like(excess, math.nan)

    def run_of(self, plays: Sequence[Play], generators: int, rounds: int, batch_size: int) -> MixtureRun:
        """The run of a policy from its trials of at most `rounds` rounds."""
        marks = marks_of(rounds, generators)
        picks = np.full((len(plays), rounds), NO_GENERATOR, np.int32)
        for row, play in zip(picks, plays, strict=True):
            row[: len(play.picks)] = play.picks
        rows = [self._judged(play, marks, generators) for play in plays]
        drawn, named, holds = (np.stack(each) for each in zip(*rows, strict=True))
        last = [play.named[-1].mixture if play.named else None for play in plays]
        return MixtureRun(
            marks=marks,
            picks=picks,
            samples=np.stack([np.bincount(play.picks, minlength=generators) * batch_size for play in plays]),
            weights=np.stack([np.full(generators, math.nan) if m is None else np.array(m.weights) for m in last]),
            drawn_excess=drawn,
            named_excess=named,
            drawn_share=self.share(drawn),
            named_share=self.share(named),
            gain_holds=holds,
            gains=np.array([math.nan if m is None else m.gain for m in last]),
            decided=np.array([play.decided for play in plays]),
            exhausted=tuple(play.exhausted for play in plays),
            batch_size=batch_size,
            tolerated=self.tolerated,
        )

    def _judged(self, play: Play, marks: NDArray[np.int64], generators: int) -> tuple[Floats, Floats, Floats]:
        """Excess of the samples drawn, of the weights named, and whether the gain holds, at each mark (M,)."""
        drawn, named, holds = (np.full(len(marks), math.nan) for _ in range(3))
        judged: dict[int, tuple[float, float]] = {}
        length = len(play.picks)
        for place, mark in enumerate(marks):
            if mark > length and not play.decided:
                break
            counts = np.bincount(play.picks[: min(mark, length)], minlength=generators)
            if place and mark > length and marks[place - 1] >= length:
                drawn[place], named[place], holds[place] = drawn[place - 1], named[place - 1], holds[place - 1]
                continue
            drawn[place] = self.loss(counts / counts.sum()) - self.least
            newest = sum(each.played <= mark for each in play.named) - 1
            if newest >= 0:
                judged.setdefault(newest, self._of(play.named[newest]))
                named[place], holds[place] = judged[newest]
        return drawn, named, holds

    def _of(self, named: Named) -> tuple[float, float]:
        mixture = named.mixture
        loss = self.loss(np.array(mixture.weights))
        apart = abs(mixture.gain - (self.best_single - loss))
        z = NormalDist().inv_cdf(1.0 - self.delta / 2.0)
        return loss - self.least, float(apart <= z * mixture.gain_error)


def _last(values: Floats) -> Floats:
    """The last known value of each row (trials,); NaN without any."""
    known = ~np.isnan(values)
    last = values.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    return np.where(known.any(axis=1), values[np.arange(len(values)), last], math.nan)
