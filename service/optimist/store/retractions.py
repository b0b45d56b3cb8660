"""Records of batches that no longer count, and of batches that were accepted although their scale differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypedDict, Unpack

from optimist.records import AcceptanceRecord, KeptLevel, RetractedLog, RetractionRecord, codec
from optimist.store import keys
from optimist.store.scripts import Commands

MAX_ACCEPTED = 1024
"""Maximum number of accepted single batches of an experiment; all of a generator can be accepted at once."""
MAX_RETRACTED = 1024
"""Maximum number of retracted single batches of an experiment; all of a generator can be retracted at once."""


class StoredLevels:
    """The part of `Store` about levels."""

    _commands: Commands

    async def levels(self, experiment: str, generators: Sequence[int]) -> list[list[KeptLevel]]:
        """The kept levels of these generators, by array from the lowest on."""
        parts = [self._commands.key(experiment, f"levels:{ordinal}") for ordinal in generators]
        answers = await self._commands.call_many([("ZRANGE", part, 0, -1, "WITHSCORES") for part in parts])
        return [[KeptLevel.from_member(repr(float(score)), name.decode()) for name, score in own] for own in answers]

    async def accept_batch(
        self,
        experiment: str,
        *,
        who: str = "",
        reason: str = "",
        instance: str | None = None,
        **named: Unpack[BatchName],
    ) -> tuple[AcceptanceRecord, bool]:
        """Accept a batch on another scale as it is, or all batches of a generator; idempotent.

        Returns the record, and whether it was accepted before. Raises NotFound for an unknown pick, generator or
        position, Retracted for a batch that was retracted, Conflict for a pick without a batch, and where
        `MAX_ACCEPTED` were accepted before.
        """
        of = named_batch(**named)
        record, already = await self._commands.experiment_script(
            "accept_batch",
            experiment,
            generator=of.generator,
            position=of.position,
            number=of.number,
            who=who,
            reason=reason,
            max_single=MAX_ACCEPTED,
            instance=instance,
        )
        return codec.from_entry(AcceptanceRecord, record), bool(already)


class BatchName(TypedDict, total=False):
    """The name of a batch, or of batches: a pick, a generator and a position of its log, or all of a generator."""

    pick: int | None
    generator: int | None
    position: int | None


class BatchArguments(NamedTuple):
    """The same for a script that uses lua/named_batch.lua; "" stands for None."""

    generator: int | str
    position: int | str
    number: int | str


def named_batch(pick: int | None = None, generator: int | None = None, position: int | None = None) -> BatchArguments:
    """The batch, or batches, of this `BatchName`. Raises ValueError."""
    if (pick is None) == (generator is None) or (position is not None and generator is None):
        raise ValueError("expected a pick, a generator, or a generator and a position")
    return BatchArguments(*("" if value is None else value for value in (generator, position, pick)))


class Retractions:
    """The part of `Store` about retractions."""

    _commands: Commands

    async def retract(
        self,
        experiment: str,
        *,
        until: int | None = None,
        who: str = "",
        reason: str = "",
        fits_kernels: bool = False,
        instance: str | None = None,
        **named: Unpack[BatchName],
    ) -> tuple[RetractionRecord | None, bool]:
        """Retract the batch of a pick, the batch at a position of a generator's log, or all of a generator; idempotent.

        until: of a generator without a position, only up to this position of its log. fits_kernels: True if the
        experiment's first samples fix a part of a metric, which is then fixed anew, unless `until` is given. Returns
        the record (None where the generator has no batches), and True if it was retracted before. Raises
        NotFound for an unknown pick, generator or position, NotRetractable where the log is needed and was trimmed.
        """
        if until is not None and (named.get("generator") is None or named.get("position") is not None):
            raise ValueError("until: expected a generator, without a position")
        of = named_batch(**named)
        record, already, _ = await self._commands.experiment_script(
            "retract",
            experiment,
            generator=of.generator,
            position=of.position,
            number=of.number,
            until_then="" if until is None else until,
            who=who,
            reason=reason,
            kernels=int(fits_kernels and until is None),
            max_single=MAX_RETRACTED,
            channel=keys.DUE,
            instance=instance,
        )
        return codec.from_entry(RetractionRecord, record) if record else None, bool(already)

    async def retracted_log(self, experiment: str, generator: int) -> RetractedLog:
        """Retractions of a generator's log. Read them before snapshot and log, which are then not older."""
        stored = await self._commands.call("XRANGE", self._commands.key(experiment, "retractions"), "-", "+")
        every = (codec.from_entry(RetractionRecord, [*chain.from_iterable(entry.items())]) for _, entry in stored)
        return RetractedLog(tuple(record for record in every if record.generator == generator))
