"""What people say of some of the samples in memory and in files, where a judge says something of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.datasets.sets import SampleSet
from optimist.estimation.audited import AuditAnswer, judged
from optimist.numerics.audited import AIMED_FROM, chances, drawn, realised, strata, unforetold
from optimist.numerics.clusters import Floats
from optimist_client.errors import FixError

LABELS = "labels"


@dataclass(frozen=True, slots=True)
class Labels:
    """What people and the judge say of one generator's samples, those that all generators have first."""

    name: str
    people: Floats
    """(n,), NaN where they say nothing."""
    judge: Floats
    """(n,)."""
    doubt: Floats | None
    """How unsure the judge is (n,)."""
    ids: Sequence[str] | None
    common: int | None
    """How many of the first samples belong to those of all others; None: all."""

    @classmethod
    def of(cls, one: SampleSet, name: str, arrays: Mapping[str, Tensor]) -> Labels | None:
        """The labels of a set with these arrays, by the metric's own names; None where nobody is asked."""
        if one.labels is None:
            return None
        scores, *doubt = (array.flatten().double().numpy() for array in judged(arrays).values())
        return cls(name, np.array(one.labels, np.float64), scores, doubt[0] if doubt else None, one.ids, one.common)


class AuditedSets:
    """The audits of several generators: one is a place, of which all of them have a sample, if they are paired."""

    def __init__(self, sets: Iterable[Labels | None], paired: bool) -> None:
        self._sets = [one for one in sets if one is not None]
        self._paired = paired
        rows = [len(one.people) if one.common is None else one.common for one in self._sets]
        self._rows = min(rows, default=0)
        """The places that all generators have."""
        self.labelled = [~np.isnan(one.people[: self._length(one)]) for one in self._sets]
        is_aimed = [one.doubt is not None for one in self._sets]
        self._bins: list[NDArray[np.int64]] | None = None
        if is_aimed and all(is_aimed):
            doubts = [one.doubt for one in self._sets if one.doubt is not None]
            if paired:
                of_all = strata(np.mean([doubt[: self._rows] for doubt in doubts], axis=0))
                self._bins = [of_all] * len(doubts)
                self.labelled = [np.logical_and.reduce(self.labelled)] * len(doubts)
            else:
                self._bins = [strata(doubt) for doubt in doubts]

    def _length(self, one: Labels) -> int:
        return self._rows if self._paired else len(one.people)

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows all generators have a label of, and how many there are."""
        return int(np.logical_and.reduce(self.labelled).sum()) if self.labelled else 0, self._rows

    @property
    def note(self) -> str:
        """What is said of them beside what an answer rests on."""
        counts = {int(places.sum()) for places in self.labelled}
        labels = f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"
        how = "within each fifth of the judge's doubt" if self._bins is not None else "from all rows"
        return f"{labels} labels of each, taken as chosen at random {how}"

    def answers(self) -> dict[str, list[AuditAnswer]]:
        """The answers by generator. Raises FixError where one has fewer than two, and where none has labels."""
        if not self._sets:
            raise FixError("labels: expected what people say of some rows, as `contrast` takes it (--labels)")
        by_generator: dict[str, list[AuditAnswer]] = {}
        for at, (one, is_labelled) in enumerate(zip(self._sets, self.labelled, strict=True)):
            places = np.flatnonzero(is_labelled)
            if len(places) < 2:
                raise FixError(
                    f"labels: expected what people say of two rows or more of {one.name!r}, got {len(places)}"
                )
            weights = np.ones(len(places)) if self._bins is None else realised(self._bins[at], places)
            rows = zip(places.tolist(), weights.tolist(), one.people[places].tolist(), strict=True)
            by_generator[one.name] = [AuditAnswer(place, place, weight, score) for place, weight, score in rows]
        return by_generator

    def next(self, count: int) -> list[str]:
        """The ids of up to `count` rows to label next, or their numbers from 1. Those that only some generators have a
        label of come first. With the judge's doubt those are more likely whose labels it foretells worse.

        Raises FixError where generators are not paired.
        """
        if not self._paired:
            raise FixError("next: expected rows that belong together (--id, or --paired)")
        places = self._next(count)
        ids = self._sets[0].ids
        return [f"{place + 1}" if ids is None else ids[place] for place in places]

    def _next(self, count: int) -> list[int]:
        given = [~np.isnan(one.people[: self._rows]) for one in self._sets]
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
        """What people, and the judge, say (G, n) at these places (n,)."""
        return np.array([one.people[at] for one in self._sets]), np.array([one.judge[at] for one in self._sets])
