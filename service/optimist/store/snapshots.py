"""Snapshots: the statistic of a generator at a log position, after which the log before it can be removed."""

from __future__ import annotations

import asyncio
import hashlib
import uuid

from optimist.records import Damaged, Snapshot, Unavailable
from optimist.store import keys
from optimist.store.commands import Commands

CHUNK_BYTES = 4 * 2**20
"""Size of a chunk in bytes. Redis serves no other client while it receives and digests one."""
_UPLOAD_SECONDS = 600


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
        chain: str = "",
        kernels: str = "",
        label: str = "",
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
        view = memoryview(body).cast("B")
        chunks = [view[start : start + CHUNK_BYTES] for start in range(0, len(view), CHUNK_BYTES)]
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
                seconds=_UPLOAD_SECONDS,
                bytes=sent,
            )
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

    async def snapshot(self, experiment: str, generator: int, label: str = "") -> Snapshot | None:
        """The newest snapshot of a generator by one metric, None before the first.

        Raises Damaged if its digest does not match.
        """
        unit = keys.unit(generator, label)
        pointer, chain = await self._pointer(experiment, unit, label)
        while pointer is not None:
            unique, chunks, seq, digest = pointer.split(" ")
            prefix = f"snapshot:{unit}:{unique}"
            chunk_keys = [self._commands.key(experiment, f"{prefix}:{number}") for number in range(int(chunks))]
            body = b"".join([await self._commands.call("GET", key) or b"" for key in chunk_keys])
            if await asyncio.to_thread(_sha256, body) == digest:
                return Snapshot(int(seq), body, chain)
            # A newer snapshot may have replaced it, and removed its chunks, while they were read.
            last = pointer
            pointer, chain = await self._pointer(experiment, unit, label)
            if pointer == last:
                raise Damaged(f"the snapshot of generator {unit} in {experiment!r} does not match its digest")
        return None

    async def _pointer(self, experiment: str, unit: str, label: str) -> tuple[str | None, str]:
        """The entry of the snapshot, and the chained digest of the log at its position."""
        snapshots, facts = (self._commands.key(experiment, part) for part in ("snapshots", keys.facts(label)))
        reads = [("HGET", snapshots, unit), ("HGET", facts, f"snapshot_chain_{unit}")]
        pointer, noted = await self._commands.call_many(reads)
        if pointer is None:
            return None, ""
        # That of an imported snapshot is not known, and a newer one may have been noted since the pointer was read.
        seq, _, chain = (noted or b"").decode().partition(" ")
        return pointer.decode(), chain if seq == pointer.decode().split(" ")[2] else ""


def _sha256(body: bytes | memoryview) -> str:
    return hashlib.sha256(body).hexdigest()


def _sha1(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()
