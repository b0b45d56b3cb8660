"""What a simulation found: picks, regret and answers of every policy in every trial, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optimist.simulation import reporting
from optimist.simulation.trial import NOBODY, Played
from optimist.simulation.truth import TrueScore

if TYPE_CHECKING:
    from os import PathLike

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
RIGHT = 0.95
"""The share of trials that must name the best before a policy is said to know it."""
RESAMPLES = 400
"""Bootstrap resamples of the trials behind the standard error of `samples_to_95`."""
MEASURES = ("regret", "average_regret", "optimal_pick_ratio", "accuracy")
"""The curves of a run, by name."""


@dataclass(frozen=True)
class Curve:
    """A measure after each round: mean and standard error (rounds,) over the trials that it is known of.

    NaN where no trial came so far; the error is NaN of a single one.
    """

    mean: Floats
    error: Floats
    trials: NDArray[np.int64]
    """How many trials stand behind each point."""


@dataclass(frozen=True)
class Summary:
    """One policy's numbers, each with the standard error of its mean over trials; None where there is none."""

    policy: str
    regret: float
    regret_se: float | None
    average_regret: float
    average_regret_se: float | None
    optimal_pick_ratio: float
    optimal_pick_ratio_se: float | None
    accuracy: float
    """The share of trials whose last named best is the best."""
    accuracy_se: float | None
    samples_to_95: float | None
    """Samples from which on, at every later round too, at least 95 % of the trials name the best; None: never."""
    samples_to_95_se: float | None
    samples: float
    """Drawn in a trial."""
    samples_se: float | None
    decided: int
    """Trials that the stopping rule ended."""
    wrong_stops: int
    """Those of them that named a wrong generator."""
    stop_samples: float | None
    """Samples until they stopped, in the mean."""
    stop_samples_se: float | None
    exhausted: int
    """Trials that ended early as a generator ran out of samples."""
    first_exhausted: int | None
    """The rounds played in the first of them to end."""
    trials: int


