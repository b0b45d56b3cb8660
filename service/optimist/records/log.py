"""The log of a generator: entries, what of them was retracted, previews of samples; and the history of all batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from optimist.records.codec import Count, Position
from optimist.records.state import RetractionRecord
from optimist_client.errors import FixError


def _in_order(runs: tuple[int, ...]) -> tuple[int, ...]:
    """Runs as `LogEntry` has them. Raises FixError unless each has a length and begins after the preceding run."""
    end = 0
    for first, length in zip(runs[::2], runs[1::2], strict=False):
        if first < end or length < 1:
            raise FixError(f"expected ascending runs that do not overlap, got ({first}, {length}) after {end}")
        end = first + length
    if len(runs) % 2:
        raise FixError("expected the first and the length of each run, got an odd number of numbers")
    return runs


Runs = Annotated[tuple[Count, ...], Field(max_length=2**17), AfterValidator(_in_order)]
"""Whole numbers, ascending: the first and the length of each run of them, one after the other."""
HISTORY = np.dtype([("generator", "<u2"), ("flags", "u1"), ("rows", "<u4")])
"""One batch of an experiment's history, as accept.lua appends it."""


@dataclass(frozen=True, slots=True)
class PreparedPreview:
    """A preview of the sample at `place` of a batch. about: text of the caller, which is stored with it."""

    place: int
    index: int | None
    """Index of the sample in the generator's sequence."""
    about: str
    body: bytes
    rank: float | None = None
    """Previews of the lowest rank are kept first; None: by its index, and half of what is kept are the newest."""


@dataclass(frozen=True, slots=True)
class StoredPreview:
    """A preview that is kept, without its bytes."""

    generator: int
    pick: int
    place: int
    position: int
    """Position of its batch in the generator's log."""
    index: int | None
    about: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One batch of a generator's log, a retraction, or an answer of people."""

    seq: Position
    pick: Count
    """0 where no pick asked for it."""
    rows: Count
    """Number of rows that count."""
    digest: Annotated[str, Field(pattern=r"^[^\t]{1,128}$")]
    body: Annotated[bytes, Field(exclude=True)] = b""
    record: str | None = None
    """The pick's record, where the experiment keeps its log."""
    chain: Annotated[str, Field(exclude=True)] = field(default="", compare=False)
    """`chained` of all entries up to this one."""
    is_retraction: bool = False
    """True for a retraction, which has no rows and no body."""
    is_answer: bool = False
    """True for what people say of a sample, which has no rows (`LoggedAnswer`)."""
    prompts: Annotated[str, Field(pattern=r"^([0-9]{1,5}(,[0-9]{1,5})*)?$", max_length=2**16)] = ""
    """The index of each row's prompt in a fixed list, with commas between; "" where they are not known."""
    indices: Runs = ()
    """Indices in the generator's sequence of the first rows that count; further rows have none."""
    counted: Runs = ()
    """The rows of the body that count; empty: all."""
    context: Annotated[bytes, Field(exclude=True)] = b""
    """`NewPick.context` of its pick."""
    seconds: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = None
    """Seconds from the opening of its pick to its tell, by Redis's clock; None for a batch without a pick."""

    @property
    def is_batch(self) -> bool:
        """True if it has rows."""
        return not (self.is_retraction or self.is_answer)

    @property
    def size(self) -> int:
        """Bytes that the entry adds to the log."""
        return len(self.body) + len(self.context)


def chained(chain: str, digest: str) -> str:
    """The chained digest of a log, h_n = SHA-1(h_{n−1} ‖ d_n) in hex, after an entry of digest d_n.

    Logs that differ in one entry differ in all later chained digests, so a scorer compares only the last one it knows.
    accept.lua computes the same.
    """
    return hashlib.sha1(f"{chain}{digest}".encode()).hexdigest()


@dataclass(frozen=True)
class RetractedLog:
    """The retractions of one generator's log, as of when they were read."""

    retractions: Sequence[RetractionRecord] = ()

    def __contains__(self, entry: LogEntry) -> bool:
        """True if this batch counts no longer."""
        return entry.seq <= self.restart or entry.seq in self._positions

    @cached_property
    def restart(self) -> int:
        """The position up to which all batches are retracted; 0: none."""
        return max((retraction.until for retraction in self.retractions), default=0)

    @property
    def newest(self) -> int:
        """The position of the newest retraction in the log, 0 without one: no estimate before it may be published."""
        return max(self._digests, default=0)

    def is_as_read(self, entry: LogEntry) -> bool:
        """True if the entry is no retraction, or a retraction among those read, and no batch took its position.

        Otherwise it was retracted since, or Redis has lost a retraction.
        """
        return (entry.digest if entry.is_retraction else None) == self._digests.get(entry.seq)

    @cached_property
    def _digests(self) -> dict[int, str]:
        """Digests by the positions of the retractions."""
        return {retraction.seq: retraction.digest for retraction in self.retractions}

    @cached_property
    def _positions(self) -> set[int]:
        """Positions of batches retracted singly, and of retractions of several batches."""
        return {retraction.position or retraction.seq for retraction in self.retractions}
