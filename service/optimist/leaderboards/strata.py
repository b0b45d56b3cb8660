"""Scores of models on tasks by one metric, with questions by number; missing scores, and pass@k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats, Ints
from optimist.datasets.logs.reading import Answers
from optimist.estimates.prompted import PromptedMean, ScoreTarget
from optimist_client.errors import FixError

Of = Literal["pass", "all"]
"""pass@k: at least one of k answers is right; pass^k: all of them are."""


@dataclass(frozen=True)
class ModelScores:
    """The scores of a model on a task, in the order of its log."""

    values: Floats
    """(n,), NaN where an answer was not scored."""
    questions: Ints
    """The number of each one's question (n,)."""
    epochs: Ints
    """(n,), numbered from 0."""
    skipped: frozenset[tuple[int, int]] = frozenset()
    """Questions and epochs that were left out on purpose."""

    @property
    def distinct(self) -> int:
        """The number of questions."""
        return int(np.count_nonzero(np.bincount(self.questions)))

    @cached_property
    def scored(self) -> ModelScores:
        """The scores that are not missing."""
        has = ~np.isnan(self.values)
        return (
            self
            if has.all()
            else replace(self, values=self.values[has], questions=self.questions[has], epochs=self.epochs[has])
        )


@dataclass(frozen=True)
class Stratum:
    """A task: the scores of all models that have it, by one metric and filter."""

    task: str
    metric: str
    filter: str
    questions: Sequence[str]
    clusters: Ints
    """The number of each question's cluster (M,): its own, where questions are not alike."""
    scores: Mapping[str, ModelScores]
    """Scores by model."""

    def missing(self, model: str) -> int:
        """The number of answers of a model that have no score: they failed, or only other models have them."""
        return len(self._lacking(model))

    def filled(self, value: float) -> Stratum:
        """The scores with this value for missing ones."""
        filled: dict[str, ModelScores] = {}
        for model, scores in self.scores.items():
            own, lacks = scores.scored, self._lacking(model)
            questions, epochs = lacks // self._epochs, lacks % self._epochs
            values = np.concatenate([own.values, np.full(len(lacks), value)])
            filled[model] = ModelScores(values, np.append(own.questions, questions), np.append(own.epochs, epochs))
        return replace(self, scores=filled)

    def of_several(self, of: Of, k: int) -> Stratum:
        """The scores as pass@k or pass^k of each question, without bias: 1 − C(n − c, k)/C(n, k), or C(c, k)/C(n, k),
        of c right ones among n answers. Raises FixError for scores other than 0 and 1, and for fewer than k answers to
        every question of a model.
        """
        by_model: dict[str, ModelScores] = {}
        for model, scores in self.scores.items():
            own = scores.scored
            if not np.isin(own.values, (0.0, 1.0)).all():
                other = own.values[~np.isin(own.values, (0.0, 1.0))][0]
                raise FixError(
                    f"{self.task or self.metric}: --{of} needs answers that are right (1) or not (0), found {other:g}"
                )
            n = np.bincount(own.questions, minlength=len(self.questions))
            c = np.bincount(own.questions, own.values, len(self.questions))
            has = np.flatnonzero(n >= k)
            if not len(has):
                raise FixError(f"{model}: --{of} {k} needs {k} answers to a question, found at most {n.max()}")
            share = _choices(n[has] - c[has] if of == "pass" else c[has], n[has], k)
            values = 1.0 - share if of == "pass" else share
            by_model[model] = ModelScores(values, has.astype(np.int64), np.zeros(len(has), np.int64))
        return replace(self, scores=by_model)

    def mean_of(self, model: str, kind: ScoreTarget) -> tuple[float, PromptedMean]:
        """The mean of a model's scores, and its deviations by cluster. Raises FixError without a score."""
        own = self.scores[model].scored
        if not len(own.values):
            raise FixError(f"{model}: no answer of {self.task or 'the log'} has a score ({self.metric})")
        mean, n = float(own.values.mean()), len(own.values)
        clusters = self.clusters[own.questions]
        counts = np.bincount(clusters, minlength=self.length)
        means = np.bincount(clusters, own.values, self.length) / np.maximum(counts, 1)
        seen = np.flatnonzero(counts)
        within = own.values - means[clusters]
        residuals = np.full(np.count_nonzero(self._asked) if n > len(seen) else 0, np.nan)
        if len(residuals):
            residuals[np.cumsum(self._asked)[self._keys(own)] - 1] = within
        return mean, PromptedMean(
            kind=kind,
            length=self.length,
            prompts=seen.astype(np.int32),
            counts=counts[seen].astype(np.int32),
            means=means[seen] - mean,
            variance=float(own.values.var(ddof=1)) if n > 1 else 0.0,
            squares=float(within @ within),
            residuals=residuals,
        )

    def _lacking(self, model: str) -> Ints:
        """Keys of answers that were asked of others, in the model's epochs, and that the model has no score of."""
        own = self.scores[model]
        lacks = self._asked.copy()
        lacks.reshape(-1, self._epochs)[:, own.epochs.max(initial=0) + 1 :] = False
        lacks[self._keys(own.scored)] = False
        lacks[[question * self._epochs + epoch for question, epoch in own.skipped]] = False
        return np.flatnonzero(lacks)

    def by_question(self, model: str) -> Floats:
        """The mean score of a model on each question (M,), NaN where it has none."""
        own = self.scores[model].scored
        counts = np.bincount(own.questions, minlength=len(self.questions))
        sums = np.bincount(own.questions, own.values, len(self.questions))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    @cached_property
    def length(self) -> int:
        """The number of clusters."""
        return int(self.clusters.max()) + 1

    @property
    def has_epochs(self) -> bool:
        """True if a model has several answers to a question."""
        return any(len(own.values) > own.distinct for own in self.scores.values())

    @cached_property
    def _epochs(self) -> int:
        return max((int(own.epochs.max(initial=0)) for own in self.scores.values()), default=0) + 1

    @cached_property
    def _asked(self) -> NDArray[np.bool_]:
        """True where any model was asked a question in an epoch, by the key of these."""
        asked = np.zeros(len(self.questions) * self._epochs, bool)
        for own in self.scores.values():
            asked[self._keys(own)] = True
        return asked

    def _keys(self, own: ModelScores) -> Ints:
        return own.questions * self._epochs + own.epochs


