"""Models by tasks: means, paired differences with errors, verdicts, and the answer at both extremes of missing scores.

Epochs are clusters, and tasks are strata: the macro mean of T tasks has the variance Σ V/T².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from optimist.datasets.logs.reading import Answers
from optimist.estimates.clusters import FEW, clusters_to_decide
from optimist.estimates.prompted import ScoreTarget, differing
from optimist.leaderboards.strata import Of, Stratum, direction_of, mean_of, metrics_in, strata_of, together
from optimist_client.errors import FixError

ModelVerdict = Literal["base", "better", "worse", "close"]


@dataclass(frozen=True)
class Spec:
    """Settings of a comparison."""

    metrics: tuple[str, ...] = ()
    """Metrics in order of preference; each task is scored by the first it has, by default its first."""
    filter: str | None = None
    baseline: str | None = None
    """Model that others are compared with; None: the best."""
    micro: bool = False
    """True if all questions count alike; otherwise all tasks do."""
    kind: ScoreTarget = "sample"
    """Target of the scores: questions like these ("sample"), or exactly these."""
    delta: float = 0.05
    several: tuple[Of, int] | None = None
    """pass@k or pass^k instead of the mean."""


@dataclass(frozen=True)
class Measured:
    """A mean, or a difference of two, with its errors."""

    value: float
    standard_error: float
    """Textbook error: cluster-robust where questions have epochs; inf from one question."""
    stopping_error: float
    """Error of intervals: allows for few questions, and for differences that have not occurred yet."""
    clusters: int
    lasting: float = 0.0
    """The part of its variance that more epochs of the same questions do not take away."""

    def interval(self, delta: float) -> tuple[float, float]:
        """The interval that covers 1 − δ."""
        half = -NormalDist().inv_cdf(delta / 2.0) * self.stopping_error
        return self.value - half, self.value + half

    def half(self, delta: float) -> float:
        """Half of the interval, which stands after ±."""
        return self.interval(delta)[1] - self.value


@dataclass(frozen=True)
class Cell:
    """A model on a task, or on all of them."""

    answers: int
    questions: int
    missing: int
    mean: Measured
    difference: Measured | None
    """Mean less the baseline's or the best's; None for this model itself."""
    is_tied: bool
    """True if the model is best here, or tied with the best."""


@dataclass(frozen=True)
class ModelStanding:
    """A model: its mean over all tasks, and each of them."""

    model: str
    overall: Cell
    tasks: Mapping[str, Cell]
    verdict: ModelVerdict
    """Verdict against the baseline, or the best model, all models together at 1 − δ."""
    cost: float
    """Mean cost of an answer, NaN where it is not known."""
    seconds: float


@dataclass(frozen=True)
class Extreme:
    """The answer with one value for all missing scores."""

    value: float
    means: Mapping[str, float]
    """Means by model."""
    best: str
    verdicts: Mapping[str, ModelVerdict]


@dataclass(frozen=True)
class Board:
    """Models by tasks, the best first."""

    asked: Spec
    strata: Sequence[Stratum]
    lower_is_better: bool
    base: str
    standings: Sequence[ModelStanding]
    extremes: Sequence[Extreme]
    """With all missing scores at the worst and at the best value; empty where none is missing."""
    left_out: Sequence[str]
    """Tasks that only some of the models have, which no mean over tasks counts."""
    others: Mapping[str, Mapping[str, tuple[Measured, bool]]]
    """Results by further metrics: the mean of each model, and True if it is best or tied with the best."""
    more: More | None
    """Questions that would tell the closest rival from the base; None where all are told, or scores are about these
    questions."""

    @property
    def best(self) -> str:
        """The model with the best mean."""
        return self.standings[0].model

    @cached_property
    def title(self) -> str:
        """Subject of the comparison: the metrics with their filters, or pass@k."""
        names = [*dict.fromkeys(f"{s.metric}, {s.filter}" if s.filter else s.metric for s in self.strata)]
        of = self.asked.several
        told = "" if of is None else f"{'pass@' if of[0] == 'pass' else 'pass^'}{of[1]} of "
        return told + "; ".join(names)


class More(NamedTuple):
    """Questions that would tell a rival from the base, if their difference stays."""

    model: str
    questions: int | None
    """Number of further questions; None: more than 100 times the present number, as the difference may be none."""
    not_epochs: bool
    """True if more epochs of the same questions would not do."""


class ModelMeans:
    """The means of all models on some strata, and their differences."""

    def __init__(self, strata: Sequence[Stratum], asked: Spec, lower_is_better: bool) -> None:
        self.models = [name for name in strata[0].scores if all(name in stratum.scores for stratum in strata)]
        counted = [together(strata)] if asked.micro else strata
        if asked.several is not None:
            counted = [stratum.of_several(*asked.several) for stratum in counted]
        self.strata, self.sign = counted, -1.0 if lower_is_better else 1.0
        self._kind = asked.kind
        self._against: dict[tuple[str, str], Measured] = {}
        self._cells = [{name: s.mean_of(name, asked.kind) for name in s.scores} for s in counted]
        # Equal scores have no spread: a further question could have differed by their whole range.
        values = np.concatenate([own.scored.values for s in counted for own in s.scores.values()])
        self._range = float(np.ptp(values)) or 1.0

    def mean(self, model: str, at: int) -> Measured:
        """The mean of a model in a stratum."""
        mean, prompted = self._cells[at][model]
        return self._measured(mean, prompted.parts.total, prompted.clusters, prompted.samples)

    def difference(self, model: str, base: str, at: int) -> Measured:
        """The mean of a model in a stratum less the base's."""
        (value, scores), (base_value, base_scores) = self._cells[at][model], self._cells[at][base]
        variance = differing(scores, base_scores)
        samples = min(scores.samples, base_scores.samples)
        return self._measured(value - base_value, variance.parts.total, variance.clusters, samples, variance.lasting)

    def overall(self, of: Callable[[int], Measured]) -> Measured:
        """The macro mean over strata."""
        parts, count = [of(at) for at in range(len(self.strata))], len(self.strata)
        return Measured(
            math.fsum(part.value for part in parts) / count,
            math.hypot(*(part.standard_error for part in parts)) / count,
            math.hypot(*(part.stopping_error for part in parts)) / count,
            sum(part.clusters for part in parts),
            math.fsum(part.lasting for part in parts) / count**2,
        )

    @cached_property
    def total(self) -> dict[str, Measured]:
        """The mean of each model over all strata, the best first."""
        means = {name: self.overall(lambda at, name=name: self.mean(name, at)) for name in self.models}
        return dict(sorted(means.items(), key=lambda item: -self.sign * item[1].value))

    def against(self, model: str, base: str) -> Measured:
        """The mean of a model over all strata less the base's."""
        difference = self._against.get((model, base))
        if difference is None:
            difference = self._against[model, base] = self.overall(lambda at: self.difference(model, base, at))
        return difference

    def is_tied(self, model: str, delta: float) -> bool:
        """True if a model is best, or tied with the best."""
        best = next(iter(self.total))
        return model == best or self.verdict(model, best, delta) != "worse"

    def verdict(self, model: str, base: str, delta: float) -> ModelVerdict:
        """Verdict on a model against the base, all models together at 1 − δ."""
        if model == base:
            return "base"
        low, high = sorted(self.sign * end for end in self.against(model, base).interval(self.delta_each(delta)))
        return "better" if low > 0.0 else "worse" if high < 0.0 else "close"

    def delta_each(self, delta: float) -> float:
        """The δ of each difference from one model, so that all hold together."""
        return delta / max(len(self.models) - 1, 1)

    def _measured(self, value: float, variance: float, clusters: int, samples: int, lasting: float = 0.0) -> Measured:
        units = clusters if self._kind == "sample" else samples
        error = math.sqrt(variance / (1.0 + FEW / units)) if math.isfinite(variance) else math.inf
        min_deviation = self._range / units if variance == 0.0 and self._kind == "sample" else 0.0
        return Measured(value, error, max(math.sqrt(variance), min_deviation), clusters, lasting)


