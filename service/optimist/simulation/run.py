"""The trials of one policy in a simulation: picks, regret and accuracy in every trial, and their summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.simulation.trial import NO_GENERATOR, TrialResult

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
RIGHT = 0.95
"""The fraction of trials that must name the best generator for `samples_to_95`."""
RESAMPLES = 400
"""Number of bootstrap resamples of the trials for the standard error of `samples_to_95`."""
MEASURES = ("regret", "average_regret", "optimal_pick_ratio", "accuracy")
"""The curves of a run, by name."""


@dataclass(frozen=True)
class Curve:
    """A measure after each round: mean and standard error (rounds,) over the trials in which it is known.

    The mean is NaN if it is known in no trial, the error also if it is known in only one.
    """

    mean: Floats
    error: Floats
    trials: NDArray[np.int64]
    """Number of trials in which it is known, for each round (rounds,)."""


@dataclass(frozen=True)
class Summary:
    """The numbers of one policy, each with the standard error of its mean over trials; None if unknown."""

    policy: str
    regret: float
    regret_se: float | None
    average_regret: float
    average_regret_se: float | None
    optimal_pick_ratio: float
    optimal_pick_ratio_se: float | None
    accuracy: float
    """The fraction of trials that name a best generator at their end."""
    accuracy_se: float | None
    samples_to_95: float | None
    """Samples after which at least 95 % of the trials name a best generator until the end; None: never."""
    samples_to_95_se: float | None
    samples: float
    """Samples drawn per trial."""
    samples_se: float | None
    decided: int
    """Trials that the stopping rule ended."""
    wrong_stops: int
    """Trials that the stopping rule ended with a wrong generator."""
    stop_samples: float | None
    """Mean number of samples drawn in the trials that the stopping rule ended."""
    stop_samples_se: float | None
    exhausted: int
    """Trials that ended early because a generator ran out of samples."""
    first_exhausted: int | None
    """Number of rounds in the shortest of these trials."""
    trials: int


@dataclass(frozen=True, eq=False)
class Run:
    """All trials of one policy. Rows are trials, columns rounds or generators; scores are on the natural scale."""

    picks: NDArray[np.int32]
    """The generator picked in each round (trials, rounds); −1 once the trial has ended."""
    named: NDArray[np.int32]
    """The generator named best after each round (trials, rounds); −1 for none, or once the trial has ended."""
    estimates: Floats
    """Value, lower and upper end of each generator's last estimate (trials, G, 3); NaN without an estimate."""
    samples: NDArray[np.int64]
    """Samples drawn from each generator (trials, G)."""
    decided: Bools
    """Whether the stopping rule ended the trial (trials,)."""
    exhausted: tuple[str | None, ...]
    """The generator that ran out of samples, if that ended the trial."""
    batch_size: int
    gaps: Floats
    """The difference between each generator's true score and the best one's (G,), ≥ 0."""
    is_best: Bools
    """Whether each generator counts as best (G,)."""

    @classmethod
    def from_plays(
        cls, plays: Sequence[TrialResult], rounds: int, batch_size: int, gaps: Floats, is_best: Bools
    ) -> Run:
        """Combine the results of all trials."""

        def padded(rows: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
            return np.stack([np.pad(row, (0, rounds - len(row)), constant_values=NO_GENERATOR) for row in rows])

        return cls(
            picks=padded([played.picks for played in plays]),
            named=padded([played.named for played in plays]),
            estimates=np.stack([played.estimates for played in plays]),
            samples=np.stack([played.samples for played in plays]),
            decided=np.array([played.decided for played in plays]),
            exhausted=tuple(played.exhausted for played in plays),
            batch_size=batch_size,
            gaps=gaps,
            is_best=is_best,
        )

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rounds played in each trial (trials,)."""
        return (self.picks != NO_GENERATOR).sum(axis=1)

    @cached_property
    def regret(self) -> Floats:
        """Σ of the gaps of the picks so far (trials, rounds), equations.md §5.

        After a decision the last value is repeated, as no more batches are drawn. After the end of a trial that ran out
        of samples the value is unknown: NaN. The same applies to the other measures.
        """
        return self._carried(np.cumsum(np.where(self._is_played, self.gaps[self.picks], 0.0), axis=1))

    @cached_property
    def average_regret(self) -> Floats:
        """Regret divided by the rounds played so far (trials, rounds)."""
        return self.regret / self._rounds_so_far

    @cached_property
    def optimal_pick_ratio(self) -> Floats:
        """The fraction of the rounds so far that picked a best generator (trials, rounds)."""
        hits = np.cumsum(self._is_played & self.is_best[self.picks], axis=1)
        return self._carried(hits / self._rounds_so_far)

    @cached_property
    def accuracy(self) -> Floats:
        """1 if the named generator is a best one, else 0 (trials, rounds)."""
        return self._carried(((self.named != NO_GENERATOR) & self.is_best[self.named]).astype(np.float64))

    def curve(self, measure: str) -> Curve:
        """The mean over trials of a measure (one of `MEASURES`) after each round."""
        return curve_of(getattr(self, measure))

    def summary(self, policy: str) -> Summary:
        """The numbers at the end of the trials, averaged over them."""
        ends = (np.arange(len(self.picks)), np.maximum(self.lengths, 1) - 1)
        accuracy = self.accuracy[ends]
        drawn = self.lengths * self.batch_size
        early = [length for length, name in zip(self.lengths.tolist(), self.exhausted, strict=True) if name is not None]
        named = {
            "regret": self.regret[ends],
            "average_regret": self.average_regret[ends],
            "optimal_pick_ratio": self.optimal_pick_ratio[ends],
            "accuracy": accuracy,
            "samples": drawn,
        }
        numbers = {key: value for name, values in named.items() for key, value in mean_of(name, values).items()}
        stops = mean_of("stop_samples", drawn[self.decided])
        to_95, to_95_error = self._samples_to_95()
        return Summary(
            policy=policy,
            **numbers,
            **stops,
            samples_to_95=to_95,
            samples_to_95_se=to_95_error,
            decided=int(self.decided.sum()),
            wrong_stops=int((accuracy[self.decided] == 0.0).sum()),
            exhausted=len(early),
            first_exhausted=min(early, default=None),
            trials=len(self.picks),
        )

    @property
    def pick_shares(self) -> Floats:
        """The fraction of all samples that was drawn from each generator (trials, G)."""
        return self.samples / np.maximum(self.samples.sum(axis=1, keepdims=True), 1)

    @cached_property
    def _is_played(self) -> Bools:
        return self.picks != NO_GENERATOR

    @cached_property
    def _rounds_so_far(self) -> NDArray[np.int64]:
        return np.maximum(np.minimum(np.arange(1, self.picks.shape[1] + 1), self.lengths[:, None]), 1)

    def _carried(self, values: Floats) -> Floats:
        """The values; after the end of a decided trial its last value, after that of an exhausted one NaN."""
        last = np.take_along_axis(values, np.maximum(self.lengths, 1)[:, None] - 1, axis=1)
        return np.where(self._is_played, values, np.where(self.decided[:, None], last, np.nan))

    def _samples_to_95(self) -> tuple[float | None, float | None]:
        trials = len(self.picks)
        resampled = np.random.default_rng(0).multinomial(trials, np.full(trials, 1.0 / trials), RESAMPLES)
        weights = np.vstack([np.ones(trials), resampled.astype(np.float64)])
        found = _first_right(weights, self.accuracy) * self.batch_size
        error = float(np.std(found[1:], ddof=1)) if np.isfinite(found).all() and trials > 1 else None
        return (float(found[0]) if math.isfinite(found[0]) else None), error


def curve_of(values: Floats) -> Curve:
    """Mean and standard error over trials of values (trials, …), where NaN is unknown."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
        error = np.sqrt(squares / (count - 1) / count)
    return Curve(mean, error, count)


def mean_of(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """The mean of the known values (trials,) by name and its standard error by name_se; None where there is none."""
    known = values[~np.isnan(values)]
    mean = float(np.mean(known)) if len(known) else None
    error = float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None
    return {name: mean, f"{name}_se": error}


def _first_right(weights: Floats, accuracy: Floats) -> Floats:
    """The first round (resamples,) after which the fraction of right trials stays at least `RIGHT`; inf if none.

    `weights` (resamples, trials) say how often each trial counts. NaN in `accuracy` (trials, rounds) is ignored.
    """
    known = ~np.isnan(accuracy)
    counted = weights @ known
    is_short = (weights @ np.where(known, accuracy, 0.0) < RIGHT * counted - 1e-9) & (counted > 0)
    rounds = np.arange(1, accuracy.shape[1] + 1)
    last_short = np.where(is_short, rounds, 0).max(axis=1)
    last_known = np.where(counted > 0, rounds, 0).max(axis=1)
    return np.where(last_short < last_known, last_short + 1.0, np.inf)
