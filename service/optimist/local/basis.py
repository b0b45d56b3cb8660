"""Facts about the samples of an answer, not chance: copies, rows of the reference, a value that stands alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.anomalies.copies import Copies, Hashes, copies_among, first_of_each, hashes_of, shared_with
from optimist.datasets.sets import SampleSet
from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import arrays_of, check_arrays
from optimist.estimation.question import Question
from optimist.local.lone_values import lone_value
from optimist_client.models import Basis
from optimist_client.models.basis import merged

Arrays = Mapping[str, NDArray[Any]]
FEATURES = "features"


def hashes_in(arrays: Arrays, question: Question) -> Hashes | None:
    """The hashes of rows of features; None for metrics of means, probabilities and pairs, whose rows may repeat."""
    return hashes_of(arrays[question.reads[FEATURES]]) if question.arrays == (FEATURES,) else None


def copies_of(hashes: Hashes, question: Question) -> Copies:
    """The copies among the rows of these hashes, and among them and the question's reference."""
    return copies_among(hashes, None if question.reference is None else question.reference.hashes)


def allowing_for_copies(
    estimate: Estimate, hashes: Hashes | None, question: Question, distinct: Callable[[NDArray[np.int64]], Estimate]
) -> Estimate:
    """The estimate with warnings about copies. Where all rows repeat equally often the errors count only
    the distinct rows.

    distinct: makes the estimate of the rows at some places.
    """
    if hashes is None or not len(hashes):
        return estimate
    copies = copies_of(hashes, question)
    if copies.distinct == 1 and copies.rows > 1:
        ends: dict[str, Any] = {"lower": -math.inf, "upper": math.inf, "standard_error": None, "stopping_error": None}
        estimate = replace(estimate, **ends, optimistic=-math.inf if estimate.lower_is_better else math.inf)
    elif copies.is_gathered:
        once = distinct(first_of_each(hashes))
        moved = {end: estimate.value + getattr(once, end) - once.value for end in ("lower", "upper", "optimistic")}
        errors = {error: getattr(once, error) for error in ("standard_error", "stopping_error", "pairing")}
        estimate = replace(estimate, **moved, **errors)
    return replace(estimate, warnings=(*estimate.warnings, *copies.warnings))


def basis_of(name: str, arrays: Arrays, question: Question, hashes: Hashes | None, given: Basis | None = None) -> Basis:
    """The basis of a set of samples, with the facts of its reading."""
    count = len(next(iter(arrays.values())))
    basis = (given or Basis(rows={})).model_copy(update={"rows": {name: count}})
    if hashes is not None:
        copies = copies_of(hashes, question)
        counts = {"distinct": copies.distinct if copies.distinct < count else 0, "shared": copies.shared}
        return basis.model_copy(update={field: {name: number} for field, number in counts.items() if number})
    if {*question.metric.widths.values()} == {1}:
        values = arrays[next(iter(question.reads.values()))]
        alone = lone_value(values[:, 0])
        notes = (*basis.notes, f"{name}: {alone}") if alone else basis.notes
        return basis.model_copy(update={"notes": notes})
    return basis


class BasisReader:
    """The basis of several sets of samples that are read one after the other."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._parts: list[Basis] = []
        self._hashes: list[tuple[str, Hashes]] = []
        self._common: int | None = None
        self.shared: list[str] = []
        """Warnings about rows that the set added last shares with those before."""

    def add(self, samples: SampleSet, name: str) -> tuple[Arrays, Hashes | None]:
        """The arrays of a set, and the hashes of its features."""
        arrays = arrays_of(samples.batch, self._question.reads.values())
        arrays = check_arrays(arrays, [self._question])
        hashes = hashes_in(arrays, self._question)
        basis = basis_of(name, arrays, self._question, hashes, samples.basis and samples.basis.renamed(name))
        self._parts.append(basis)
        rows = next(iter(basis.rows.values()))
        self._common = min(self._common or rows, rows if samples.common is None else samples.common)
        if hashes is not None:
            self._hashes.append((name, hashes))
            self.shared = shared_with(self._hashes)
        return arrays, hashes

    @property
    def basis(self) -> Basis:
        """The basis of all sets together."""
        whole = merged(self._parts)
        if self._question.is_paired:
            by = {part.paired_by for part in self._parts}
            paired_by = by.pop() if len(by) == 1 else "ids"
            return whole.model_copy(update={"paired_by": paired_by or "place", "common": self._common})
        fields = {part.paired_by for part in self._parts} - {"place", None}
        hint = f"--paired compares row with row, by {', '.join(sorted(map(str, fields)))}"
        return whole.model_copy(update={"notes": (*whole.notes, hint)}) if fields else whole
