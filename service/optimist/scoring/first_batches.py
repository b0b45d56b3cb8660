"""The first batches of a log, by which open kernels and the bandwidth of contexts are fixed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from optimist.estimation.question import Question
from optimist.estimation.stored import batch_of, routed_prompt_of
from optimist.numerics.routing.features import Floats
from optimist.records import LogEntry
from optimist.store import Store


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """One of the first batches of a log."""

    entry: LogEntry
    tensors: dict[str, Tensor]
    context: Floats
    """(d,); (0,) where the bandwidth of contexts is not open."""

    @classmethod
    def of(cls, entry: LogEntry, question: Question) -> FirstBatch:
        """Raises ValueError for a batch that cannot be read."""
        batch = batch_of(entry)[0]
        if question.contexts is None or not question.contexts.is_open:
            return cls(entry, batch, np.zeros(0))
        return cls(entry, batch, question.contexts.read(routed_prompt_of(entry).context))


async def first_batches(
    store: Store, place: tuple[str, int], question: Question, rows: int, batches: int
) -> list[FirstBatch]:
    """The first readable batches that have `rows` rows together, `batches` of them or more; [] if there are too few.

    place: experiment and ordinal.
    """
    found: list[FirstBatch] = []
    retracted = await store.retracted_log(*place)
    seq, chain = max(0, retracted.restart - 1), ""
    while entries := await store.read_log(*place, seq, max_entries=32, chain=chain):
        for entry in entries:
            if entry.retracts is not None or entry in retracted:
                continue
            with contextlib.suppress(ValueError):
                found.append(FirstBatch.of(entry, question))
                rows -= entry.rows
            if rows <= 0 and len(found) >= batches:
                return found
        seq, chain = entries[-1].seq, entries[-1].chain
    return []
