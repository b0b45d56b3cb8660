"""Exact copies among rows of features: within a set, of the reference, and of other sets.

Rows are compared by hashes of 64 bits of their float64 values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
NOTABLE = 0.01
"""The share of copies from which on there is a warning."""
_MIXING = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(33)


def hashes_of(rows: NDArray[np.floating]) -> Hashes:
    """A hash (n,) of each row (n, …): equal for equal rows, and for different rows with a chance of 2⁻⁶⁴."""
    flat = rows.reshape(len(rows), -1)
    odd = np.random.default_rng(0).integers(2**63, size=flat.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    # Numbers hashed at a time: they fit into a core's cache.
    hashes, step = np.empty(len(flat), np.uint64), max(2**15 // max(flat.shape[1], 1), 1)
    for start in range(0, len(flat), step):
        part = np.add(flat[start : start + step], 0.0, dtype=np.float64)  # without −0
        bits = part.view(np.uint64)
        bits ^= bits >> _SHIFT
        bits *= _MIXING  # the lower bits of few digits are all zero
        bits ^= bits >> _SHIFT
        bits *= odd
        hashes[start : start + step] = bits.sum(axis=1, dtype=np.uint64)
    return hashes


@dataclass(frozen=True, slots=True)
class Copies:
    """Counts of rows of a set that copy other rows."""

    rows: int
    distinct: int
    times: int
    """Number of times that every row occurs; 1 where this differs between rows."""
    shared: int = 0
    """Number of rows that are rows of the reference."""

    @property
    def is_gathered(self) -> bool:
        """True if the set was gathered several times over, so that only its distinct rows are samples."""
        return self.times > 1 and self.distinct > 1

    @property
    def are_from_reference(self) -> bool:
        """True if so many rows are the reference's that the set decides nothing."""
        return self.shared > NOTABLE * self.rows

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for users about the copies."""
        sentences: list[str] = []
        if self.distinct == 1 and self.rows > 1:
            sentences.append(f"all {self.rows:,} rows are equal: nothing is known of the error of the score")
        elif self.is_gathered:
            of = f"{self.distinct:,} of {self.rows:,} rows are distinct"
            sentences.append(f"every row is there {self.times:,} times ({of}): the interval counts the distinct ones")
        elif self.rows - self.distinct > NOTABLE * self.rows:
            of = f"{self.rows - self.distinct:,} of {self.rows:,} rows repeat others"
            sentences.append(f"{of} ({self.distinct:,} are distinct): few outputs of a generator, or rows told twice")
        if self.are_from_reference:
            sentences.append(f"{self.shared:,} of {self.rows:,} rows are rows of the reference: copies of real data")
        return tuple(sentences)


def copies_among(hashes: Hashes, reference: Hashes | None = None) -> Copies:
    """The copies among the rows with these hashes (n ≥ 1), and rows of the reference."""
    _, counts = np.unique(hashes, return_counts=True)
    times = int(counts[0]) if len(counts) and (counts == counts[0]).all() else 1
    shared = 0 if reference is None else int(np.isin(hashes, reference).sum())
    return Copies(len(hashes), len(counts), times, shared)


def repeated_in(rows: NDArray[np.floating]) -> int:
    """Number of rows (n, d) that repeat others; 0 for at most `NOTABLE`. Rows with distinct first numbers need no
    hashes."""
    if len(np.unique(rows[:, 0])) == len(rows):
        return 0
    count = len(rows) - copies_among(hashes_of(rows)).distinct
    return count if count > NOTABLE * len(rows) else 0


def first_of_each(hashes: Hashes) -> NDArray[np.int64]:
    """The places of the first one of equal rows, ascending."""
    return np.sort(np.unique(hashes, return_index=True)[1])


def shared_with(sets: Sequence[tuple[str, Hashes]]) -> list[str]:
    """Warnings about the last set, by name, where it shares more than `NOTABLE` of its rows with one before."""
    *before, (_, last) = sets
    counts = {other: int(np.isin(last, hashes).sum()) for other, hashes in before}
    of = f"of {len(last):,} rows are rows of"
    return [f"{count:,} {of} {other}" for other, count in counts.items() if count > NOTABLE * len(last)]
