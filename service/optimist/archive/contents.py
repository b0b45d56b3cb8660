"""The table of contents of an archive, and the entries of its log pages. It does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FailFast, Field, TypeAdapter, model_validator

from optimist.estimates.estimate import is_due
from optimist.records import (
    NAMED_COPIES,
    SLICES,
    AcceptanceRecord,
    Copy,
    GeneratorState,
    KeptLevel,
    LogEntry,
    Quarantined,
    RetractionRecord,
    Returned,
    Said,
    UnitState,
)
from optimist.records.codec import Count, Position
from optimist.store.retractions import MAX_RETRACTED
from optimist.store.scores import QUARANTINE_LIMIT
from optimist_client.config import MAX_WATCHED
from optimist_client.errors import FixError
from optimist_client.models import Experiment, GeneratorStatus
from optimist_client.wire import GeneratorName, Identifier, Wire, WorkerName

TOLD = 16_384
"""Maximum number of intervals of told indices of a generator; an experiment with more cannot be imported."""
GENERATORS = 1000
"""Maximum number of generators."""
DUPLICATES = 32
"""Most duplicates kept per generator, largest counts first."""
LEVELS = 8192
"""Maximum number of kept levels of a generator's batches, enough for 32 arrays; further levels are left out."""
RESTARTS = 1024
"""Maximum number of retractions of all batches of a generator; an experiment with more cannot be imported."""
PAGE_ENTRIES = 256
"""Entries of a page of a log."""
SAID_ENTRIES = 8192
"""Records of what people said in one member: fewer values than a member may have."""

LongText = Annotated[str, Field(max_length=2**20)]
_NUMBER = r"[0-9]{1,25}(\.[0-9]{1,25})?(e[+-][0-9]{1,3})?"
Sizes = Annotated[str, Field(pattern=rf"^[0-9]{{1,15}}( (-|{_NUMBER}))*$", max_length=500)]
NOT_EMPTY = Field(exclude_if=lambda value: not value)
"""Omits a field that is empty, which most are."""


class ArchivedUnit(Wire):
    """The state of a generator by a metric."""

    estimate_position: Count = 0
    estimate: LongText | None = None
    snapshot_position: Count = 0
    """0 without a snapshot."""


class ArchivedGenerator(Wire):
    """A generator, with the positions of its log and snapshot in the archive."""

    name: GeneratorName
    state: GeneratorStatus
    handed: Count
    returned: Annotated[list[Returned], Field(max_length=SLICES), FailFast()]
    """Runs of indices without samples so far, as in `GeneratorState`; some may be handed out already."""
    told: Annotated[list[tuple[Count, Position]], Field(max_length=TOLD), FailFast(), NOT_EMPTY] = Field(
        default_factory=list
    )
    """The indices that were told, as in `GeneratorState`."""
    is_seedless: Annotated[bool, NOT_EMPTY] = False
    """True if the generator ignores seeds."""
    answered: Annotated[Count, NOT_EMPTY] = 0
    unanswered: Annotated[Count, NOT_EMPTY] = 0
    """Position of the newest batch of a pick, and picks without one, as in `GeneratorState`."""
    quarantined: Annotated[list[Quarantined], Field(max_length=QUARANTINE_LIMIT), FailFast()]
    quarantined_count: Count
    named_copies: Annotated[list[Copy], Field(max_length=NAMED_COPIES), FailFast(), NOT_EMPTY] = Field(
        default_factory=list
    )
    copies: Annotated[Count, NOT_EMPTY] = 0
    duplicates: Annotated[dict[Count, Position], Field(max_length=DUPLICATES), NOT_EMPTY] = Field(default_factory=dict)
    """This field and the two before it count the anomalous batches, as in `GeneratorState`."""
    levels: Annotated[list[KeptLevel], Field(max_length=LEVELS), FailFast(), NOT_EMPTY] = Field(default_factory=list)
    """The kept levels of its batches, as in `Store.levels`."""
    acceptances: Annotated[list[AcceptanceRecord], Field(max_length=1025), FailFast(), NOT_EMPTY] = Field(
        default_factory=list
    )
    retractions: Annotated[
        list[RetractionRecord], Field(max_length=MAX_RETRACTED + RESTARTS), FailFast(), NOT_EMPTY
    ] = Field(default_factory=list)
    units: Annotated[dict[Identifier, ArchivedUnit], Field(min_length=1, max_length=1 + MAX_WATCHED)]
    """Units by the labels of all metrics."""
    pages: Annotated[list[Annotated[str, Field(pattern=r"^logs/[0-9]{1,9}$")]], Field(max_length=2**16), FailFast()]
    """Names of the log pages in order, at the latest from the first batch after the oldest snapshot."""

    @property
    def oldest_snapshot(self) -> int:
        """The position up to which no metric needs the log; 0 if one has no snapshot."""
        return min(unit.snapshot_position for unit in self.units.values())

    @cached_property
    def retracted(self) -> dict[int, RetractionRecord]:
        """The retractions by their own positions."""
        return {retraction.seq: retraction for retraction in self.retractions}

    @property
    def restart(self) -> int:
        """The position up to which all batches are retracted; 0: none."""
        return max((retraction.until for retraction in self.retracted.values()), default=0)

    def counts(self, position: int) -> bool:
        """True if the batch at this position counts."""
        return position > self.restart and all(r.position != position for r in self.retracted.values())


