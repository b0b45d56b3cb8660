"""The accepted batches: the logs of generators, and the history of all batches."""

from __future__ import annotations

from typing import Any

from optimist.records import LogEntry, LogGap, NotFound, Runs, chained
from optimist.store import keys
from optimist.store.commands import Commands

_FIRST_PAGE = 4


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
        max_bytes, assuming that each is as large as the largest one so far.
        chain: `LogEntry.chain` at after_seq, "" where the caller does not know it. label: of the watched metric whose
        snapshot may stand at after_seq, "" for the primary one.
        Raises LogGap if positions are missing, as those trimmed are, if the log ends before after_seq, or if it is
        another one up to there than the caller has read: Redis has lost the end that it had. NotFound for an unknown
        generator.
        """
        counts = self._commands.key(experiment, "counts")
        last, ends = await self._commands.call("HMGET", counts, f"{generator}:seq", f"chain_{generator}")
        if last is None:
            raise NotFound(f"experiment {experiment!r} has no generator {generator}")
        if after_seq > int(last):
            raise LogGap(f"log of generator {generator} in {experiment!r} ends at {int(last)}, before {after_seq}")
        if chain and after_seq == int(last) and ends != f"{after_seq} {chain}".encode():
            raise LogGap(f"log of generator {generator} in {experiment!r} has changed before {after_seq}")
        entries: list[LogEntry] = []
        page, left, largest = min(_FIRST_PAGE, max_entries), max_bytes, 1
        while (position := after_seq + len(entries)) < int(last) and page > 0:
            found = await self._commands.call(
                "XRANGE",
                self._commands.key(experiment, f"log:{generator}"),
                f"{position + 1}-0",
                f"{int(last)}-0",
                "COUNT",
                page,
            )
            for offset, (entry_id, fields) in enumerate(found or [(b"nothing", {})], start=1):
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

    async def _chain(self, experiment: str, generator: int, seq: int, label: str) -> str | None:
        """The chained digest at a position of the log, or of the snapshot there; None if there is none."""
        log, facts = (self._commands.key(experiment, part) for part in (f"log:{generator}", keys.facts(label)))
        field = f"snapshot_chain_{keys.unit(generator, label)}"
        reads = [("XRANGE", log, f"{seq}-0", f"{seq}-0"), ("HGET", facts, field)]
        entries, snapshot = await self._commands.call_many(reads)
        if entries:
            return entries[0][1][b"chain"].decode()
        at, _, chain = (snapshot or b"").decode().partition(" ")
        return chain if at == str(seq) else None

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
    chain, retracts = fields[b"chain"].decode(), fields.get(b"retracts")
    if retracts is not None:
        return LogEntry(seq, 0, 0, fields[b"digest"].decode(), b"", chain=chain, retracts=retracts.decode())
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
    )


def _runs(stored: bytes) -> Runs:
    return tuple(map(int, stored.split()))
