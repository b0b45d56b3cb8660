"""The same random commands on the store of today, through a real Redis, and on tables: the same answers and states.

python -m tests.interleavings.differential [--seeds 50] [--first 0] [--commands 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from rich.console import Console

from optimist.dispatch.tables_state import Beside, state_from
from optimist.dispatch.writer import Command, Writer
from optimist.experiments.drafts import Draft
from optimist.experiments.opening import open_pick
from optimist.experiments.tables import Tables
from optimist.experiments.transitions import batches, blending, controls, picks, previews, retracting
from optimist.records import (
    AskGroup,
    Batch,
    Contents,
    Copy,
    ExperimentState,
    KeptLevel,
    Measures,
    NewPick,
    NewPreview,
    Opening,
    OpenPick,
    Origin,
    Settled,
    Size,
    Slice,
    StoreError,
)
from optimist.records.tables import (
    CONTROLS,
    LEVELS,
    PICKS,
    PREVIEWS,
    UNITS,
    WHOLE,
    PickRow,
    RootRow,
)
from optimist.store import Store, connect, start_embedded
from tests.interleavings.invariants import tables_of
from tests.support.memory_store import MemoryStore

GENERATORS, SEEDLESS, SIZE, LABEL, LEASE, MOST = 3, "g2", 5, "m", 1e6, 8
ROOM = picks.Room(10**6, 10**6, 10**6)
LIMIT = 60
"""Ends of picks and keys that are remembered."""


@dataclass(frozen=True)
class Chosen:
    """The choice of a test: `choice` for every pick."""

    choice: picks.Chosen
    context: str = ""
    prompts: tuple[str, ...] = ()

    def is_spent(self, draft: Draft) -> bool:
        return False

    def choose(self, draft: Draft, number: int, place: int) -> picks.Chosen | None:
        return self.choice

    def describe(self, draft: Draft, number: int, pick: PickRow) -> picks.Described:
        return picks.Described("{}", ",".join(self.prompts), "", self.context)


@dataclass
class Both:
    """One experiment in both stores."""

    store: Store
    redis: Redis
    name: str
    random: random.Random
    keep_log: bool = False
    crowded: bool = False
    """Whether all is told to one generator, and measured."""
    seen: Counter[str] = field(default_factory=Counter)
    picks: list[tuple[int, str]] = field(default_factory=list)
    """Number and nonce."""
    step: int = 0
    loose: set[int] = field(default_factory=set)
    """Generators whose count of copies is not compared: today a copy that was retracted before is counted twice."""

    def __post_init__(self) -> None:
        self.memory = MemoryStore(time.time, dict.fromkeys(("settled", "expired", "appended"), LIMIT))
        self.writer = Writer("w", time.monotonic)

    def mine(self, command: Command) -> Any:
        [reply] = self.memory.run(self.writer.run([command]))
        return reply

    @property
    def tables(self) -> Tables:
        return self.writer.tables

    async def create(self) -> None:
        names = [f"g{g}" for g in range(GENERATORS)]
        root = RootRow(f"{self.name} {self.step}", "{}", 0.3, (LABEL,), SIZE, self.keep_log)
        self.same(
            self.mine(lambda draft: controls.create(draft, root, "{}", names, {SEEDLESS})),
            await self.store.create_experiment(
                self.name,
                "{}",
                names,
                0.3,
                batch_size=SIZE,
                keep_log=self.keep_log,
                labels=[LABEL],
                seedless={SEEDLESS},
                instance=root.instance,
            ),
        )

    async def take_step(self) -> None:
        """One command, and the comparison of all that it may have changed."""
        self.step += 1
        weights: dict[Callable[[], Awaitable[None]], float] = {
            self._ask: 30.0,
            self._tell: 40.0,
            self._append: 10.0,
            self._give_up: 5.0,
            self._retract: 4.0,
            self._expire: 4.0,
            self._accept: 2.0,
            self._previews: 2.0,
            self._score: 2.0,
            self._latch: 1.0,
            self._reopen: 1.0,
            self._set_state: 1.0,
            self._control: 1.0,
            self._renew: 1.0,
            self._blend: 1.0,
            self._again: 1.0,
            self._add: 0.2,
            self._delete: 0.1,
        }
        if self.crowded:
            weights = {self._ask: 30.0, self._tell: 60.0, self._append: 5.0, self._retract: 0.5}
        command = self.random.choices(list(weights), list(weights.values()))[0]
        await command()
        self.seen[command.__name__] += 1
        await self.compare()

    def same(self, mine: Any, other: Any) -> None:
        assert mine == other, (self.step, mine, other)

    async def both(self, command: Command, call: Awaitable[Any]) -> tuple[Any, Any] | None:
        """The answers of both; None where both refuse, in the same words."""
        mine: Any = self.mine(command)
        try:
            other = await call
        except StoreError as error:
            other = error
        if isinstance(mine, StoreError) or isinstance(other, StoreError):
            self.same((type(mine), str(mine)), (type(other), str(other)))
            self.seen[type(mine).__name__] += 1
            return None
        return mine, other

    # Commands.

    async def _ask(self, count: int = 0) -> None:
        r = self.random
        state = await self.store.state(self.name)
        g = 0 if self.crowded else r.choice(state.active).ordinal
        choice = picks.Chosen(g, r.choice([SIZE, SIZE, 2, 8, 20]), r.choice([1, 1, 3]), r.choice([0, 10, 5]))
        request, worker, context = f"r{self.step}", f"w{self.step}", r.choice(["", "", "", "Y29udGV4dA=="])
        nonces = tuple(f"{r.getrandbits(64):x}" for _ in range(r.choice([1, 1, 3])))
        asked = picks.Ask(request, nonces, LEASE, ROOM, worker, "key")
        mine = self.mine(lambda draft: picks.ask(draft, asked, Chosen(choice, context)))
        new = [self._planned(state, choice, nonce, request, worker, context) for nonce in nonces]
        before = state.rounds - len(nonces), new[0][1]
        opening = Opening([AskGroup(request, [pick for pick, _ in new])], LEASE, *before)
        done = await self.store.exchange(self.name, opening=opening)
        self.same(mine.has_ended, not done.has_opened)
        if mine.has_ended:
            return
        self.same({request: list(mine.numbers)}, done.opened and done.opened.numbers)  # pyright: ignore
        for number, nonce, (pick, _) in zip(mine.numbers, nonces, new, strict=True):
            row = self.tables.picks[number]
            part = pick.part
            self.same((row.start, row.size), (None, choice.size) if part is None else (part.start, part.size))
            self.picks.append((number, nonce))

    def _planned(
        self, state: ExperimentState, choice: picks.Chosen, nonce: str, request: str, worker: str, context: str
    ) -> tuple[NewPick, str]:
        """The next pick as it is planned today, and the nonce of the one before it; opened on the state."""
        generator, size, part, last = state.generators[choice.generator], choice.size, None, state.last
        if not generator.is_seedless:
            if generator.returned:
                start, whole = generator.returned[0]
                size = min(size, whole)
                part = Slice(start, size, again=True, left=whole - size)
            else:
                part = Slice(generator.handed, size, left=-size % SIZE)
        new = NewPick(
            choice.generator,
            "{}",
            nonce,
            part,
            choice.least,
            choice.most,
            "key",
            b"context" if context else b"",
            worker,
        )
        leased = OpenPick(state.rounds + 1, choice.generator, request, "{}", 0.0, nonce, "key")
        open_pick(state, leased, new)
        return new, last

    async def _again(self) -> None:
        """An ask that is repeated while its only pick is open."""
        able = [number for number, _ in self.picks[-8:] if number in self.tables.picks]
        singles = [number for number in able if len(self.tables.of_request[self.tables.picks[number].request]) == 1]
        root = self.tables.root
        if not singles or root is None or root.decision is not None or controls.STOPPED in self.tables[CONTROLS]:
            return
        pick = self.tables.picks[singles[0]]
        asked = picks.Ask(pick.request, ("new",), LEASE, ROOM, pick.worker, "key")
        mine = self.mine(lambda draft: picks.ask(draft, asked, Chosen(picks.Chosen(0, SIZE))))
        opening = Opening([AskGroup(pick.request, [NewPick(0, "{}", "new")])], LEASE, root.rounds)
        done = await self.store.exchange(self.name, opening=opening)
        if done.opened is not None:  # today it is recognised until the first of its picks has ended
            self.same({pick.request: list(mine.numbers)}, done.opened.numbers)  # pyright: ignore

    async def _tell(self) -> None:
        if not self.picks:
            return
        r = self.random
        number, nonce = r.choice(self.picks[-8:] if r.random() < 0.8 else self.picks)
        nonce = nonce if r.random() < 0.97 else "wrong"
        digest = f"{number} {r.random() < 0.1}"
        rows = 1 + random.Random(digest).choice([4, 4, 2, 6, 8])
        batch = Batch(number, nonce, Contents(digest, rows, b"body", self._measures()))
        mine = self.mine(lambda draft: batches.tell(draft, batch))
        [other] = (await self.store.exchange(self.name, [batch])).settled
        self._same_settled(mine, other)

    def _measures(self) -> Measures | None:
        r = self.random
        content = f"{r.randrange(30) if r.random() < 0.3 else r.getrandbits(64):016x}"
        prompts = r.choice(["", "", "aaaaaaaa", "bbbbbbbb"])
        reference = r.choice([None, None, 1.5])
        levels = [None if r.random() < 0.2 else round(r.gauss(0.0, 1.0), 3) for _ in range(2)]
        sizes = [
            Size(name, r.choice([1.0, 1.0, 2.5, 3e3, 1e9]), r.randrange(5), r.uniform(0.5, 2.0), reference, level)
            for name, level in zip(("features", "others"), levels, strict=True)
        ]
        measures = Measures(content, prompts, 1e6, r.random() < 0.1, sizes)
        return measures if self.crowded else r.choice([None, measures])

    def _same_settled(self, mine: Any, other: Any) -> None:
        if isinstance(mine, StoreError) or isinstance(other, StoreError):
            self.same((type(mine), str(mine)), (type(other), str(other)))
            self.seen[type(mine).__name__] += 1
            return
        self.same(*map(_settled, (mine, other)))

    async def _append(self) -> None:
        r = self.random
        g, key, start = r.randrange(GENERATORS), f"k{r.randrange(25)}", r.choice([None, None, 0, 20, 33, 60, 111])
        contents = Contents(f"d{key}", 4, b"body", self._measures())
        found = await self.both(
            lambda draft: batches.append(draft, g, key, contents, start),
            self.store.append(self.name, g, key, contents, start=start),
        )
        if found is not None:
            self._same_settled(*found)

    async def _give_up(self) -> None:
        if self.picks:
            number, nonce = self.random.choice(self.picks[-8:])
            nonce = self.random.choice([nonce, nonce, "", "wrong"])
            await self.both(
                lambda draft: picks.give_up(draft, number, "tired", nonce),
                self.store.give_up(self.name, number, "tired", nonce=nonce),
            )

    def _named(self) -> retracting.Named:
        r = self.random
        if r.random() < 0.3:
            last = 1 if self.tables.root is None else self.tables.root.rounds + 2
            return retracting.Named(r.randrange(max(1, last - 20), last + 1))
        return retracting.Named(None, r.randrange(GENERATORS), r.choice([None, *range(1, 30)]))

    async def _retract(self) -> None:
        r, named = self.random, self._named()
        until = r.choice([None, r.randrange(0, 30)]) if named.pick is None and named.position is None else None
        fits = until is None and r.random() < 0.5
        if until is not None and named.generator is not None:
            self.loose.add(named.generator)
        found = await self.both(
            lambda draft: retracting.retract(draft, named, retracting.By("me", "bad"), until=until, fits_kernels=fits),
            self.store.retract(self.name, **named._asdict(), until=until, who="me", reason="bad", fits_kernels=fits),
        )
        if found is not None:
            mine, other = found
            self.same((mine[1], _untimed(mine[0])), (other[1], _untimed(other[0])))
            self.seen["retracted"] += not mine[1]

    async def _accept(self) -> None:
        named = self._named()
        found = await self.both(
            lambda draft: retracting.accept(draft, named, retracting.By("me", "fine")),
            self.store.accept_batch(self.name, **named._asdict(), who="me", reason="fine"),
        )
        if found is not None:
            mine, other = found
            self.same((mine[1], _untimed(mine[0])), (other[1], _untimed(other[0])))

    async def _expire(self) -> None:
        able = [number for number, _ in self.picks[-8:] if number in self.tables.picks]
        if not able:
            return
        number = self.random.choice(able)
        past = self.tables.picks[number]._replace(deadline=1.0)
        self.mine(lambda draft: (draft.put(PICKS, number, past), picks.expire(draft)))
        await self.redis.zadd(f"optimist:{{{self.name}}}:leases", {str(number): 1.0}, xx=True)

    async def _renew(self) -> None:
        numbers = [number for number, _ in self.picks[-4:]]
        mine = self.mine(lambda draft: picks.renew(draft, numbers, 60.0))
        self.same(mine, await self.store.renew_leases(self.name, numbers, 60.0))

    async def _set_state(self) -> None:
        g, state = self.random.randrange(GENERATORS), self.random.choice(["active", "active", "paused"])
        state = "retired" if self.random.random() < 0.03 else state
        await self.both(lambda draft: controls.set_state(draft, g, state), self.store.set_state(self.name, g, state))

    async def _control(self) -> None:
        fields = {"stopped": self.random.choice(["", "", "yes"]), "budget": self.random.choice(["", "100"])}
        await self.both(lambda draft: controls.control(draft, fields), self.store.control(self.name, fields))

    async def _add(self) -> None:
        name = f"g{GENERATORS + self.random.randrange(3)}"
        found = await self.both(
            lambda draft: controls.add_generator(draft, name, GENERATORS + 2, 1.5),
            self.store.add_generator(self.name, name, most=GENERATORS + 2, cost=1.5),
        )
        if found is not None:
            self.same(*found)

    async def _score(self) -> None:
        """What a scorer notes: an estimate, or a snapshot with which the log begins."""
        g, prefix = self.random.randrange(GENERATORS), f"optimist:{{{self.name}}}:"
        seq = self.tables.generators[g].seq
        if not seq:
            return
        facts = {f"{g}:{LABEL}:seq": str(seq), f"{g}:{LABEL}:made": f"estimate {self.step}"}
        if self.random.random() < 0.3:
            facts |= {f"{LABEL}:fitted": "kernels", f"{LABEL}:fitted_from": "0 2 1 3"}
            await self.redis.set(f"{prefix}fitted:{LABEL}", "kernels")
        if not self.keep_log and self.random.random() < 0.1:
            facts |= {f"{g}:{LABEL}:snapshot_seq": str(seq), f"{g}:{LABEL}:snapshot_bytes": "0"}
            self.memory.trim(f"log:{g}", seq + 1)
            await self.redis.xtrim(f"{prefix}log:{g}", minid=f"{seq + 1}-0", approximate=False)
        self.memory.contents.hashes.setdefault("units", {}).update(facts)
        await self.redis.hset(f"{prefix}units", mapping=facts)  # pyright: ignore

    async def _latch(self) -> None:
        state = await self.store.state(self.name)
        payload = f"decision {self.random.randrange(3)}"
        basis = {(UNITS, f"{g.ordinal}:{LABEL}:made"): g.primary.made or None for g in state.generators}
        digest, seqs = state.basis_digest, [g.primary.estimate_seq for g in state.generators]
        if self.random.random() < 0.3:
            basis[UNITS, f"0:{LABEL}:made"], digest = "another", "0" * 40
        found = await self.both(
            lambda draft: controls.latch(draft, payload, basis, seqs),
            self.store.latch_decision(self.name, payload, digest),
        )
        assert found is not None
        self.same(*found)

    async def _reopen(self) -> None:
        decision = f"decision {self.random.randrange(3)}"
        found = await self.both(lambda draft: controls.reopen(draft, decision), self.store.reopen(self.name, decision))
        assert found is not None
        self.same(*found)

    async def _blend(self) -> None:
        r, request = self.random, f"request{self.random.randrange(20)}"
        weights, size = {g: r.choice([0.0, r.random()]) for g in range(GENERATORS)} | {0: 0.5}, r.randrange(1, 20)
        found = await self.both(
            lambda draft: blending.blend(draft, request, weights, size),
            self.store.blend(self.name, weights, size, request),
        )
        assert found is not None
        self.same(*found)

    async def _previews(self) -> None:
        if not self.picks:
            return
        number, nonce = self.random.choice(self.picks[-30:])
        places = self.random.sample(range(7), 3)
        # Equal indices would have equal ranks, of which today either may go.
        new = [NewPreview(place, None if place % 2 else 10 * number + place, f"{place}", b"image") for place in places]
        instance = "" if self.tables.root is None else self.tables.root.instance
        found = await self.both(
            lambda draft: previews.put_previews(draft, number, new, MOST, nonce),
            self.store.put_previews(self.name, number, new, MOST, instance=instance, nonce=nonce),
        )
        if found is not None:
            self.same(*found)

    async def _delete(self) -> None:
        found = await self.both(controls.delete, self.store.delete_experiment(self.name))
        assert found is not None
        self.same(*found)
        self.picks.clear()
        self.loose.clear()
        await self.create()

    # What the stores have.

    async def compare(self) -> None:
        """Everything that both stores say of the experiment."""
        state = await self.store.state(self.name, told=True, all_metrics=True)
        ordinals = [generator.ordinal for generator in state.generators]
        for g, kept in zip(ordinals, await self.store.levels(self.name, ordinals), strict=True):
            self.same(sorted(map(_level, kept)), sorted(map(_level, self._levels(g))))
        for mine, other in zip(*map(self._comparable, (self._state(), state)), strict=True):
            self.same(mine, other)
        await self._compare_beside()

    def _state(self) -> ExperimentState:
        hashes, tables = self.memory.contents.hashes, tables_of(self.memory)
        units, quarantined, counts = (hashes.get(part, {}) for part in ("units", "quarantined", "counts"))
        records = {int(number): record for number, record in hashes.get("records", {}).items()}
        return state_from(tables, Beside(units, hashes.get("estimates", {}), {}, quarantined, counts, records))

    def _comparable(self, state: ExperimentState) -> list[Any]:
        """The state, then its generators, without what is not the same in both stores: times, digests of retractions,
        the version, and copies that were retracted, which are still named today."""
        picks_ = [replace(pick, deadline=0.0) for pick in state.open_picks]
        whole = replace(state, generators=[], open_picks=picks_, version=0, state_token="", last="")
        found: list[Any] = [whole]
        for g in state.generators:
            retractions = [replace(one, when=0.0, digest="") for one in g.retractions]
            gone = {one.position for one in retractions}
            copies = [
                Copy(copy.seq, copy.origin._replace(told=0.0), copy.copy_of)
                for copy in g.named_copies
                if copy.seq > g.restart and copy.seq not in gone
            ]
            accepted = sorted((one.position, one.until, one.who, one.reason) for one in g.acceptances)
            count = 0 if g.ordinal in self.loose else g.copies
            found.append(replace(g, retractions=retractions, named_copies=copies, copies=count, acceptances=accepted))  # pyright: ignore
        return found

    def _levels(self, g: int) -> list[KeptLevel]:
        rows = LEVELS.value_in((g, WHOLE), self.memory.contents.hashes.get(f"levels:{g}") or {})
        return [KeptLevel(key[1], key[2], Origin(*row[1:]), row.value) for key, row in rows.items()]

    async def _compare_beside(self) -> None:
        prefix, hashes = f"optimist:{{{self.name}}}:", self.memory.contents.hashes
        kept = [one for _, one in await self.store.previews(self.name)]
        mine = {
            key: (row.position, row.sample)
            for g in self.tables.generators
            for key, row in PREVIEWS.value_in((g, WHOLE), hashes.get(f"previews:{g}") or {}).items()
        }
        self.same({(one.generator, one.pick, one.place): (one.position, one.index) for one in kept}, mine)
        facts = {name.decode(): text.decode() for name, text in (await self.redis.hgetall(f"{prefix}units")).items()}
        self.same(facts, hashes.get("units", {}))
        self.same(await self.redis.get(f"{prefix}history") or b"", self.memory.contents.history)
        if self.step % 20 == 0:
            for g in self.tables.generators:
                entries = {int(id_.split(b"-")[0]): entry for id_, entry in await self.redis.xrange(f"{prefix}log:{g}")}
                own = self.memory.contents.logs.get(f"log:{g}", {})
                self.same({p: _entry(e) for p, e in entries.items()}, {p: _entry(e) for p, e in own.items()})


def _settled(settled: Settled) -> Any:
    names = ["pick", "generator", "rows", "samples", "batches", "seq", "late", "duplicate", "uncounted", "doubtful"]
    copy = settled.copy and (settled.copy.seq, settled.copy.copy_of, settled.copy.origin.worker)
    return [*(getattr(settled, name) for name in names), copy]


def _untimed(record: Any) -> Any:
    """A record without what is not the same in both stores."""
    left_out = {"when", "digest"}
    return record and [value for name, value in _fields(record) if name not in left_out]


def _fields(record: Any) -> list[tuple[str, Any]]:
    return list(zip(record.__dataclass_fields__, astuple(record), strict=True))


def _level(level: KeptLevel) -> tuple[Any, ...]:
    return level.array, level.position, level.value, level.origin.pick, level.origin.rows, level.origin.worker


def _entry(entry: Any) -> dict[str, str]:
    """The fields of an entry of a log, but what the new one has more, and what rests on the digests of retractions."""
    texts = {
        name.decode() if isinstance(name, bytes) else name: value.decode() if isinstance(value, bytes) else str(value)
        for name, value in entry.items()
    }
    if "retracts" in texts:
        del texts["digest"]
    return {name: value for name, value in texts.items() if name not in ("told", "chain", "seconds")}


async def run(redis: Redis, seed: int, commands: int, *, crowded: bool = False) -> Counter[str]:
    """Compare the stores after each of so many commands."""
    store = Store(redis, settled_limit=LIMIT)
    both = Both(store, redis, f"x{seed}", random.Random(seed), keep_log=seed % 3 == 0, crowded=crowded)
    await both.create()
    for _ in range(commands):
        await both.take_step()
    return both.seen


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--commands", type=int, default=1000)
    options = parser.parse_args()
    seen = Counter[str]()
    with tempfile.TemporaryDirectory() as directory, start_embedded(Path(directory)) as server:
        async with connect(server.url) as redis:
            await redis.config_set("appendfsync", "no")
            for seed in range(options.first, options.first + options.seeds):
                seen += await run(redis, seed, options.commands, crowded=seed % 10 == 9)
                await redis.flushall()
    Console().print(f"{options.seeds * options.commands} commands, all the same", dict(sorted(seen.items())))


if __name__ == "__main__":
    asyncio.run(main())
