"""Imported experiments: written under temporary keys that expire, then made experiments in one step."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from operator import attrgetter
from typing import NamedTuple, Unpack

from optimist.records import (
    AcceptanceRecord,
    ExperimentState,
    GeneratorState,
    KeptLevel,
    LogEntry,
    Said,
    Snapshot,
    Unavailable,
    Unit,
    audits_said,
    chained,
    codec,
    scored_of,
)
from optimist.store import keys
from optimist.store.copies import COPY_SECONDS
from optimist.store.experiments import Traits, facts_of
from optimist.store.index import Index
from optimist.store.keys import COPIES
from optimist.store.logs import CHUNK_BYTES
from optimist.store.parsing import COUNTED, SAME
from optimist.store.scores import kernels_digest
from optimist.store.scripts import Argument, Commands

STAGED_SECONDS = 600
"""Seconds that the temporary keys last after the newest write, unless the import is committed."""


class Restorations:
    """The part of `Store` that imports experiments."""

    _commands: Commands
    _index: Index

    @asynccontextmanager
    async def restoring(self, experiment: str) -> AsyncGenerator[Restoration]:
        """Begin an import, which is invisible before `Restoration.commit`; without that, nothing of it is kept."""
        restoration = Restoration(self._commands, self._index, experiment)
        try:
            yield restoration
        finally:
            with suppress(Unavailable):  # the temporary keys expire
                await restoration.discard()


class _Written(NamedTuple):
    """Bytes of the entries in a staged log, how many of them stand before a restart, and the log's chained digest."""

    bytes: int = 0
    restarted: int = 0
    chain: str = ""