def _choices(c: NDArray[Any], n: NDArray[Any], k: int) -> Floats:
    """C(c, k)/C(n, k)."""
    ratio = np.ones(len(n))
    for drawn in range(k):
        ratio *= np.maximum(c - drawn, 0.0) / (n - drawn)
    return ratio


def strata_of(
    answers: Mapping[str, Sequence[Answers]], metrics: Sequence[str] | None = None, filter: str | None = None
) -> list[Stratum]:
    """The tasks of all models, each by the first of these metrics that it has; by default its first metric.

    Raises FixError for a metric that no task has, and where a task has several filters and none is chosen.
    """
    parts = [part for own in answers.values() for part in own]
    strata: list[Stratum] = []
    for task in dict.fromkeys(part.task for part in parts):
        own = [part for part in parts if part.task == task]
        there = [*dict.fromkeys(name for part in own for name in part.scores)]
        metric = next((name for name in metrics or there if name in there), None)
        if metric is None:
            continue
        chosen = _filter_of(task, metric, [part.filter for part in own if metric in part.scores], filter)
        of_models = {
            name: [part for part in own if part.task == task and part.filter == chosen] for name, own in answers.items()
        }
        strata.append(_stratum(task, metric, chosen, {name: own for name, own in of_models.items() if own}))
    if not strata:
        there = ", ".join(dict.fromkeys(name for part in parts for name in part.scores)) or "none"
        raise FixError(f"--metric {', '.join(metrics or [])}: no such metric in these logs; there are {there}")
    return strata


def metrics_in(answers: Mapping[str, Sequence[Answers]]) -> list[tuple[str, str]]:
    """The metrics with their filters, in the order of the logs."""
    parts = [part for own in answers.values() for part in own]
    return [*dict.fromkeys((name, part.filter) for part in parts for name in part.scores)]


