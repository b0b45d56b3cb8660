"""The accepted batches: the logs of generators, the history of all batches, and the snapshots that stand for the
beginning of a log: a statistic at a position, after which the entries before it can be removed.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import Any, NamedTuple

from optimist.records import CorruptData, LogEntry, LogGap, NotFound, Runs, Snapshot, Unavailable, chained
from optimist.store import keys
from optimist.store.scripts import Commands

CHUNK_BYTES = 4 * 2**20
"""Size of a chunk in bytes. Redis serves no other client while it receives and digests one."""


class Snapshots:
    """The part of `Store` about snapshots."""

    _commands: Commands

    async def put_snapshot(
        self,
        experiment: str,
        generator: int,
        seq: int,
        body: bytes | memoryview,
        token: str,
        *,
        label: str,
        chain: str = "",
        kernels: str = "",
    ) -> bool:
        """Store the statistic at log position `seq`; False if one as new or newer exists.

        The log is trimmed up to the oldest snapshot of all metrics; where one has none, nothing is.

        Chunks expire unless they become the snapshot. That happens in one step, once all chunks are in Redis as they
        were sent; the step also checks the token, and removes the previous snapshot. A log with `keep_log` is not
        trimmed. chain, kernels, label: as `Scores` describes them.
        Raises Superseded as `Scores` does, and when another upload of this generator began; Conflict when the log does
        not reach `seq`; NotFound when the upload took so long that its first chunks expired; Unavailable when Redis
        holds other bytes than were sent.
        """
        # A view, of which one chunk at a time is copied.
        view = memoryview(body).cast("B")
        chunks = [view[start : start + CHUNK_BYTES] for start in range(0, len(view), CHUNK_BYTES)]
        # In a thread, as it takes seconds for a large statistic, and other generators go on meanwhile.
        digest = await asyncio.to_thread(_sha256, view)
        unique, unit = uuid.uuid4().hex, keys.unit(generator, label)
        await self._commands.experiment_script(
            "begin_snapshot", experiment, unit=unit, token=token, unique=unique, chunks=len(chunks)
        )
        for number, chunk in enumerate(chunks):
            sent = bytes(chunk)
            stands = await self._commands.experiment_script(
                "put_chunk",
                experiment,
                unit=unit,
                unique=unique,
                number=number,
                seconds=600,  # for which pieces wait for the rest
                bytes=sent,
            )
            # The entries behind a snapshot are trimmed and cannot be read again: it must be in Redis as it was sent.
            if stands[0].decode() != await asyncio.to_thread(_sha1, sent):
                raise Unavailable(f"chunk {number} of a snapshot of {experiment!r} did not reach Redis whole")
        flipped = await self._commands.experiment_script(
            "flip_snapshot",
            experiment,
            generator=generator,
            label=label,
            token=token,
            unique=unique,
            chunks=len(chunks),
            seq=seq,
            digest=digest,
            chain=chain,
            kernels=kernels,
        )
        return bool(flipped[0])

    async def snapshot(self, experiment: str, generator: int, label: str) -> Snapshot | None:
        """The newest snapshot of a generator by one metric, None before the first.

        Raises CorruptData if its digest does not match.
        """
        unit = keys.unit(generator, label)
        pointer = await self._pointer(experiment, unit)
        while pointer is not None:
            prefix = f"snapshot:{unit}:{pointer.unique}"
            chunk_keys = [self._commands.key(experiment, f"{prefix}:{number}") for number in range(pointer.chunks)]
            body = b"".join([await self._commands.call("GET", key) or b"" for key in chunk_keys])
            if await asyncio.to_thread(_sha256, body) == pointer.digest:
                return Snapshot(pointer.seq, body, pointer.chain)
            # A newer snapshot may have replaced it, and removed its chunks, while they were read.
            last, pointer = pointer, await self._pointer(experiment, unit)
            if pointer == last:
                raise CorruptData(f"the snapshot of generator {unit} in {experiment!r} does not match its digest")
        return None

    async def _pointer(self, experiment: str, unit: str) -> _Pointer | None:
        facts = ("snapshot", "snapshot_chunks", "snapshot_seq", "snapshot_digest", "snapshot_chain")
        names = [f"{unit}:{fact}" for fact in facts]
        stored = await self._commands.call("HMGET", self._commands.key(experiment, "units"), *names)
        if stored[0] is None:
            return None
        unique, chunks, seq, digest, chain = ((value or b"").decode() for value in stored)
        return _Pointer(unique, int(chunks), int(seq), digest, chain)


class _Pointer(NamedTuple):
    """Location of a snapshot. chain: of the log at its position, "" for an imported snapshot."""

    unique: str
    chunks: int
    seq: int
    digest: str
    chain: str


def _sha256(body: bytes | memoryview) -> str:
    return hashlib.sha256(body).hexdigest()


def _sha1(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


class Logs:
    """The part of `Store` that reads accepted batches."""

    _commands: Commands

    async def read_log(
        self,
        experiment: str,
        generator: int,
        after_seq: int,
        max_entries: int = 256,
        max_bytes: int = 16 * 2**20,
        *,
        chain: str = "",
        label: str = "",
    ) -> list[LogEntry]:
        """Entries of a generator's log from position after_seq + 1 on, in order; empty when there are none yet.

        Reads in growing pages, the first of four batches. A further page is read only if all entries would stay below
        max_bytes, with each as large as the largest so far.
        chain: `LogEntry.chain` at after_seq, "" where the caller does not know it. label: of the metric whose snapshot
        may stand at after_seq.
        Raises LogGap if positions are missing, for example trimmed, if the log ends before after_seq, or if it differs
        up to there from the log that the caller has read: Redis has lost its end. NotFound for an unknown generator.
        """
        counts = self._commands.key(experiment, "counts")
        # The end is read first: a position up to it that is missing below was lost or trimmed, and is not yet to come.
        last, ends = await self._commands.call("HMGET", counts, f"{generator}:seq", f"chain_{generator}")
        if last is None:
            raise NotFound(f"experiment {experiment!r} has no generator {generator}")
        if after_seq > int(last):
            raise LogGap(f"log of generator {generator} in {experiment!r} ends at {int(last)}, before {after_seq}")
        if chain and after_seq == int(last) and ends != f"{after_seq} {chain}".encode():
            raise LogGap(f"log of generator {generator} in {experiment!r} has changed before {after_seq}")
        entries: list[LogEntry] = []
        page, left, largest = min(4, max_entries), max_bytes, 1  # most reads find few new batches
        while (position := after_seq + len(entries)) < int(last) and page > 0:
            page_read = await self._commands.call(
                "XRANGE",
                self._commands.key(experiment, f"log:{generator}"),
                f"{position + 1}-0",
                f"{int(last)}-0",
                "COUNT",
                page,
            )
            for offset, (entry_id, fields) in enumerate(page_read or [(b"nothing", {})], start=1):
                if entry_id != b"%d-0" % (position + offset):
                    raise LogGap(
                        f"log of generator {generator} in {experiment!r} has {entry_id.decode()} "
                        f"where {position + offset}-0 was expected"
                    )
                entry = _log_entry(position + offset, fields)
                is_next = not chain or entry.chain == chained(chain, entry.digest)
                # Otherwise the entry is damaged, or it belongs to another log.
                if not is_next and await self._chain(experiment, generator, entry.seq - 1, label) != chain:
                    raise LogGap(f"log of generator {generator} in {experiment!r} has changed before {entry.seq}")
                chain = entry.chain
                entries.append(entry)
                left -= entry.size
                largest = max(largest, entry.size)
            page = min(2 * page, max_entries - len(entries), left // largest)
        return entries

    async def log_start(self, experiment: str, generator: int) -> int | None:
        """The position up to which a generator's log is trimmed; None where nothing is left of it."""
        key = self._commands.key(experiment, f"log:{generator}")
        first = await self._commands.call("XRANGE", key, "-", "+", "COUNT", 1)
        return int(first[0][0].partition(b"-")[0]) - 1 if first else None

    async def _chain(self, experiment: str, generator: int, seq: int, label: str) -> str | None:
        """The chained digest at a position of the log, or of the snapshot there; None if there is none."""
        log, units = (self._commands.key(experiment, part) for part in (f"log:{generator}", "units"))
        facts = [f"{keys.unit(generator, label)}:snapshot_{fact}" for fact in ("seq", "chain")]
        reads = [("XRANGE", log, f"{seq}-0", f"{seq}-0"), ("HMGET", units, *facts)]
        entries, (at, chain) = await self._commands.call_many(reads)
        if entries:
            return entries[0][1][b"chain"].decode()
        return (chain or b"").decode() if at == b"%d" % seq else None

    async def history(self, experiment: str, start: int = 0) -> bytes:
        """The accepted batches in order from byte `start` on, seven bytes each.

        Little-endian: generator u16, flags u8 (1: late, 2: without a pick), rows u32 (`struct` format "<HBI").
        """
        # Not a script, which would copy megabytes twice.
        config, key = (self._commands.key(experiment, part) for part in ("config", "history"))
        exists, history = await self._commands.call_many([("EXISTS", config), ("GETRANGE", key, start, -1)])
        if not exists:
            raise NotFound(f"there is no experiment {experiment!r}")
        return history


def _log_entry(seq: int, fields: dict[bytes, Any]) -> LogEntry:
    chain = fields[b"chain"].decode()
    if b"retracts" in fields:
        return LogEntry(seq, 0, 0, fields[b"digest"].decode(), b"", chain=chain, is_retraction=True)
    if b"answers" in fields:
        return LogEntry(seq, 0, 0, fields[b"digest"].decode(), fields[b"body"], chain=chain, is_answer=True)
    record = fields.get(b"record")
    return LogEntry(
        seq=seq,
        pick=int(fields[b"pick"]),
        rows=int(fields[b"rows"]),
        digest=fields[b"digest"].decode(),
        body=fields[b"body"],
        record=None if record is None else record.decode(),
        chain=chain,
        prompts=fields.get(b"prompts", b"").decode(),
        indices=_runs(fields.get(b"indices", b"")),
        counted=_runs(fields.get(b"counted", b"")),
        context=fields.get(b"context", b""),
        seconds=float(fields[b"seconds"]) if b"seconds" in fields else None,
    )


def _runs(stored: bytes) -> Runs:
    return tuple(map(int, stored.split()))