def board_of(answers: Mapping[str, Sequence[Answers]], asked: Spec) -> Board:
    """The models compared. Raises FixError for fewer than two models, and where the choice of scores is unclear."""
    strata = strata_of(answers, asked.metrics or None, asked.filter)
    models = [name for name in answers if any(name in s.scores for s in strata)]
    if len(models) < 2:
        raise FixError(f"expected the answers of two or more models, found {', '.join(models)}")
    if asked.baseline is not None and asked.baseline not in models:
        raise FixError(f"--baseline {asked.baseline}: no such model; there are {', '.join(models)}")
    common = [s for s in strata if len(s.scores) == len(models)]
    if not common:
        lacks = ", ".join(f"{s.task}: {', '.join(s.scores)}" for s in strata)
        raise FixError(f"expected a task that all models have; found {lacks}")
    lower = direction_of(common, answers)
    means = ModelMeans(common, asked, lower)
    best = next(iter(means.total))
    base = asked.baseline or best
    extremes = _extremes(common, asked, lower, base)
    by_task = {s.task: ([s], ModelMeans([s], asked, lower)) for s in strata}
    standings = [
        ModelStanding(
            name,
            _cell(common, means, name, base, asked.delta),
            {task: _cell(*of, name, base, asked.delta) for task, of in by_task.items() if name in of[1].models},
            means.verdict(name, base, asked.delta),
            *(mean_of(answers[name], of) for of in ("costs", "seconds")),
        )
        for name in means.total
    ]
    left_out = [s.task for s in strata if s not in common]
    others = _others(answers, asked, {(s.metric, s.filter) for s in common}, set(models))
    return Board(asked, strata, lower, base, standings, extremes, left_out, others, _more(means, base, asked))