@dataclass(frozen=True, eq=False)
class Run:
    """One policy in all trials. Rows are trials, columns rounds or generators; scores are on the natural scale."""

    picks: NDArray[np.int32]
    """The generator picked in each round (trials, rounds); −1 once the trial has ended."""
    named: NDArray[np.int32]
    """The generator named best after each round (trials, rounds); −1 where none is, or the trial has ended."""
    estimates: Floats
    """Value, lower and upper end of each generator's last estimate (trials, G, 3); NaN where it has none."""
    samples: NDArray[np.int64]
    """Samples drawn of each generator (trials, G)."""
    decided: Bools
    """Whether the stopping rule ended the trial (trials,)."""
    exhausted: tuple[str | None, ...]
    """The generator whose samples ran out, where that ended the trial."""
    batch_size: int
    gaps: Floats
    """How far each generator's true score lies behind the best one's (G,)."""
    is_best: Bools
    """Whether it counts as best (G,)."""

    @classmethod
    def of(cls, plays: Sequence[Played], rounds: int, batch_size: int, gaps: Floats, is_best: Bools) -> Run:
        """The trials put together."""

        def padded(rows: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
            return np.stack([np.pad(row, (0, rounds - len(row)), constant_values=NOBODY) for row in rows])

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
        return (self.picks != NOBODY).sum(axis=1)

    @cached_property
    def regret(self) -> Floats:
        """Σ of the gaps of the picks so far (trials, rounds), equations.md §5.

        After a decision nothing more is paid: the last number stands. Past the end of a trial that ran out of samples
        nothing is known: NaN. The same holds of the other measures.
        """
        return self._carried(np.cumsum(np.where(self._is_played, self.gaps[self.picks], 0.0), axis=1))

    @cached_property
    def average_regret(self) -> Floats:
        """Regret over the rounds played so far (trials, rounds)."""
        return self.regret / self._rounds_so_far

    @cached_property
    def optimal_pick_ratio(self) -> Floats:
        """The share of the rounds so far that picked a best generator (trials, rounds)."""
        hits = np.cumsum(self._is_played & self.is_best[self.picks], axis=1)
        return self._carried(hits / self._rounds_so_far)

    @cached_property
    def accuracy(self) -> Floats:
        """1 where the generator named is a best one, else 0 (trials, rounds)."""
        return self._carried(((self.named != NOBODY) & self.is_best[self.named]).astype(np.float64))

    def curve(self, measure: str) -> Curve:
        """The mean of a measure over trials after each round, one of `MEASURES`."""
        values: Floats = getattr(self, measure)
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(known, values, 0.0).sum(axis=0) / count
            squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
            error = np.sqrt(squares / (count - 1) / count)
        return Curve(mean, error, count)

    def summary(self, policy: str) -> Summary:
        """The numbers of the whole run, each trial taken at its end."""
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
        numbers = {key: value for name, values in named.items() for key, value in _mean(name, values).items()}
        stops: dict[str, Any] = {"stop_samples": None, "stop_samples_se": None}
        if self.decided.any():
            stops = _mean("stop_samples", drawn[self.decided])
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
        """The share of each generator in all samples drawn (trials, G)."""
        return self.samples / np.maximum(self.samples.sum(axis=1, keepdims=True), 1)

    @cached_property
    def _is_played(self) -> Bools:
        return self.picks != NOBODY

    @cached_property
    def _rounds_so_far(self) -> NDArray[np.int64]:
        return np.maximum(np.minimum(np.arange(1, self.picks.shape[1] + 1), self.lengths[:, None]), 1)

    def _carried(self, values: Floats) -> Floats:
        """The values, past the end of a decided trial its last one, past that of an exhausted one NaN."""
        last = np.take_along_axis(values, np.maximum(self.lengths, 1)[:, None] - 1, axis=1)
        return np.where(self._is_played, values, np.where(self.decided[:, None], last, np.nan))

    def _samples_to_95(self) -> tuple[float | None, float | None]:
        trials = len(self.picks)
        resampled = np.random.default_rng(0).multinomial(trials, np.full(trials, 1.0 / trials), RESAMPLES)
        weights = np.vstack([np.ones(trials), resampled.astype(np.float64)])
        found = _first_right(weights, self.accuracy) * self.batch_size
        error = float(np.std(found[1:], ddof=1)) if np.isfinite(found).all() and trials > 1 else None
        return (float(found[0]) if math.isfinite(found[0]) else None), error


@dataclass(frozen=True, eq=False)
class Result:
    """All policies on the same samples. `result["ucb"]` is the run of one."""

    metric: str
    truth: dict[str, TrueScore]
    """The true score of each generator, on the natural scale."""
    gaps: Floats
    is_best: Bools
    batch_size: int
    rounds: int
    seed: int
    stop: bool
    runs: dict[str, Run]

    def __getitem__(self, policy: str) -> Run:
        return self.runs[policy]

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels, in the order they were given."""
        return tuple(self.runs)

    @property
    def generators(self) -> tuple[str, ...]:
        """The names; picks are places among them."""
        return tuple(self.truth)

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that count as best."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)

    @property
    def trials(self) -> int:
        """How many each policy played."""
        return len(next(iter(self.runs.values())).picks)

    @cached_property
    def summaries(self) -> list[Summary]:
        """The numbers of every policy."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def table(self) -> str:
        """The numbers of every policy as text, mean ± standard error, with what they are counted by."""
        return reporting.text(self)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A list of one object a policy (`Summary`, and the truth it is of), also written to `path`."""
        document = reporting.to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to `path`: a row a policy and round, empty where nothing is known."""
        reporting.write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to `path`: a row a policy, trial and round."""
        reporting.write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Draw every figure into `directory`, each as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.plots import draw  # heavy, and only plots need it

        return draw(self, Path(directory))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return reporting.html(self)


def _mean(name: str, values: NDArray[Any]) -> dict[str, Any]:
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return {name: float(np.mean(values)), f"{name}_se": error}


def _first_right(weights: Floats, accuracy: Floats) -> Floats:
    """The round (resamples,) from which on the share of right trials never falls below `RIGHT`; inf where it does.

    `weights` (resamples, trials) say how often each trial counts; NaN in `accuracy` (trials, rounds) is left out.
    """
    known = ~np.isnan(accuracy)
    counted = weights @ known
    is_short = (weights @ np.where(known, accuracy, 0.0) < RIGHT * counted - 1e-9) & (counted > 0)
    rounds = np.arange(1, accuracy.shape[1] + 1)
    last_short = np.where(is_short, rounds, 0).max(axis=1)
    last_known = np.where(counted > 0, rounds, 0).max(axis=1)
    return np.where(last_short < last_known, last_short + 1.0, np.inf)
