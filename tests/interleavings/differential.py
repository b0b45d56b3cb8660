"""The same random commands to the store, on a real Redis, and to the oracle: the same answers and states.

python -m tests.interleavings.differential [--seeds 50] [--first 0] [--commands 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from redis.asyncio import Redis
from rich.console import Console

from optimist.experiments.settling import open_pick
from optimist.records import (
    AskGroup,
    Contents,
    Copy,
    ExperimentState,
    KeptLevel,
    LogEntry,
    Measures,
    NewPick,
    Opening,
    OpenPick,
    Origin,
    PickBatch,
    PreparedPreview,
    Settled,
    Size,
    Slice,
    StoreError,
    Unavailable,
)
from optimist.store import Store, connect, start_embedded
from optimist.store.scores import kernels_digest
from tests.oracle.oracle import Command, Oracle
from tests.oracle.rows import CONTROLS, LEVELS, LOG, PICKS, PREVIEWS, UNITS, PickRow, RootRow
from tests.oracle.state import state_from
from tests.oracle.tables import Tables
from tests.oracle.transitions import batches, blending, controls, picks, previews, retracting, scoring
from tests.support.configs import config_of, experiment_of
from tests.support.made import create

GENERATORS, SEEDLESS, SIZE, LABEL, LEASE, MOST = 3, "g2", 5, "is", 1e6, 8
ROOM = picks.Room(10**6, 10**6, 10**6)
KERNELS = kernels_digest(b"kernels")
OWN_FACTS = "made", "snapshot", "snapshot_digest", "snapshot_chain", "upload", "upload_chunks"
"""Of a unit: what the store alone knows, such as the names of estimates and snapshots."""
HISTORY = Struct("<HBI")
LIMIT = 60
"""Ends of picks and keys that are remembered."""


@dataclass(frozen=True)
class Chosen:
    """The choice of a test: `choice` for every pick."""

    choice: picks.Chosen
    context: str = ""
    prompts: tuple[str, ...] = ()

    def is_spent(self, oracle: Oracle) -> bool:
        return False

    def choose(self, oracle: Oracle, number: int, place: int) -> picks.Chosen | None:
        return self.choice

    def describe(self, oracle: Oracle, number: int, pick: PickRow) -> picks.Described:
        return picks.Described("{}", ",".join(self.prompts), "", self.context)


class Claimed(NamedTuple):
    """A claim, and what its scorer had read of the log."""

    generator: int
    token: str
    seq: int
    chain: str
    """Of the log as the oracle has it, where retractions have other digests than in the store."""
    stored: str
    """The same of the store."""
    samples: int


def estimate_of(r: random.Random, g: int, samples: int) -> str:
    """An estimate, of which the first generator has the best."""
    error, value = 0.1 / (1 + samples) ** 0.5, 3.0 - g + r.gauss(0.0, 0.1)
    errors = {"standard_error": error, "stopping_error": error, "scale": "log", "lower_is_better": False}
    ends = {"lower": value - error, "upper": value + error, "optimistic": value + error, "warnings": []}
    return json.dumps({"value": value, "plug_in": value, "samples": samples, **errors, **ends})


@dataclass
class Both:
    """One experiment in both stores."""

    store: Store
    redis: Redis
    name: str
    random: random.Random
    keep_log: bool = False
    growth: float = 0.3
    most_of_worker: int | None = None
    crowded: bool = False
    """Whether all is told to one generator, and measured."""
    seen: Counter[str] = field(default_factory=Counter)
    picks: list[tuple[int, str]] = field(default_factory=list)
    """Number and nonce."""
    claims: list[Claimed] = field(default_factory=list)
    step: int = 0
    loose: set[int] = field(default_factory=set)
    """Generators whose count of copies is not compared: today a copy that was retracted before is counted twice."""

    def __post_init__(self) -> None:
        self.state: ExperimentState | None = None
        """What was compared last."""
        self.oracle = Oracle(dict.fromkeys(("settled", "expired", "appended"), LIMIT))

    def key(self, part: str) -> str:
        """The key of a part of the experiment."""
        return f"optimist:{{{self.name}}}:{part}"

    def mine(self, command: Command) -> Any:
        self.oracle.now = time.time()
        return self.oracle.do(command)

    @property
    def tables(self) -> Tables:
        return self.oracle.tables

    async def create(self) -> None:
        """The next experiment of this name."""
        config = config_of(
            name=self.name,
            generators=[f"g{g}" for g in range(GENERATORS)],
            metric=LABEL,
            dimension=10,
            batch_size=SIZE,
            rescore_growth=self.growth,
            keep_log=self.keep_log,
            max_batches_per_worker=self.most_of_worker,
            max_wait=0.5,
        )
        self.experiment = experiment_of(config, instance=f"{self.name} {self.step}")
        root = RootRow(
            *(self.experiment.instance, "{}", self.growth, (LABEL,), SIZE, self.keep_log),
            max_batches_per_worker=self.most_of_worker,
        )
        await create(self.store, self.experiment, seedless={SEEDLESS})
        self.mine(lambda oracle: controls.create(oracle, root, config.generators, {SEEDLESS}))

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
            self._claim: 2.0,
            self._publish: 3.0,
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
        assert mine == other, (self.step, *differences(mine, other))

    async def both(self, command: Command, call: Awaitable[Any]) -> tuple[Any, Any] | None:
        """The answers of both; None where both refuse, in the same words, or where Redis has no room."""
        try:
            other = await call
        except Unavailable:
            self.seen["no room"] += 1
            return None
        except StoreError as error:
            other = error
        mine = self.mine(command)
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
        mine = self.mine(lambda oracle: picks.ask(oracle, asked, Chosen(choice, context)))
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
            self.same((row.start, row.size), part and (part.start, part.size))
            self.picks.append((number, nonce))

    def _planned(
        self, state: ExperimentState, choice: picks.Chosen, nonce: str, request: str, worker: str, context: str
    ) -> tuple[NewPick, str]:
        """The next pick as it is planned today, and the nonce of the one before it; opened on the state."""
        generator, size, last = state.generators[choice.generator], choice.size, state.last
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
        mine = self.mine(lambda oracle: picks.ask(oracle, asked, Chosen(picks.Chosen(0, SIZE))))
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
        batch = PickBatch(number, nonce, Contents(digest, rows, b"body", self.measures()))
        mine = self.mine(lambda oracle: batches.tell(oracle, batch))
        [other] = (await self.store.exchange(self.name, [batch])).settled
        self.same_settled(mine, other)

    def measures(self) -> Measures | None:
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

    def same_settled(self, mine: Any, other: Any) -> None:
        if isinstance(mine, StoreError) or isinstance(other, StoreError):
            self.same((type(mine), str(mine)), (type(other), str(other)))
            self.seen[type(mine).__name__] += 1
            return
        self.same(*map(_settled, (mine, other)))

    async def _append(self) -> None:
        r = self.random
        g, key, start = r.randrange(GENERATORS), f"k{r.randrange(25)}", r.choice([None, None, 0, 20, 33, 60, 111])
        contents = Contents(f"d{key}", 4, b"body", self.measures())
        found = await self.both(
            lambda oracle: batches.append(oracle, g, key, contents, start),
            self.store.append(self.name, g, key, contents, start=start),
        )
        if found is not None:
            self.same_settled(*found)

    async def _give_up(self) -> None:
        if self.picks:
            number, nonce = self.random.choice(self.picks[-8:])
            nonce = self.random.choice([nonce, nonce, "", "wrong"])
            await self.both(
                lambda oracle: picks.give_up(oracle, number, "tired", nonce),
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
            lambda oracle: retracting.retract(
                oracle, named, retracting.By("me", "bad"), until=until, fits_kernels=fits
            ),
            self.store.retract(self.name, **named._asdict(), until=until, who="me", reason="bad", fits_kernels=fits),
        )
        if found is not None:
            mine, other = found
            self.same((mine[1], _untimed(mine[0])), (other[1], _untimed(other[0])))
            self.seen["retracted"] += not mine[1]

    async def _accept(self) -> None:
        named = self._named()
        found = await self.both(
            lambda oracle: retracting.accept(oracle, named, retracting.By("me", "fine")),
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
        self.mine(lambda oracle: (oracle.put(PICKS, number, past), picks.expire(oracle)))
        await self.redis.zadd(self.key("leases"), {str(number): 1.0}, xx=True)

    async def _renew(self) -> None:
        numbers = [number for number, _ in self.picks[-4:]]
        found = await self.both(
            lambda oracle: picks.renew(oracle, numbers, 60.0), self.store.renew_leases(self.name, numbers, 60.0)
        )
        if found is not None:
            self.same(*found)

    async def _set_state(self) -> None:
        g, state = self.random.randrange(GENERATORS), self.random.choice(["active", "active", "paused"])
        state = "retired" if self.random.random() < 0.03 else state
        await self.both(lambda oracle: controls.set_state(oracle, g, state), self.store.set_state(self.name, g, state))

    async def _control(self) -> None:
        fields = {"stopped": self.random.choice(["", "", "yes"]), "budget": self.random.choice(["", "100"])}
        await self.both(lambda oracle: controls.control(oracle, fields), self.store.control(self.name, fields))

    async def _add(self) -> None:
        name = f"g{GENERATORS + self.random.randrange(3)}"
        found = await self.both(
            lambda oracle: controls.add_generator(oracle, name, GENERATORS + 2, 1.5),
            self.store.add_generator(self.name, name, limit=GENERATORS + 2, cost=1.5),
        )
        if found is not None:
            self.same(*found)

    async def _claim(self) -> None:
        """One of two scorers claims a generator, of which it has read the log until now."""
        g, owner = self.random.randrange(GENERATORS), self.random.choice("ab")
        try:
            claim, generator = await self.store.claim(self.name, g, owner, 0.0, LABEL), self.tables.generators[g]
        except Unavailable:
            return
        assert claim is not None, "a claim of no time has always run out"
        self.mine(lambda oracle: scoring.claim(oracle, f"{g}:{LABEL}", claim.token))
        stored = await self.redis.hget(self.key("counts"), f"chain_{g}")
        assert stored is not None, "every generator has a chain"
        chains = generator.chain, stored.decode().partition(" ")[2]
        self.claims.append(Claimed(g, claim.token, generator.seq, *chains, generator.samples))

    async def _publish(self) -> None:
        """An estimate, or kernels, or a snapshot, made by what some claim had read."""
        if not self.claims:
            return
        r, (g, token, seq, chain, stored, samples) = self.random, self.random.choice(self.claims[-6:])
        match r.choice(["estimate", "estimate", "estimate", "kernels", "snapshot"]) if seq else "":
            case "estimate":
                payload = estimate_of(r, g, samples)
                await self._publish_by(
                    g,
                    lambda oracle: scoring.publish(oracle, g, LABEL, seq, payload, token, chain),
                    self.store.put_estimate(self.name, g, seq, payload, token, label=LABEL, chain=stored),
                )
            case "kernels":
                entry = LogEntry(seq, LABEL, 1, "", b"", chain=stored)
                await self._publish_by(
                    g,
                    lambda oracle: scoring.fit(oracle, g, LABEL, KERNELS, token, {g: (seq, chain)}),
                    self._fitted(g, token, entry),
                )
            case "snapshot" if r.random() < 0.4:
                await self._publish_by(
                    g,
                    lambda oracle: scoring.keep_snapshot(oracle, g, LABEL, seq, token, chain),
                    self.store.put_snapshot(self.name, g, seq, b"statistic", token, label=LABEL, chain=stored),
                )
            case _:
                pass

    async def _fitted(self, g: int, token: str, read: LogEntry) -> str:
        await self.store.put_fitted(self.name, g, b"kernels", token, {g: read}, label=LABEL)
        return KERNELS

    async def _publish_by(self, g: int, command: Command, call: Awaitable[Any]) -> None:
        found = await self.both(command, call)
        if found is not None:
            self.same(*found)
        facts = [f"{g}:{LABEL}:{fact}" for fact in OWN_FACTS]
        for name, text in zip(facts, await self.redis.hmget(self.key("units"), facts), strict=True):
            self.oracle.put(UNITS, name, text and text.decode())

    async def _latch(self) -> None:
        state = await self.store.state(self.name)
        payload = f"decision {self.random.randrange(3)}"
        digest, seqs = state.basis_digest, [g.primary.estimate_seq for g in state.generators]
        digest = "0" * 40 if self.random.random() < 0.3 else digest
        stands = state_from(self.tables).basis_digest == digest
        found = await self.both(
            lambda oracle: controls.latch(oracle, payload, stands, seqs),
            self.store.latch_decision(self.name, payload, digest),
        )
        if found is not None:
            self.same(*found)

    async def _reopen(self) -> None:
        decision = f"decision {self.random.randrange(3)}"
        found = await self.both(
            lambda oracle: controls.reopen(oracle, decision), self.store.reopen(self.name, decision)
        )
        if found is not None:
            self.same(*found)

    async def _blend(self) -> None:
        r, request = self.random, f"request{self.random.randrange(20)}"
        weights, size = {g: r.choice([0.0, r.random()]) for g in range(GENERATORS)} | {0: 0.5}, r.randrange(1, 20)
        found = await self.both(
            lambda oracle: blending.blend(oracle, request, weights, size),
            self.store.blend(self.name, weights, size, request),
        )
        if found is not None:
            self.same(*found)

    async def _previews(self) -> None:
        if not self.picks:
            return
        number, nonce = self.random.choice(self.picks[-30:])
        places = self.random.sample(range(7), 3)
        # Equal indices would have equal ranks, of which today either may go.
        new = [
            PreparedPreview(place, None if place % 2 else 10 * number + place, f"{place}", b"image") for place in places
        ]
        instance = "" if self.tables.root is None else self.tables.root.instance
        found = await self.both(
            lambda oracle: previews.put_previews(oracle, number, new, MOST, nonce),
            self.store.put_previews(self.name, number, new, MOST, instance=instance, nonce=nonce),
        )
        if found is not None:
            self.same(*found)

    async def _delete(self) -> None:
        found = await self.both(controls.delete, self.store.delete_experiment(self.name))
        assert found is not None
        self.same(*found)
        self.picks.clear()
        self.claims.clear()
        self.loose.clear()
        await self.create()

    # What the stores have.

    async def compare(self) -> None:
        """Everything that both stores say of the experiment."""
        state = self.state = await self.store.state(self.name, told=True, all_metrics=True)
        ordinals = [generator.ordinal for generator in state.generators]
        for g, kept in zip(ordinals, await self.store.levels(self.name, ordinals), strict=True):
            self.same(sorted(map(_level, kept)), sorted(map(_level, self._levels(g))))
        for mine, other in zip(*map(self._comparable, (state_from(self.tables), state)), strict=True):
            self.same(mine, other)
        await self._compare_beside()

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
        return [
            KeptLevel(key[1], key[2], Origin(*row[1:]), row.value)
            for key, row in self.tables[LEVELS].items()
            if key[0] == g
        ]

    async def _compare_beside(self) -> None:
        kept = [one for _, one in await self.store.previews(self.name)]
        mine = {key: (row.position, row.sample) for key, row in self.tables[PREVIEWS].items()}
        self.same({(one.generator, one.pick, one.place): (one.position, one.index) for one in kept}, mine)
        facts = {name.decode(): text.decode() for name, text in (await self.redis.hgetall(self.key("units"))).items()}
        self.same(facts, dict(self.tables[UNITS]))
        history = await self.redis.get(self.key("history")) or b""
        self.same(
            history,
            b"".join(
                HISTORY.pack(g, late + 2 * (not has_pick), rows) for g, late, has_pick, rows in self.oracle.history
            ),
        )
        if self.step % 20 == 0:
            for g in self.tables.generators:
                entries = {
                    int(id_.split(b"-")[0]): entry for id_, entry in await self.redis.xrange(self.key(f"log:{g}"))
                }
                own = {seq: entry for (h, seq), entry in self.tables[LOG].items() if h == g}
                self.same({p: _entry(e) for p, e in entries.items()}, {p: _entry(e) for p, e in own.items()})


def differences(one: Any, other: Any) -> Iterator[Any]:
    """The parts in which two values differ, by twos."""
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        one, other = (list(map(partial(getattr, each), one.__dataclass_fields__)) for each in (one, other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for parts in zip(one, other, strict=True):
            yield from () if parts[0] == parts[1] else differences(*parts)
    else:
        yield one, other


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
    """The fields of an entry of a log, but what the oracle has more, and what rests on the digests of retractions."""
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