def _cell(strata: Sequence[Stratum], means: ModelMeans, model: str, base: str, delta: float) -> Cell:
    scored = [stratum.scores[model].scored for stratum in strata]
    return Cell(
        sum(len(own.values) for own in scored),
        sum(own.distinct for own in scored),
        sum(stratum.missing(model) for stratum in strata),
        means.total[model],
        means.against(model, base) if model != base and base in means.models else None,
        means.is_tied(model, delta),
    )


def _extremes(strata: Sequence[Stratum], asked: Spec, lower: bool, base: str) -> list[Extreme]:
    """The answers with all missing scores 0, and 1; or at the ends of the scores' range."""
    if not any(stratum.missing(name) for stratum in strata for name in stratum.scores):
        return []
    values = np.concatenate([own.scored.values for stratum in strata for own in stratum.scores.values()])
    low, high = float(values.min()), float(values.max())
    ends = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
    extremes: list[Extreme] = []
    for end in ends:
        means = ModelMeans([stratum.filled(end) for stratum in strata], asked, lower)
        best = next(iter(means.total))
        against = asked.baseline or base
        verdicts: dict[str, ModelVerdict] = {name: means.verdict(name, against, asked.delta) for name in means.models}
        extremes.append(Extreme(end, {name: mean.value for name, mean in means.total.items()}, best, verdicts))
    return extremes


def _others(
    answers: Mapping[str, Sequence[Answers]], asked: Spec, main: set[tuple[str, str]], models: set[str]
) -> dict[str, dict[str, tuple[Measured, bool]]]:
    """Means by the further metrics, each on the tasks that have it."""
    by_metric: dict[str, dict[str, tuple[Measured, bool]]] = {}
    for metric, filter in metrics_in(answers):
        if (metric, filter) in main or asked.several is not None:
            continue
        parts = {
            name: [part for part in own if part.filter == filter and metric in part.scores]
            for name, own in answers.items()
        }
        strata = [stratum for stratum in strata_of(parts, [metric], filter) if {*stratum.scores} == models]
        if not strata:
            continue
        means = ModelMeans(strata, asked, direction_of(strata, answers))
        by_metric[f"{metric}, {filter}" if filter else metric] = {
            name: (mean, means.is_tied(name, asked.delta)) for name, mean in means.total.items()
        }
    return by_metric


def _more(means: ModelMeans, base: str, asked: Spec) -> More | None:
    """The undecided rival closest to a verdict, with the questions that would decide."""
    reach = -NormalDist().inv_cdf(means.delta_each(asked.delta) / 2.0)
    close = {
        name: means.against(name, base) for name in means.models if means.verdict(name, base, asked.delta) == "close"
    }
    if not close or asked.kind != "sample":
        return None
    model = max(close, key=lambda name: abs(close[name].value) / close[name].stopping_error)
    difference = close[model]
    needed = clusters_to_decide(difference.value, difference.stopping_error**2, difference.clusters, reach)
    has_epochs = any(stratum.has_epochs for stratum in means.strata)
    lasts = has_epochs and difference.lasting > 0.5 * difference.stopping_error**2
    return More(model, needed if needed is not None and needed <= 100 * difference.clusters else None, lasts)
