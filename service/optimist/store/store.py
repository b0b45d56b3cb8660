"""The state of experiments in Redis: bytes and JSON in, bytes and JSON out. Every transition is one script."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from redis.asyncio import Redis

from optimist.store import keys
from optimist.store.announcements import Announcements, announcements
from optimist.store.commands import Commands
from optimist.store.errors import LogGap, NotFound
from optimist.store.records import (
    AskGroup,
    GeneratorState,
    LogEntry,
    Look,
    NewPick,
    Opened,
    OpenPick,
    Returned,
    Settled,
)
from optimist.store.references import References

_FIRST_PAGE = 4


class Store:
    """Experiments and references of one Redis; holds no state, so any number may work on the same one.

    Every method raises `Unavailable` when Redis cannot serve, and may then be called again: what was committed is
    recognised inside the scripts. Those that name an experiment raise `NotFound` if there is none.

    settled_limit: how many of the newest rounds are remembered, so that a repeated tell gets its answer again.
    """

    def __init__(self, redis: Redis, settled_limit: int = 65_536) -> None:
        self._commands = Commands(redis)
        self._settled_limit = settled_limit
        self.references = References(self._commands)

    async def ping(self) -> None:
        """Return when Redis answers."""
        await self._commands.call("PING")

    async def create_experiment(self, experiment: str, config: str, generators: Sequence[str], growth: float) -> bool:
        """Create an experiment with generators 0, 1, 2, …; False if it stands there already with the same config.

        growth: estimates are due at (1 + growth) times the samples they were last due at (decisions.md §2).
        Raises Conflict if the name is taken by another config.
        """
        # The index may lie in another slot: config first, so that a crash in between is mended by creating again.
        created = await self._commands.experiment_script(
            "create_experiment", experiment, config, repr(float(growth)), *generators
        )
        await self._index(experiment)
        return bool(created[0])

    async def experiments(self) -> list[str]:
        """Ids of all experiments, oldest first."""
        members = [member.decode() for member in await self._commands.call("ZRANGE", keys.EXPERIMENTS, 0, -1)]
        # A deletion cut short leaves its name in the index.
        alive = await self._commands.call_many([("EXISTS", keys.experiment_key(name, "config")) for name in members])
        return [name for name, exists in zip(members, alive, strict=True) if exists]

    async def config(self, experiment: str) -> str | None:
        """The config that an experiment was created with, None if there is no such experiment."""
        config, indexed = await self._commands.call_many(
            [("GET", keys.experiment_key(experiment, "config")), ("ZSCORE", keys.EXPERIMENTS, experiment)]
        )
        if config is None:
            return None
        if indexed is None:
            await self._index(experiment)
        return config.decode()

    async def delete_experiment(self, experiment: str) -> bool:
        """Remove every trace of an experiment; False if there was none."""
        existed = await self._commands.experiment_script("delete_experiment", experiment)
        await self._commands.call("ZREM", keys.EXPERIMENTS, experiment)
        return bool(existed[0])

    async def look(self, experiment: str) -> Look:
        """Free the leases that ran out, then see counts, estimates, open picks and the decision, all of one moment."""
        *hashes, decision, leased = await self._commands.experiment_script("look", experiment)
        counts, names, estimates, damaged, returned = map(_pairs, hashes)
        return Look(
            rounds=int(counts["rounds"]),
            told=int(counts["told"]),
            generators=[
                _generator_state(g, names[str(g)], counts, estimates.get(str(g)), damaged.get(str(g)), returned)
                for g in sorted(map(int, names))
            ],
            open_picks=sorted((_open_pick(*entry) for entry in leased), key=lambda pick: pick.number),
            decision=None if decision is None else decision.decode(),
        )

    async def open_picks(
        self, experiment: str, expected_rounds: int, groups: Sequence[AskGroup], lease_seconds: float
    ) -> Opened | None:
        """Open the picks of several asks at once, numbered from expected_rounds + 1 in order.

        None: nothing was opened, because since `look` other picks were opened, a decision was latched, or a slice to be
        handed out `again` is no longer there: look again.
        `repeated`: some of these asks had their picks before; nothing was opened, and only theirs are given. A call
        whose reply was lost is answered that way when it is sent again.
        Raises ValueError for a group without picks, or a request id that holds a tab or comes twice.
        """
        requests = [group.request_id for group in groups]
        if len(set(requests)) < len(requests) or any("\t" in request for request in requests):
            raise ValueError("request ids must differ from one another and hold no tab")
        if not all(group.picks for group in groups):
            raise ValueError("an ask opens at least one pick")
        sizes = (part for group in groups for part in (group.request_id, len(group.picks)))
        picks = (part for group in groups for pick in group.picks for part in _pick_arguments(pick))
        outcome, *answers = await self._commands.experiment_script(
            "open_picks", experiment, expected_rounds, lease_seconds, self._settled_limit, len(groups), *sizes, *picks
        )
        if outcome == b"moved":
            return None
        numbers = {
            request.decode(): [int(number) for number in listed.split(b",")]
            for request, listed in zip(answers[::2], answers[1::2], strict=True)
        }
        return Opened(numbers, repeated=outcome == b"repeated")

    async def settle(self, experiment: str, pick: int, digest: str, rows: int, body: bytes) -> Settled:
        """Accept a batch for a pick: log, counts, due position and history in one step; durable when this returns.

        A lease that ran out, or a latched decision, does not keep a batch from counting. digest: of the decoded
        arrays, not empty: the same digest again gets the first answer again.
        Raises Conflict if the pick was told with another digest or given up, Gone below the low-water mark,
        NotFound if it was never opened.
        """
        if not digest or "\t" in digest or rows < 1:
            raise ValueError("a batch has at least one row, and a digest without tabs")
        answer, duplicate = await self._commands.experiment_script(
            "settle", experiment, pick, digest, rows, body, keys.DUE, experiment
        )
        return Settled(**json.loads(answer), duplicate=bool(duplicate))

    async def give_up(self, experiment: str, pick: int, reason: str) -> None:
        """Return a pick unsampled; again is as good as once.

        Raises Conflict if it was told, Gone below the low-water mark, NotFound if it was never opened.
        """
        await self._commands.experiment_script("give_up", experiment, pick, reason)

    async def read_log(
        self, experiment: str, generator: int, after_seq: int, max_entries: int = 256, max_bytes: int = 16 * 2**20
    ) -> list[LogEntry]:
        """Batches of a generator from position after_seq + 1 on, in order; empty when there are none yet.

        Reads in growing pages. After the first, of four batches, none is begun that would pass max_bytes of bodies if
        its batches were as large as the largest seen.
        Raises LogGap if positions are missing, NotFound for an unknown generator.
        """
        last = await self._commands.call("HGET", keys.experiment_key(experiment, "counts"), f"{generator}:seq")
        if last is None:
            raise NotFound(f"experiment {experiment!r} has no generator {generator}")
        entries: list[LogEntry] = []
        page, left, largest = min(_FIRST_PAGE, max_entries), max_bytes, 1
        while (position := after_seq + len(entries)) < int(last) and page > 0:
            found = await self._commands.call(
                "XRANGE", keys.log_key(experiment, generator), f"{position + 1}-0", f"{int(last)}-0", "COUNT", page
            )
            for offset, (entry_id, fields) in enumerate(found or [(b"nothing", {})], start=1):
                if entry_id != b"%d-0" % (position + offset):
                    raise LogGap(
                        f"log of generator {generator} in {experiment!r} has {entry_id.decode()} "
                        f"where {position + offset}-0 should stand"
                    )
                entries.append(_log_entry(position + offset, fields))
                left -= len(entries[-1].body)
                largest = max(largest, len(entries[-1].body))
            page = min(2 * page, max_entries - len(entries), left // largest)
        return entries

    async def put_estimate(self, experiment: str, generator: int, seq: int, payload: str, config: str) -> bool:
        """Publish an estimate made at log position `seq`; False if one as new or newer stands there.

        A damage noted of the generator is mended by it. config: what the estimate was made under; raises NotFound
        where the experiment was deleted and another made under its name since.
        """
        made_under = hashlib.sha1(config.encode()).hexdigest()
        stands = await self._commands.experiment_script(
            "put_estimate", experiment, generator, seq, payload, keys.SCORED, experiment, made_under
        )
        return bool(stands[0])

    async def put_damage(self, experiment: str, generator: int, note: str) -> None:
        """Note what is damaged in a generator's log, for `look` to show; the latest note stands."""
        await self._commands.experiment_script("put_damage", experiment, generator, note)

    async def put_fitted(self, experiment: str, payload: bytes, config: str) -> bytes:
        """Fix what is fitted once, from the first samples; returns what stands, which is what was put first.

        config: as in `put_estimate`.
        """
        made_under = hashlib.sha1(config.encode()).hexdigest()
        stands = await self._commands.experiment_script("put_fitted", experiment, payload, made_under)
        return stands[0]

    async def fitted(self, experiment: str) -> bytes | None:
        """What `put_fitted` fixed, None before that, or where there is no such experiment."""
        return await self._commands.call("GET", keys.experiment_key(experiment, "fitted"))

    async def want_modes(self, experiment: str, generator: int) -> None:
        """Announce on `keys.MODES` that somebody waits for a generator's modes."""
        await self._commands.call("PUBLISH", keys.MODES, f"{experiment} {generator} 0")

    async def put_modes(self, experiment: str, generator: int, seq: int, payload: str, config: str) -> bool:
        """Publish a generator's modes at log position `seq`; False if newer ones stand.

        config: as in `put_estimate`.
        """
        made_under = hashlib.sha1(config.encode()).hexdigest()
        stands = await self._commands.experiment_script(
            "put_modes", experiment, generator, seq, payload, keys.MODES_MADE, experiment, made_under
        )
        return bool(stands[0])

    async def modes(self, experiment: str, generator: int) -> tuple[int, str] | None:
        """The log position and payload of a generator's newest modes, None before the first."""
        entry = await self._commands.call("HGET", keys.experiment_key(experiment, "modes"), generator)
        if entry is None:
            return None
        seq, payload = entry.decode().split(" ", 1)
        return int(seq), payload

    async def latch_decision(self, experiment: str, payload: str) -> bool:
        """Decide an experiment, after which no picks are opened; False if another decision was made first."""
        latched = await self._commands.experiment_script("latch_decision", experiment, payload)
        return bool(latched[0])

    async def history(self, experiment: str, start: int = 0) -> bytes:
        """The told batches in order from byte `start` on, seven bytes each.

        Little-endian: generator u16, flags u8 (1: late), rows u32 (`struct` format "<HBI").
        """
        history = await self._commands.experiment_script("read_history", experiment, start)
        return history[0]

    def announcements(self, *channels: str) -> AbstractAsyncContextManager[Announcements]:
        """Listen to channels named in `keys`; see `announcements.announcements`."""
        return announcements(self._commands, *channels)

    async def _index(self, experiment: str) -> None:
        await self._commands.call("ZADD", keys.EXPERIMENTS, "NX", time.time(), experiment)


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _pick_arguments(pick: NewPick) -> tuple[str | int, ...]:
    taken = "" if pick.start is None else f"{pick.start} {pick.size}"
    return pick.generator, taken, "" if pick.again is None else pick.again, pick.record