class Restoration:
    """The import of one experiment: add the snapshots of each generator, its log, and the checks; then `commit`."""

    def __init__(self, commands: Commands, index: Index, experiment: str) -> None:
        self._commands = commands
        self._index = index
        self._experiment = experiment
        self._prefix = f"import:{uuid.uuid4().hex}"
        self._parts: list[str] = []
        self._positions: dict[Unit, int] = {}
        """Log positions of the snapshots."""
        self._snapshots: dict[str, Argument] = {}
        """The facts of snapshots, as flip_snapshot.lua leaves them."""
        self._covered: dict[Unit, int] = {}
        """Bytes of the bodies that a snapshot covers."""
        self._written: dict[int, _Written] = {}
        self._renewed = time.monotonic()

    async def add_snapshot(self, generator: int, snapshot: Snapshot, label: str) -> None:
        """Add a generator's statistic by one metric."""
        unit = generator, label
        unique = uuid.uuid4().hex
        starts = range(0, len(snapshot.body), CHUNK_BYTES)
        for number, start in enumerate(starts):
            chunk = snapshot.body[start : start + CHUNK_BYTES]
            await self._stage(f"snapshot:{keys.unit(*unit)}:{unique}:{number}", "SET", chunk)
        # In a thread: it takes seconds for a large statistic, and requests go on meanwhile.
        digest = await asyncio.to_thread(hashlib.sha256, snapshot.body)
        facts = {"": unique, "_chunks": len(starts), "_seq": snapshot.seq, "_digest": digest.hexdigest()}
        self._snapshots |= {f"{keys.unit(*unit)}:snapshot{name}": value for name, value in facts.items()}
        self._positions[unit] = snapshot.seq

    async def add_entries(
        self, generator: int, entries: Sequence[LogEntry], *, keep_log: bool, restart: int = 0
    ) -> None:
        """Add the next entries of a generator's log, in order. restart: up to which position all are retracted."""
        await self._renew()
        part = f"log:{generator}"
        if part not in self._parts:
            self._parts.append(part)
        size, restarted, chain = self._written.get(generator, _Written())
        staged: list[dict[str, Argument]] = []
        for entry in entries:
            size += entry.size
            restarted = size if entry.seq <= restart else restarted
            covering = [u for u, seq in self._positions.items() if u[0] == generator and entry.seq <= seq]
            self._covered |= dict.fromkeys(covering, size)
            chain = chained(chain, entry.digest)
            staged.append(
                {
                    "seq": entry.seq,
                    "pick": entry.pick,
                    "rows": entry.rows,
                    "digest": entry.digest,
                    "chain": chain,
                    "bytes": size,
                    "body": entry.body,
                    "record": entry.record or "",
                    "is_retraction": int(entry.is_retraction),
                    "is_answer": int(entry.is_answer),
                    "prompts": entry.prompts,
                    "indices": " ".join(map(str, entry.indices)),
                    "counted": " ".join(map(str, entry.counted)),
                    "context": entry.context,
                    "seconds": "" if entry.seconds is None else repr(entry.seconds),
                }
            )
        await self._commands.script(
            "stage_entries",
            [self._staged(part)],
            seconds=STAGED_SECONDS,
            keep_log=int(keep_log),
            entries=staged,
        )
        self._written[generator] = _Written(size, restarted, chain)

    async def add_checks(self, sizes: Mapping[str, str], levels: Sequence[Sequence[KeptLevel]]) -> None:
        """Add the standards of new batches: the outputs of `Store.usual_sizes` and `Store.levels`."""
        await self._stage_hash("checks", sizes)
        for ordinal, kept in enumerate(levels):
            if kept:
                await self._stage(f"levels:{ordinal}", "ZADD", *(text for level in kept for text in level.stored))

    async def commit(
        self,
        config: str,
        growth: float,
        stored: ExperimentState,
        history: bytes,
        fitted: Mapping[str, bytes],
        said: Sequence[Said] = (),
        **traits: Unpack[Traits],
    ) -> bool:
        """Make it the experiment of its name, as `stored` says; False if this `stored.instance` exists already.

        fitted: from `Store.fitted`, by label. said: from `Store.said`. traits: as `Store.create_experiment` takes them.
        Raises Conflict where another experiment has the name, NotFound where parts have expired.
        """
        counts: dict[str, Argument] = {
            "growth": repr(float(growth)),
            "instance": stored.instance,
            "keep_log": int(stored.keep_log),
            "rounds": stored.rounds,
            "told": stored.told,
        }
        counts |= facts_of({**_traits_of(stored), **traits}) | {
            f"worker:{name}": batches for name, batches in stored.of_workers.items()
        }
        # As retract.lua and accept_batch.lua leave them.
        retractions = [record for state in stored.generators for record in state.retractions]
        acceptances = [record for state in stored.generators for record in state.acceptances]
        for part, field, records in ("retractions", "retracted", retractions), ("acceptances", "accepted", acceptances):
            if records:
                counts[part] = sum(record.position > 0 for record in records)
            for number, record in enumerate(sorted(records, key=attrgetter("when")), start=1):
                at = record.position if isinstance(record, AcceptanceRecord) else record.position or record.seq
                counts[f"{field}_{record.generator}_{at}"] = f"{number}-0"
                await self._stage(part, "XADD", f"{number}-0", *codec.to_entry(record))
        audits = audits_said(said)
        await self._stage_said(said)
        if said:
            await self._stage_hash("audits", {id_: audit.stored for id_, audit in audits.items()})
            counts |= {f"{g}:scored": scored for g, scored in scored_of(audits.values()).items()}
            counts["audits_answered"] = sum(bool(audit.answered_by) for audit in audits.values())
            counts["comment_bytes"] = sum(len(record.comment.encode()) for record in said)
        for state in stored.generators:
            counts |= {f"{state.ordinal}:{name}": count for name, count in self._counts(state).items()}
            counts[f"chain_{state.ordinal}"] = f"{state.seq} {self._written.get(state.ordinal, _Written()).chain}"
        await self._stage_hash("counts", counts)
        for part, fields in (_hashes(stored) | {"units": self._facts(stored, fitted)}).items():
            await self._stage_hash(part, fields)
        for state in stored.generators:
            for start in range(0, len(state.told), 1024):
                intervals = state.told[start : start + 1024]
                scored = [part for first, stop in intervals for part in (stop, f"{first} {stop}")]
                await self._stage(f"told:{state.ordinal}", "ZADD", *scored)
        await self._stage("labels", "RPUSH", *stored.labels)
        for start in range(0, len(history), CHUNK_BYTES):
            await self._stage("history", "SETRANGE", start, history[start : start + CHUNK_BYTES])
        for label, payload in fitted.items():
            await self._stage(f"fitted:{label}", "SET", payload)
        for part, text in {"decision": stored.decision, "config": config}.items():
            if text is not None:
                await self._stage(part, "SET", text)
        pairs = [key for part in self._parts for key in (self._staged(part), self._final(part))]
        first = [self._final("config"), self._final("counts")]
        is_copy = (self._commands.namespace or "").endswith(COPIES)
        restored = await self._commands.script(
            "restore", [*first, *pairs], instance=stored.instance, seconds=COPY_SECONDS if is_copy else 0
        )
        await self._index.add(self._commands.full(self._experiment))
        return bool(restored[0])

    async def discard(self) -> None:
        """Remove uncommitted parts."""
        for start in range(0, len(self._parts), 256):
            await self._commands.call("UNLINK", *map(self._staged, self._parts[start : start + 256]))

    def _facts(self, stored: ExperimentState, fitted: Mapping[str, bytes]) -> dict[str, Argument]:
        """Facts of units, as put_fitted.lua, put_estimate.lua and flip_snapshot.lua store them."""
        facts = {f"{label}:fitted": kernels_digest(payload) for label, payload in fitted.items()} | self._snapshots
        for state in stored.generators:
            restarted = self._written.get(state.ordinal, _Written()).restarted
            for label, unit in state.units.items():
                name = keys.unit(state.ordinal, label)
                # Staged bodies that need not be read again.
                facts[f"{name}:snapshot_bytes"] = max(self._covered.get((state.ordinal, label), 0), restarted)
                if unit.estimate:
                    facts[f"{name}:seq"] = unit.estimate_seq
                    facts[f"{name}:made"] = f"{name} {unit.estimate_seq} {stored.instance} 0"
        return facts

    def _counts(self, state: GeneratorState) -> dict[str, int]:
        """The counts that enrol.lua sets to zero, and the counts that checking.lua keeps."""
        # Unreadable batches up to an estimate or a snapshot were counted, whether or not they are named.
        reached = [seq for unit in state.units.values() for seq in (unit.estimate_seq, unit.snapshot_seq)]
        counted = max(*reached, *(entry.seq for entry in state.quarantined), 0)
        return {
            **{name: getattr(state, name) for name in COUNTED},
            "bytes": self._written.get(state.ordinal, _Written()).bytes,
            "quarantined": state.quarantined_count,
            "quarantined_seq": counted,
            "copies": state.copies,
            "retracted": state.retracted,
            "restart": state.restart,
            "restarted_by": max((retraction.seq for retraction in state.retractions if retraction.until), default=0),
            "accepted": max((entry.until for entry in state.acceptances if not entry.position), default=0),
            **({"seedless": 1} if state.is_seedless else {}),
            **{f"{SAME}{other}": agree for other, agree in state.duplicates.items()},
        }

    async def _stage_hash(self, part: str, fields: Mapping[str, Argument] | Mapping[str, str]) -> None:
        if fields:
            await self._stage(part, "HSET", *(item for field in fields.items() for item in field))

    async def _stage_said(self, said: Sequence[Said], together: int = 1024) -> None:
        key = self._staged("audit_records")
        for start in range(0, len(said), together):
            entries = [("XADD", key, "*", *codec.to_entry(record)) for record in said[start + 1 : start + together]]
            await self._stage("audit_records", "XADD", "*", *codec.to_entry(said[start]))
            await self._commands.call_many(entries)

    async def _renew(self) -> None:
        """Have the keys written so far last on, if they have not been written lately."""
        if time.monotonic() - self._renewed < STAGED_SECONDS / 10:
            return
        self._renewed = time.monotonic()
        for start in range(0, len(self._parts), 256):
            parts = self._parts[start : start + 256]
            await self._commands.call_many([("EXPIRE", self._staged(part), STAGED_SECONDS) for part in parts])

    async def _stage(self, part: str, command: str, *arguments: Argument) -> None:
        await self._renew()
        if part not in self._parts:
            self._parts.append(part)
        key = self._staged(part)
        await self._commands.call_many([(command, key, *arguments), ("EXPIRE", key, STAGED_SECONDS)], transaction=True)

    def _staged(self, part: str) -> str:
        return self._commands.key(self._experiment, f"{self._prefix}:{part}")

    def _final(self, part: str) -> str:
        return self._commands.key(self._experiment, part)


def _traits_of(stored: ExperimentState) -> Traits:
    """Traits that the state of an experiment shows."""
    return Traits(
        labels=stored.labels,
        limited=stored.limited,
        mixture_growth=stored.mixture_growth,
        model_growth=stored.model_growth,
    )


def _hashes(stored: ExperimentState) -> dict[str, dict[str, Argument]]:
    """The hashes that a state is read from, by part; the inverse of `parsing.parse_state`."""
    generators = stored.generators
    return {
        "generators": {str(g.ordinal): g.name for g in generators},
        "states": {str(g.ordinal): g.state for g in generators if g.state != "active"},
        "controls": dict(stored.controls),
        "estimates": {
            keys.unit(g.ordinal, label): unit.estimate
            for g in generators
            for label, unit in g.units.items()
            if unit.estimate
        },
        "returned": {
            str(g.ordinal): " ".join(f"{start} {size}" for start, size in g.returned) for g in generators if g.returned
        },
        "quarantined": {f"{g.ordinal}:{entry.seq}": entry.reason for g in generators for entry in g.quarantined},
        "named_copies": {f"{g.ordinal}:{entry.seq}": entry.stored for g in generators for entry in g.named_copies},
    }