_SHARED = ArchivedGenerator.model_fields.keys() & {field.name for field in fields(GeneratorState)} - {"units"}


def shared_fields(generator: ArchivedGenerator | GeneratorState) -> dict[str, Any]:
    """The fields that both classes have, except for `units`."""
    return {name: getattr(generator, name) for name in _SHARED}


SAID = TypeAdapter(Annotated[list[Said], Field(max_length=SAID_ENTRIES), FailFast()])


class Manifest(Wire):
    """Everything except the binary bodies. Strings are in the format of the store.

    In the file each generator is a member of its own, so that no member is much to parse at once.
    """

    experiment: Experiment
    rounds: Count
    controls: Annotated[dict[str, Annotated[str, Field(max_length=2**18)]], Field(max_length=GENERATORS + 16)]
    of_workers: Annotated[dict[WorkerName, Position], Field(max_length=65_536), NOT_EMPTY] = Field(default_factory=dict)
    """Number of batches of each worker, where these are limited."""
    decision: LongText | None
    generators: Annotated[list[ArchivedGenerator], Field(max_length=GENERATORS), FailFast()] = Field(
        default_factory=list
    )
    sizes: Annotated[dict[Annotated[str, Field(pattern=r"^(usual|[0-9]{1,3})$")], Sizes], NOT_EMPTY] = Field(
        default_factory=dict
    )
    """The usual sizes that batches are compared with, as in `Store.usual_sizes`."""


class PageEntry(Wire):
    """A log entry without its body, which has `bytes` bytes, and its context, which has `context_bytes`."""

    entry: LogEntry
    bytes: Count
    context_bytes: Annotated[Count, NOT_EMPTY] = 0

    @model_validator(mode="after")
    def _has_as_many_rows(self) -> Self:
        rows, indices, counted = self.entry.rows, self.entry.indices, self.entry.counted
        if sum(indices[1::2]) > rows or (counted and sum(counted[1::2]) != rows):
            raise FixError(f"expected indices of at most the {rows} rows, and as many rows that count")
        return self


PAGE = TypeAdapter(Annotated[list[PageEntry], Field(max_length=PAGE_ENTRIES), FailFast()])


def generator_state(
    ordinal: int, archived: ArchivedGenerator, rows: NDArray[np.int64], growth: float, answers: Mapping[int, Said]
) -> GeneratorState:
    """The state of a generator as the store will return it, with counts from `rows`, by position in its log.

    rows: the size of each batch, 0 for a retraction, and for one of the `answers`, by their positions. `growth` is the
    experiment's `rescore_growth`. Raises FixError where the retractions do not fit the batches.
    """
    if any(record.generator != ordinal for record in (*archived.retractions, *archived.acceptances)):
        raise FixError(f"the retractions and acceptances of {archived.name!r} are of another generator")
    samples = batches = due_samples = due_seq = retracted = 0
    counting: dict[int, int] = {}
    for seq, count in enumerate(rows.tolist(), start=1):
        if (retraction := archived.retracted.get(seq)) is not None:
            several = [at for at in counting if at <= retraction.until]
            left_out = [counting.pop(at) for at in ([retraction.position] if retraction.position else several)]
            fits = (sum(left_out), len(left_out)) == (retraction.samples, retraction.batches)
            if not fits or retraction.until > (0 if retraction.position else seq):
                raise FixError(f"the retraction at {seq} of {archived.name!r} does not fit its batches")
            samples, batches = samples - retraction.samples, batches - retraction.batches
            retracted += retraction.samples
            due_samples, due_seq = (samples, seq) if samples >= 2 else (0, 0)
            continue
        if (answer := answers.get(seq)) is not None:
            due_seq = seq if answer.due else due_seq
            continue
        if archived.retracted:
            counting[seq] = count
        samples, batches = samples + count, batches + 1
        if is_due(samples, due_samples, growth):
            due_samples, due_seq = samples, seq
    return GeneratorState(
        ordinal=ordinal,
        samples=samples,
        batches=batches,
        seq=len(rows),
        due_samples=due_samples,
        due_seq=due_seq,
        units={
            label: UnitState(unit.estimate_position, unit.estimate, snapshot_seq=unit.snapshot_position)
            for label, unit in archived.units.items()
        },
        retracted=retracted,
        restart=archived.restart,
        **shared_fields(archived),
    )