def _generator_state(
    ordinal: int,
    name: str,
    counts: dict[str, str],
    estimate: str | None,
    damage: str | None,
    returned: dict[str, str],
) -> GeneratorState:
    seq, payload = (0, None) if estimate is None else estimate.split(" ", 1)
    return GeneratorState(
        ordinal=ordinal,
        name=name,
        samples=int(counts[f"{ordinal}:samples"]),
        batches=int(counts[f"{ordinal}:batches"]),
        seq=int(counts[f"{ordinal}:seq"]),
        due_samples=int(counts[f"{ordinal}:due_samples"]),
        due_seq=int(counts[f"{ordinal}:due_seq"]),
        estimate_seq=int(seq),
        estimate=payload,
        damage=damage,
        handed=int(counts[f"{ordinal}:handed"]),
        returned=_returned(ordinal, returned),
    )


def _returned(ordinal: int, slices: dict[str, str]) -> list[Returned]:
    numbers = ((int(pick), *map(int, entry.split(" "))) for pick, entry in slices.items())
    return [Returned(pick, start, size) for pick, generator, start, size in sorted(numbers) if generator == ordinal]


def _open_pick(number: bytes, deadline: bytes, entry: bytes) -> OpenPick:
    generator, request_id, _, record = entry.decode().split("\t", 3)
    return OpenPick(int(number), int(generator), request_id, record, float(deadline))


def _log_entry(seq: int, fields: dict[bytes, Any]) -> LogEntry:
    return LogEntry(
        seq=seq,
        pick=int(fields[b"pick"]),
        rows=int(fields[b"rows"]),
        digest=fields[b"digest"].decode(),
        body=fields[b"body"],
    )
