"""Labels by people of some of the samples in memory and in files, where a judge scores all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.arrays import Floats
from optimist.datasets.sets import SampleSet
from optimist.estimates.audited import AIMED_FROM, chances, drawn, realised, strata, unforetold
from optimist.estimation.audited import AuditAnswer, judged
from optimist_client.errors import FixError

LABELS = "labels"


@dataclass(frozen=True, slots=True)
class Labels:
    """Scores by people and by the judge of one generator's samples, those that all generators have first."""

    name: str
    people: Floats
    """(n,), NaN where they say nothing."""
    judge: Floats
    """(n,)."""
    doubt: Floats | None
    """The doubt of the judge (n,)."""
    ids: Sequence[str] | None
    common: int | None
    """The number of first samples that all other generators have, too; None: all."""

    @classmethod
    def of(cls, samples: SampleSet, name: str, arrays: Mapping[str, Tensor]) -> Labels | None:
        """The labels of a set with these arrays, by the metric's own names; None where nobody is asked."""
        if samples.labels is None:
            return None
        scores, *doubt = (array.flatten().double().numpy() for array in judged(arrays).values())
        return cls(
            name, np.array(samples.labels, np.float64), scores, doubt[0] if doubt else None, samples.ids, samples.common
        )


class AuditedSets:
    """The audits of several generators: one is a place, of which all of them have a sample, if they are paired."""

    def __init__(self, sets: Iterable[Labels | None], paired: bool) -> None:
        self._sets = [labels for labels in sets if labels is not None]
        self._paired = paired
        rows = [len(labels.people) if labels.common is None else labels.common for labels in self._sets]
        self._rows = min(rows, default=0)
        """The places that all generators have."""
        self.labelled = [~np.isnan(labels.people[: self._length(labels)]) for labels in self._sets]
        is_aimed = [labels.doubt is not None for labels in self._sets]
        self._bins: list[NDArray[np.int64]] | None = None
        if is_aimed and all(is_aimed):
            doubts = [labels.doubt for labels in self._sets if labels.doubt is not None]
            if paired:
                of_all = strata(np.mean([doubt[: self._rows] for doubt in doubts], axis=0))
                self._bins = [of_all] * len(doubts)
                self.labelled = [np.logical_and.reduce(self.labelled)] * len(doubts)
            else:
                self._bins = [strata(doubt) for doubt in doubts]

    def _length(self, labels: Labels) -> int:
        return self._rows if self._paired else len(labels.people)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of rows that all generators have a label of, and of all rows."""
        return int(np.logical_and.reduce(self.labelled).sum()) if self.labelled else 0, self._rows

    @property
    def note(self) -> str:
        """The lines about labels beside the basis of an answer."""
        counts = {int(places.sum()) for places in self.labelled}
        labels = f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"
        how = "within each fifth of the judge's doubt" if self._bins is not None else "from all rows"
        return f"{labels} labels of each, taken as chosen at random {how}"

    def answers(self) -> dict[str, list[AuditAnswer]]:
        """The answers by generator. Raises FixError where one has fewer than two, and where none has labels."""
        if not self._sets:
            raise FixError("labels: expected what people say of some rows, as `contrast` takes it (--labels)")
        by_generator: dict[str, list[AuditAnswer]] = {}
        for at, (labels, is_labelled) in enumerate(zip(self._sets, self.labelled, strict=True)):
            indices = np.flatnonzero(is_labelled)
            if len(indices) < 2:
                raise FixError(
                    f"labels: expected what people say of two rows or more of {labels.name!r}, got {len(indices)}"
                )
            weights = np.ones(len(indices)) if self._bins is None else realised(self._bins[at], indices)
            rows = zip(indices.tolist(), weights.tolist(), labels.people[indices].tolist(), strict=True)
            by_generator[labels.name] = [AuditAnswer(index, index, weight, score) for index, weight, score in rows]
        return by_generator

    def next(self, count: int) -> list[str]:
        """The ids of up to `count` rows to label next, or their numbers from 1. Those that only some generators have a
        label of come first. With the judge's doubt those are more likely whose labels it foretells worse.

        Raises FixError where generators are not paired.
        """
        if not self._paired:
            raise FixError("next: expected rows that belong together (--id, or --paired)")
        indices = self._next(count)
        ids = self._sets[0].ids
        return [f"{index + 1}" if ids is None else ids[index] for index in indices]

    def _next(self, count: int) -> list[int]:
        given = [~np.isnan(labels.people[: self._rows]) for labels in self._sets]
        complete, begun = np.logical_and.reduce(given), np.logical_or.reduce(given)
        first = np.flatnonzero(begun & ~complete)[:count].tolist()
        random = np.random.default_rng(int(begun.sum()))
        chosen: list[int] = []
        if self._bins is not None and complete.sum() >= AIMED_FROM:
            at = np.flatnonzero(complete)
            by_bin = chances(self._bins[0], self._bins[0][at], unforetold(*self._said(at)))
            chosen = drawn(count - len(first), ~begun, random, self._bins[0], by_bin)[0].tolist()
        free = ~begun
        free[chosen] = False
        rest = drawn(count - len(first) - len(chosen), free, random)[0].tolist()
        return [*first, *chosen, *rest]

    def _said(self, at: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Scores by people, and by the judge, (G, n) each, at these indices (n,)."""
        return np.array([labels.people[at] for labels in self._sets]), np.array(
            [labels.judge[at] for labels in self._sets]
        )
