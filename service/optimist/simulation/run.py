"""The trials of one policy in a simulation: their picks, curves of costs, and means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Bools, Floats

NO_GENERATOR = -1
"""The value for no generator: no best one is named yet, or the trial has ended."""


@dataclass(frozen=True)
class Play:
    """The result of one trial."""

    picks: NDArray[np.int32]
    """The generator, by index, picked in each round played (rounds played,)."""
    seen: Any
    """Record of the goal's recorder."""
    decided: bool = False
    """True if the stopping rule ended the trial."""
    exhausted: str | None = None
    """The generator that ran out of samples, if that ended the trial."""


@dataclass(frozen=True)
class MeanCurve:
    """A measure after each of some rounds: mean and standard error (M,) over the trials in which it is known.

    The mean is NaN if it is known in no trial, the error also if it is known in only one.
    """

    mean: Floats
    error: Floats
    trials: NDArray[np.int64]
    """Number of trials in which it is known (M,)."""


@dataclass(frozen=True, eq=False)
class PolicyRun:
    """All trials of one policy; `run["regret"]` is one of its `curves`, `arrays` or `totals`. Rows are trials."""

    picks: NDArray[np.int32]
    """The generator picked in each round (trials, rounds); −1 once the trial has ended."""
    samples: NDArray[np.int64]
    """Samples drawn from each generator (trials, G)."""
    decided: Bools
    exhausted: tuple[str | None, ...]
    batch_size: int
    marks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The rounds after which curves are known (M,)."""
    curves: Mapping[str, Floats] = field(default_factory=dict)
    """Measures by name (trials, M). After a decision the last value is repeated, as no more batches are drawn. After
    the end of a trial that ran out of samples it is unknown: NaN."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays of each trial, by name."""
    totals: Mapping[str, Floats] = field(default_factory=dict)
    """Further numbers of each trial (trials,), NaN if unknown; the summary has their means."""
    wrong: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """True for a trial whose final answer is wrong (trials,)."""
    extra: Mapping[str, float | None] = field(default_factory=dict)
    """Numbers of all trials together, for the summary."""

    @classmethod
    def from_plays(cls, plays: Sequence[Play], rounds: int, batch_size: int, generators: int) -> PolicyRun:
        """Trials of at most so many rounds, which nobody has judged yet."""
        picks = [np.pad(play.picks, (0, rounds - len(play.picks)), constant_values=NO_GENERATOR) for play in plays]
        return cls(
            picks=np.stack(picks).astype(np.int32),
            samples=np.stack([np.bincount(play.picks, minlength=generators) * batch_size for play in plays]),
            decided=np.array([play.decided for play in plays]),
            exhausted=tuple(play.exhausted for play in plays),
            batch_size=batch_size,
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return {**self.curves, **self.arrays, **self.totals}[name]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rounds played in each trial (trials,)."""
        return self.is_played.sum(axis=1)

    @cached_property
    def is_played(self) -> Bools:
        """Which rounds were played (trials, rounds)."""
        return self.picks != NO_GENERATOR

    def carried(self, values: Floats) -> Floats:
        """Values (trials, rounds); after the end of a decided trial its last value, of an exhausted one NaN."""
        last = np.take_along_axis(values, np.maximum(self.lengths, 1)[:, None] - 1, axis=1)
        return np.where(self.is_played, values, np.where(self.decided[:, None], last, np.nan))

    @property
    def pick_shares(self) -> Floats:
        """The fraction of all samples that was drawn from each generator (trials, G)."""
        return self.samples / np.maximum(self.samples.sum(axis=1, keepdims=True), 1)

    def curve(self, measure: str) -> MeanCurve:
        """The mean over trials of one of the `curves`."""
        values = self.curves[measure]
        is_known = ~np.isnan(values)
        count = is_known.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(is_known, values, 0.0).sum(axis=0) / count
            squares = np.where(is_known, (values - mean) ** 2, 0.0).sum(axis=0)
            error = np.sqrt(squares / (count - 1) / count)
        return MeanCurve(mean, error, count)

    def summary(self, policy: str) -> dict[str, Any]:
        """The numbers at the end of the trials: means by name, each with its standard error by <name>_se.

        None stands for what is unknown. `exhausted` counts the trials that ran out of samples, of which the shortest
        had `first_exhausted` rounds.
        """
        drawn = self.lengths * self.batch_size
        ends = {measure: last_known(curve) for measure, curve in self.curves.items()}
        means = {**ends, **self.totals, "samples": drawn, "stop_samples": drawn[self.decided]}
        early = [length for length, name in zip(self.lengths.tolist(), self.exhausted, strict=True) if name is not None]
        return {
            "policy": policy,
            **{key: value for name, values in means.items() for key, value in _mean_of(name, values).items()},
            **self.extra,
            "decided": int(self.decided.sum()),
            "wrong_stops": int(self.wrong[self.decided].sum()),
            "exhausted": len(early),
            "first_exhausted": min(early, default=None),
            "trials": len(self.picks),
        }


def last_known(values: Floats) -> Floats:
    """The last known value of each row (trials,); NaN without any."""
    is_known = ~np.isnan(values)
    last = values.shape[1] - 1 - is_known[:, ::-1].argmax(axis=1)
    return np.where(is_known.any(axis=1), values[np.arange(len(values)), last], math.nan)


def _mean_of(name: str, values: NDArray[Any]) -> dict[str, float | None]:
    """The mean of the known values (trials,) by name and its standard error by name_se; None where there is none."""
    numbers = values[~np.isnan(values)]
    mean = float(np.mean(numbers)) if len(numbers) else None
    error = float(np.std(numbers, ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else None
    return {name: mean, f"{name}_se": error}
