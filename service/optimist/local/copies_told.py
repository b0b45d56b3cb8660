"""The copies among the rows of features that an evaluation was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optimist.anomalies.copies import Copies, Hashes, copies_among, hashes_of
from optimist_client.models import AnomalousBatches, Basis


class CopyCounts:
    """Keeps a hash of each row, 8 bytes, and says which rows are copies."""

    def __init__(self, generators: Sequence[str], reference: Hashes | None) -> None:
        self._parts: dict[str, list[Hashes]] = {name: [] for name in generators}
        self.reference = reference
        self._copies: dict[str, Copies] = {}

    def add(self, generator: str, rows: NDArray[np.floating]) -> None:
        """Take the rows of a batch."""
        self.restore(generator, hashes_of(rows))

    def restore(self, generator: str, hashes: Hashes) -> None:
        """Take the hashes of rows."""
        self._parts[generator].append(hashes)
        self._copies.pop(generator, None)

    def hashes(self, generator: str) -> Hashes:
        """Those of all rows of a generator, in order."""
        self._parts[generator] = [np.concatenate([np.empty(0, np.uint64), *self._parts[generator]])]
        return self._parts[generator][0]

    def _of(self, generator: str) -> Copies:
        if generator not in self._copies:
            self._copies[generator] = copies_among(self.hashes(generator), self.reference)
        return self._copies[generator]

    def warnings(self, generator: str) -> tuple[str, ...]:
        """Warnings about a generator's rows."""
        return self._of(generator).warnings

    @property
    def from_reference(self) -> tuple[AnomalousBatches, ...]:
        """The generators of which so many rows are of the reference that a decision is provisional."""
        by_generator = {name: self._of(name) for name in self._parts}
        return tuple(
            AnomalousBatches(
                generator=name,
                positions=(),
                whole=True,
                finding=f"in doubt: {copies.shared:,} of {copies.rows:,} rows are rows of the reference",
            )
            for name, copies in by_generator.items()
            if copies.are_from_reference
        )

    def basis(self, rows: Mapping[str, int]) -> Basis:
        """The basis of a report. rows: the samples of each generator."""
        by_generator = {name: self._of(name) for name in rows if name in self._parts}
        distinct = {name: copies.distinct for name, copies in by_generator.items() if copies.distinct < copies.rows}
        shared = {name: copies.shared for name, copies in by_generator.items() if copies.shared}
        return Basis(rows=dict(rows), distinct=distinct, shared=shared)
