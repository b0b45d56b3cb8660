"""The results of a simulation: true scores, and the trials of all policies, as tables, files and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optimist.estimation.question import Question
from optimist.local.single import score
from optimist.numerics.estimate import natural
from optimist.simulation import reporting
from optimist.simulation.run import Bools, Floats, Run, Summary
from optimist.simulation.sources.base import Draw, Source
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.tolerance import share_of

if TYPE_CHECKING:
    from os import PathLike

    from rich.console import Group


@dataclass(frozen=True, eq=False)
class Watched:
    """The trials of all policies by a metric that decided nothing."""

    title: str
    truth: dict[str, TrueScore]
    """The true score of each generator by this metric, on the natural scale."""
    is_best: Bools
    runs: dict[str, Run]
    """The runs of the policies, with regret and accuracy by this metric."""

    @classmethod
    def from_runs(cls, metric: Metric, truth: dict[str, TrueScore], runs: Mapping[str, Run]) -> Watched:
        """The runs as they look by another metric, whose true scores these are."""
        behind, is_best = gaps(truth, metric, 0.0)
        return cls(
            metric.title,
            truth,
            is_best,
            {policy: replace(run, gaps=behind, is_best=is_best) for policy, run in runs.items()},
        )

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that are best by this metric."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)


SAMPLES = 20_000
"""Number of samples drawn from an unlimited source whose score has no closed form."""


@dataclass(frozen=True, slots=True)
class TrueScore:
    """A generator's true score on the natural scale, and a text that says how it was obtained."""

    score: float
    origin: str


def true_score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    """The score in closed form if there is one, else the de-biased estimate from all samples with the given kernels.

    From an unlimited source `SAMPLES` samples are drawn, separate from all trials. Raises FixError, naming the
    source, if its samples cannot be scored.
    """
    exact = source.exact(question)
    if exact is not None:
        return TrueScore(natural(exact, question.metric.scale, question.metric.floor), "closed form")
    count = SAMPLES if source.samples is None else source.samples
    rows = source.stream(Draw(seed, None, name, shuffle=source.samples is None)).take(count)
    assert rows is not None
    try:
        estimate = score(rows, question.metric)
    except (ValueError, ArithmeticError) as error:
        raise FixError(f"{source.origin}: {error}") from None
    return TrueScore(estimate.score, f"de-biased, {'' if source.samples is None else 'all '}{count:,} samples")


def given_scores(given: Mapping[str, float], names: Mapping[str, Any], metric: Metric) -> dict[str, TrueScore]:
    """The true scores given by the caller. Raises FixError unless there is a valid one for each name and no other."""
    if set(given) != set(names):
        raise FixError(f"truth: expected scores of {', '.join(names)}; got {', '.join(given) or 'none'}")
    least = -math.inf if metric.scale == "linear" else 0.0
    wrong = {name: value for name, value in given.items() if not (math.isfinite(value) and value > least)}
    if wrong:
        name, value = next(iter(wrong.items()))
        raise FixError(f"truth: expected a finite score of {metric.name!r} for {name!r}, got {value}")
    return {name: TrueScore(float(given[name]), "given") for name in names}


def gaps(truth: Mapping[str, TrueScore], metric: Metric, tolerance: float | str) -> tuple[Any, Any]:
    """The difference between each generator's score and the best one (G,), ≥ 0, and whether it counts as best (G,).

    Gaps are on the natural scale, like the regret of the papers (equations.md §5); a `tolerance` that is a
    number is on the estimates'.
    """
    scores = np.array([each.score for each in truth.values()])
    behind = scores - scores.min() if metric.lower_is_better else scores.max() - scores
    share = share_of(tolerance)
    if metric.scale == "linear":
        best = scores.min() if metric.lower_is_better else scores.max()
        return behind, behind <= (tolerance if share is None else share * best)
    logs = np.log(scores)
    apart = logs - logs.min() if metric.lower_is_better else logs.max() - logs
    return behind, apart <= (tolerance if share is None else math.log1p(share))


@dataclass(frozen=True, eq=False)
class Result:
    """The results of all policies on the same samples. `result["ucb"]` is the `Run` of one policy."""

    metric: str
    truth: dict[str, TrueScore]
    """The true score of each generator, on the natural scale."""
    gaps: Floats
    is_best: Bools
    batch_size: int
    rounds: int
    seed: int
    stop: bool
    paired: bool
    """Whether row i of every generator was drawn alike, and scores were compared by row."""
    runs: dict[str, Run]
    watched: dict[str, Watched] = field(default_factory=dict)
    """The same runs by the further metrics, by label."""

    def __getitem__(self, policy: str) -> Run:
        return self.runs[policy]

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels of the policies, in the given order."""
        return tuple(self.runs)

    @property
    def generators(self) -> tuple[str, ...]:
        """The names of the generators. Picks are indices into them."""
        return tuple(self.truth)

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that count as best."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)

    @property
    def trials(self) -> int:
        """Number of trials per policy."""
        return len(next(iter(self.runs.values())).picks)

    @cached_property
    def summaries(self) -> list[Summary]:
        """The numbers of every policy."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def rendered(self) -> Group:
        """The tables and notes for a terminal."""
        return reporting.rendered(self)

    def table(self) -> str:
        """The numbers of every policy as text, mean ± standard error, with notes on the true scores."""
        return reporting.text(self)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A JSON list with one object per policy (`Summary` and the true scores); also written to `path` if given."""
        document = reporting.to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to the CSV file `path`: one row per policy and round. Unknown values are empty."""
        reporting.write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to the CSV file `path`: one row per policy, trial and round."""
        reporting.write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Write every figure to `directory` as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.plots import draw  # matplotlib is slow to import, and only plots need it

        return draw(self, Path(directory))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return reporting.html(self)