def direction_of(strata: Sequence[Stratum], answers: Mapping[str, Sequence[Answers]]) -> bool:
    """True if lower scores are better. Raises FixError where they are in some tasks only."""
    lower = {
        s.task: any(
            s.metric in part.log.lower_is_better for own in answers.values() for part in own if part.task == s.task
        )
        for s in strata
    }
    if len({*lower.values()}) > 1:
        up, down = (next(stratum for stratum in strata if lower[stratum.task] is way) for way in (False, True))
        raise FixError(f"of {up.metric} higher is better, of {down.metric} lower: choose one, as --metric {up.metric}")
    return next(iter(lower.values()))


def mean_of(answers: Sequence[Answers], what: Literal["costs", "seconds"]) -> float:
    """The mean of a model's answers with a value, NaN without any."""
    values = np.concatenate([getattr(part, what) for part in answers])
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else math.nan


def _filter_of(task: str, metric: str, there: Iterable[str], filter: str | None) -> str:
    """The filter of a task: the only filter, or the chosen filter. Raises FixError."""
    filters = {name or "none": name for name in there}
    if len(filters) == 1:
        return next(iter(filters.values()))
    if filter in filters:
        return filters[filter]
    text = f"{task}: {metric} by {' or '.join(filters)}: choose one, as --filter {next(iter(filters))}"
    raise FixError(text + ("" if filter is None else f"; not {filter}"))


def _stratum(task: str, metric: str, filter: str, answers: Mapping[str, Sequence[Answers]]) -> Stratum:
    questions: dict[str, int] = {}
    labels: dict[str, int] = {}
    clusters: list[int] = []
    scores: dict[str, ModelScores] = {}
    every = np.array(sorted({epoch for parts in answers.values() for part in parts for epoch in part.epochs}), np.int64)
    for model, parts in answers.items():
        numbers: list[int] = []
        for part in parts:
            for id, label in zip(part.ids, part.clusters, strict=True):
                number = questions.setdefault(id, len(questions))
                if number == len(clusters):
                    clusters.append(labels.setdefault(label, len(labels)))
                numbers.append(number)
        values = [part.scores.get(metric, np.full(len(part.ids), np.nan)) for part in parts]
        epochs = np.searchsorted(every, np.concatenate([np.frombuffer(part.epochs, np.int64) for part in parts]))
        scores[model] = ModelScores(np.concatenate([*map(np.asarray, values)]), np.array(numbers, np.int64), epochs)
    for model, parts in answers.items():
        left = [(id, epoch) for part in parts for id, epoch in part.log.skipped if id in questions and epoch in every]
        skipped = frozenset((questions[id], int(np.searchsorted(every, epoch))) for id, epoch in left)
        scores[model] = replace(scores[model], skipped=skipped)
    return Stratum(task, metric, filter, [*questions], np.array(clusters, np.int64), scores)


def together(strata: Sequence[Stratum]) -> Stratum:
    """All questions as one stratum, of the models that have all of them."""
    models = [name for name in strata[0].scores if all(name in stratum.scores for stratum in strata)]
    first = np.cumsum([0, *(len(stratum.questions) for stratum in strata)])
    starts = np.cumsum([0, *(stratum.length for stratum in strata)])
    names = [f"{stratum.task}/{id}" for stratum in strata for id in stratum.questions]
    scores: dict[str, ModelScores] = {}
    for model in models:
        own = [s.scores[model] for s in strata]
        scores[model] = ModelScores(
            np.concatenate([part.values for part in own]),
            np.concatenate([part.questions + start for part, start in zip(own, first[:-1], strict=True)]),
            np.concatenate([part.epochs for part in own]),
            frozenset(
                (at + start, epoch) for part, start in zip(own, first, strict=False) for at, epoch in part.skipped
            ),
        )
    clusters = np.concatenate([s.clusters + start for s, start in zip(strata, starts[:-1], strict=True)])
    metrics, filters = ({getattr(s, name) for s in strata} for name in ("metric", "filter"))
    return Stratum("", ", ".join(sorted(metrics)), ", ".join(sorted(filters - {""})), names, clusters, scores)
