"""The store on a real redis-server, killed now and then, against a plain Python model of what it promises."""

from __future__ import annotations

import asyncio
import copy
import itertools
import tempfile
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from optimist.records import (
    Artefact,
    AskGroup,
    ChainedExtent,
    Conflict,
    Contents,
    ExperimentState,
    GeneratorStatus,
    Gone,
    LogGap,
    Measures,
    NotFound,
    NotRetractable,
    Refused,
    Retracted,
    Returned,
    Snapshot,
    StoredArtefact,
    StoreError,
    Superseded,
)
from optimist.store import MODEL_UNIT, Store, connect
from optimist.store.keys import unit
from optimist.store.redis_program import find_program
from tests.support.exchanges import MODEL, ROUTE_TABLE, new_pick, open_picks, settle
from tests.support.servers import Server

LIMIT = 3
SIZE = 3
RETRACTION = "retraction"
ENDED = ("told", "given up")
generators = st.integers(0, 3)
choices = st.integers(0, 99)
owners = st.sampled_from("aaab")
labels = st.sampled_from(["", "", "kid"])
seldom = st.integers(0, 9).map(lambda number: number == 7)
sometimes = st.integers(0, 2).map(lambda number: number == 1)
sizes = st.integers(1, SIZE) | st.integers(1, 64)
digests = st.sampled_from(["one", "other", "many"])
ROWS = {"one": 4, "other": 2, "many": 40, RETRACTION: 0}
MEASURES = {"one": Measures("ab" * 8), "other": Measures("ab" * 7 + "cd"), "many": Measures("ab" * 7 + "ef")}


def runs_of(numbers: Iterable[int]) -> tuple[int, ...]:
    """The first and the length of each run of these numbers."""
    runs: list[int] = []
    for number in sorted(numbers):
        if runs and runs[-2] + runs[-1] == number:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return tuple(runs)


def pairs(runs: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(runs[::2], runs[1::2], strict=True))


@dataclass
class Scored:
    """What is derived of a generator by one metric."""

    snapshot: Snapshot | None = None
    estimate: tuple[int, str | None] = (0, None)
    scoring_error: str | None = None
    holder: str | None = None
    lapsed: bool = False

    @property
    def position(self) -> int:
        return self.snapshot.seq if self.snapshot else 0


@dataclass
class Generator:
    by: dict[str, Scored]
    """By label, that of the primary metric being empty."""
    state: str = "active"
    log: list[tuple[int, str, bytes]] = field(default_factory=list)
    handed: int = 0
    retracted: set[int] = field(default_factory=set)
    """Positions of batches retracted one by one."""
    restart: int = 0
    voids: int = 0
    contents: dict[str, int] = field(default_factory=dict)
    """Position by digest, as the copy check knows it."""
    copied: set[int] = field(default_factory=set)
    rows: dict[int, int] = field(default_factory=dict)
    """How many rows of a batch count, by position."""
    indices: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The runs of the indices of a batch, and of the rows that count where not all do, by position."""
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)
    """The indices that were told."""
    returned: set[int] = field(default_factory=set)
    contexts: dict[int, bytes] = field(default_factory=dict)
    """Of the batch's pick, by position."""

    def is_retracted(self, position: int) -> bool:
        return position <= self.restart or position in self.retracted

    @property
    def counted(self) -> int:
        return sum(entry[1] != RETRACTION and not self.is_retracted(at) for at, entry in enumerate(self.log, start=1))

    @property
    def samples(self) -> int:
        return sum(rows for at, rows in self.rows.items() if not self.is_retracted(at))

    @property
    def trimmed(self) -> int:
        return max(min(scored.position for scored in self.by.values()), self.restart - 1)

    def log_bytes(self, scored: Scored) -> int:
        after = max(scored.position, self.restart)
        contexts = sum(len(context) for seq, context in self.contexts.items() if seq > after)
        return sum(len(body) for *_, body in self.log[after:]) + contexts

    def accept(self, number: int, digest: str, start: int | None, size: int) -> int:
        """The position of a batch whose first `size` rows have the indices from `start` on; 0 if none of it counts."""
        indexed = 0 if start is None else min(size, ROWS[digest])
        rows = [row for row in range(ROWS[digest]) if row >= indexed or (start or 0) + row not in self.told]
        if not rows:
            return 0
        self.log.append((number, digest, digest.encode()))
        seq = len(self.log)
        self.rows[seq] = len(rows)
        new = [start + row for row in rows if start is not None and row < indexed]
        self.told.update(new)
        if new:
            self.indices[seq] = runs_of(new)
        if len(rows) < ROWS[digest]:
            self.parts[seq] = runs_of(rows)
        if digest in self.contents and not self.is_retracted(self.contents[digest]):
            self.copied.add(seq)
        else:
            self.contents[digest] = seq
        return seq


@dataclass
class Pick:
    generator: int
    request: str
    start: int | None
    size: int
    nonce: str
    context: bytes = b""
    status: str = "leased"  # overdue: its lease ran out and nobody has read the state; expired; told; given up
    digest: str = ""
    seq: int = 0


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="om-")
        # What was written without a sync outlives the process, though not the machine, and is much faster.
        options = "--appendonly", "yes", "--appendfsync", "no", "--save", ""
        self.server = Server(find_program().path, Path(self.directory.name), *options)
        self.runner = asyncio.Runner()
        self.redis = connect(self.server.url)
        self.store = Store(self.redis, settled_limit=LIMIT)
        self.numbers = itertools.count(1)
        self.gs: list[Generator] = []
        self.picks: dict[int, Pick] = {}
        self.requests: dict[str, list[int]] = {}
        self.overdue: list[int] = []
        self.ended: list[int] = []
        self.expired: list[int] = []
        self.known: set[int] = set()  # picks that may be told, or whose end is remembered
        self.appended: dict[tuple[int, str], tuple[str, int | None, int, int]] = {}
        self.tokens: dict[tuple[str, int, str], str] = {}
        self.routes: dict[Artefact, tuple[dict[int, int], str]] = {}  # of the model and the table: positions and text
        self.seen: ExperimentState | None = None
        self.spent: set[str] = set()
        self.decision: str | None = None
        self.decided: list[int] = []  # the positions of the estimates that the decision was made by
        self.stopped = False
        self.kept: tuple[dict[str, Any], dict[bytes, bytes]] | None = None
        self.lost: list[tuple[int, str]] = []

    def teardown(self) -> None:
        try:
            self.read_state()
            assert self.run(self.store.delete_experiment("m"))
            assert self.run(self.redis.keys("*")) == []
        finally:
            self.run(self.redis.aclose())
            self.runner.close()
            self.server.stop()
            self.directory.cleanup()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)

    def attempt(self, call: Coroutine[Any, Any, Any]) -> Any:
        """What a call answers, or the class of what it raises."""
        try:
            return self.run(call)
        except StoreError as error:
            return type(error)

    # What the scripts do to a pick.

    def release(self, number: int) -> None:
        self.requests.pop(self.picks[number].request, None)
        if number in self.overdue:
            self.overdue.remove(number)

    def hand_back(self, number: int, rows: int = 0) -> None:
        pick = self.picks[number]
        if pick.start is not None and rows < pick.size and self.gs[pick.generator].state != "retired":
            g = self.gs[pick.generator]
            g.returned |= set(range(pick.start + rows, pick.start + pick.size)) - g.told

    def queue(self, order: list[int], number: int) -> int | None:
        order.append(number)
        if len(order) <= LIMIT:
            return None
        return order.pop(0)

    def end(self, number: int, status: str) -> None:
        self.picks[number].status = status
        forgotten = self.queue(self.ended, number)
        if forgotten is not None:
            self.known.discard(forgotten)

    def recalled(self, number: int) -> type[StoreError] | None:
        """What is raised for a pick that is neither open nor remembered."""
        if number in self.known:
            return None
        return Gone if 0 < number <= len(self.picks) else NotFound

    def chosen(self, choice: int) -> int:
        """Mostly a pick that may be told, now and then one that may not, or that never was."""
        open_ = [number for number, pick in self.picks.items() if number in self.known and pick.status not in ENDED]
        return open_[choice % len(open_)] if open_ and choice < 70 else choice % (len(self.picks) + 2)

    @initialize(indexed=st.booleans(), watches=st.booleans(), routes=st.booleans())
    def create(self, indexed: bool, watches: bool, routes: bool) -> None:
        self.indexed = indexed
        self.labels = ["", "kid"] if watches else [""]
        self.gs = [self.new(), self.new()]
        size = SIZE if indexed else None
        for _ in range(2):
            create, growth = self.store.create_experiment, 0.0 if routes else None
            self.run(create("m", "{}", ["0", "1"], 0.0, batch_size=size, labels=self.labels, model_growth=growth))
        for g in range(2):
            for label in self.labels:
                self.claim(g, label, "a", "")
        self.ask([0, 1, 1], sliced=True, wanted=2, stale=False)

    def new(self) -> Generator:
        return Generator({label: Scored() for label in self.labels})

    def unit(self, g: int, label: str) -> tuple[int, str, Generator, Scored]:
        g %= len(self.gs)
        label = label if label in self.labels else ""
        return g, label, self.gs[g], self.gs[g].by[label]

    @rule(
        chosen=st.lists(generators, min_size=1, max_size=3),
        sliced=st.booleans(),
        wanted=sizes,
        stale=seldom,
    )
    def ask(self, chosen: list[int], sliced: bool, wanted: int, stale: bool) -> None:
        request, picks, returned = f"ask {next(self.numbers)}", [], [set(g.returned) for g in self.gs]
        handed = [g.handed for g in self.gs]
        rounds, last = len(self.picks), self.picks[len(self.picks)].nonce if self.picks else ""
        for number, g in enumerate((g % len(self.gs) for g in chosen), start=rounds + 1):
            again = bool(returned[g])
            nonce = f"{next(self.numbers):x}"
            context = f"context of {nonce}".encode() if number % 3 else b""
            if not (sliced and self.indexed):
                picks.append(new_pick(g, "{}", nonce=nonce, context=context))
                continue
            start, whole = runs_of(returned[g])[:2] if again else (handed[g], wanted + -wanted % SIZE)
            handed[g] += 0 if again else whole
            size = min(wanted, whole)
            picks.append(new_pick(g, "{}", start, size, again=again, left=whole - size, nonce=nonce, context=context))
            returned[g] |= set(range(start, start + whole))
            returned[g] -= set(range(start, start + size))
        opened = self.run(open_picks(self.store, "m", rounds - stale, [AskGroup(request, picks)], 60, last=last))
        inactive = any(self.gs[pick.generator].state != "active" for pick in picks)
        if stale or self.decision is not None or self.stopped or inactive:
            assert opened is None
            return
        for number, pick in enumerate(picks, start=rounds + 1):
            start, size = (None, 0) if pick.part is None else (pick.part.start, pick.part.size)
            self.picks[number] = Pick(pick.generator, request, start, size, pick.nonce, pick.context)
            self.known.add(number)
        for g, count, left in zip(self.gs, handed, returned, strict=True):
            g.handed, g.returned = count, left
        self.requests[request] = list(range(rounds + 1, len(self.picks) + 1))
        assert (opened.numbers, opened.repeated) == ({request: self.requests[request]}, False)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.requests)))
        opened = self.run(open_picks(self.store, "m", 0, [AskGroup(request, [new_pick(0, "{}")])], 60))
        assert (opened.numbers, opened.repeated) == ({request: self.requests[request]}, True)

    @precondition(lambda self: self.picks)
    @rule(choice=choices, digest=digests)
    def tell(self, choice: int, digest: str) -> None:
        self.tell_one(self.chosen(choice), digest)

    def tell_one(self, number: int, digest: str) -> None:
        nonce = self.picks[number].nonce if number in self.picks else ""
        contents = digest, ROWS[digest], digest.encode()
        settled = self.attempt(settle(self.store, "m", number, *contents, nonce=nonce, measures=MEASURES[digest]))
        if refused := self.recalled(number):
            assert settled is refused
            return
        pick = self.picks[number]
        if pick.status == "told" and pick.seq and self.gs[pick.generator].is_retracted(pick.seq):
            assert settled is Retracted
            return
        if pick.status == "given up" or (pick.status == "told" and pick.digest != digest):
            assert settled is Conflict
            return
        if pick.status == "told":
            assert (settled.seq, settled.duplicate) == (pick.seq, True)
            return
        g = self.gs[pick.generator]
        pick.digest, pick.seq = digest, g.accept(number, digest, pick.start, pick.size)
        assert (settled.seq, settled.samples, settled.duplicate) == (pick.seq, g.samples, not pick.seq)
        assert (settled.rows, settled.uncounted) == (rows := g.rows.get(pick.seq, 0), ROWS[digest] - rows)
        if pick.context and pick.seq:
            g.contexts[pick.seq] = pick.context
        has_retracted = any(other.retracted for other in self.gs)
        if pick.seq in g.indices and (pick.status != "leased" or has_retracted):
            g.returned -= g.told
        assert settled.late == (pick.status != "leased")
        if pick.status != "expired":
            self.release(number)
            self.hand_back(number, ROWS[digest])
        self.end(number, "told")

    @precondition(lambda self: self.picks)
    @rule(choice=choices)
    def give_up(self, choice: int) -> None:
        number = self.chosen(choice)
        answer = self.attempt(self.store.give_up("m", number, "tired"))
        if refused := self.recalled(number):
            assert answer is refused
            return
        pick = self.picks[number]
        status = pick.status
        told = Retracted if pick.seq and self.gs[pick.generator].is_retracted(pick.seq) else Conflict
        assert answer is (told if status == "told" else None)
        if status in ("leased", "overdue"):
            self.release(number)
            self.hand_back(number)
        if status in ("leased", "overdue", "expired"):
            self.end(number, "given up")

    @precondition(lambda self: self.picks)
    @rule(choice=choices, seen=st.booleans())
    def let_a_lease_run_out(self, choice: int, seen: bool) -> None:
        number = self.chosen(choice)
        if number in self.picks and self.picks[number].status == "leased":
            self.run_out(number)
        if seen:
            self.read_state()

    def run_out(self, number: int) -> None:
        self.run(self.redis.zadd("optimist:{m}:leases", {str(number): next(self.numbers)}, xx=True))
        self.picks[number].status = "overdue"
        self.overdue.append(number)

    @rule()
    def renew(self) -> None:
        leased = [number for number, pick in self.picks.items() if pick.status == "leased"]
        assert self.run(self.store.renew_leases("m", [0, *self.picks], 120)) == leased

    @rule()
    def read_state(self) -> None:
        for number in list(self.overdue):
            self.release(number)
            self.hand_back(number)
            self.picks[number].status = "expired"
            forgotten = self.queue(self.expired, number)
            if forgotten is not None and self.picks[forgotten].status == "expired":
                self.known.discard(forgotten)
        stored = self.run(self.store.state("m", told=True))
        told = sum(entry[1] != RETRACTION for g in self.gs for entry in g.log)
        assert (stored.rounds, stored.told, stored.counted) == (len(self.picks), told, sum(g.counted for g in self.gs))
        assert [pick.number for pick in stored.open_picks] == [n for n, p in self.picks.items() if p.status == "leased"]
        assert (stored.decision, stored.controls) == (self.decision, {"stopped": "yes"} if self.stopped else {})
        for ordinal, (g, seen) in enumerate(zip(self.gs, stored.generators, strict=True)):
            returned = [Returned(*run) for run in pairs(runs_of(g.returned))]
            runs = runs_of(g.told)
            told = [(start, start + size) for start, size in pairs(runs)]
            assert seen.told == told
            n = g.counted
            assert (seen.name, seen.state, seen.handed, seen.returned) == (str(ordinal), g.state, g.handed, returned)
            assert (seen.samples, seen.batches, seen.seq) == (g.samples, n, len(g.log))
            retractions = sum(digest == RETRACTION for _, digest, _ in g.log)
            assert (seen.restart, len(seen.retractions)) == (g.restart, retractions)
            assert seen.retracted == sum(g.rows.values()) - g.samples
            assert seen.copies == len(g.copied)
            assert (seen.due_seq, seen.due_samples) == ((len(g.log), g.samples) if n else (0, 0))
        contexts = self.run(self.redis.hgetall("optimist:{m}:contexts"))
        open_ = [n for n, pick in self.picks.items() if n in self.known and pick.status not in ENDED]
        expected = {n: self.picks[n].context for n in open_ if self.picks[n].context}
        assert {int(n): context for n, context in contexts.items()} == expected
        self.check_routes(stored.model)
        self.read_units()

    def check_routes(self, model: StoredArtefact | None) -> None:
        """model: of the state."""
        found = {artefact: self.run(self.store.artefact("m", artefact)) for artefact in (MODEL, ROUTE_TABLE)}
        named = found[MODEL]
        assert (model and (model.made, model.parts)) == (named and (named.made, named.parts))
        assert self.routes == {
            artefact: ({g: part.seq for g, part in one.parts.items()}, one.payload.decode())
            for artefact, one in found.items()
            if one
        }

    @rule(owner=owners, back=st.integers(0, 2), artefact=st.sampled_from([MODEL, ROUTE_TABLE]))
    def put_routes(self, owner: str, back: int, artefact: Artefact) -> None:
        """Of all generators with batches, each without its last ones."""
        positions = {g: len(of.log) - back for g, of in enumerate(self.gs) if len(of.log) > back}
        if not positions:
            return
        text = f"made {next(self.numbers)}"
        parts = [ChainedExtent(g, seq, seq) for g, seq in positions.items()]
        claim = self.run(self.store.claim("m", MODEL_UNIT, "a", 60, label=""))
        token = claim.token if owner == "a" else f"{claim.token}b"
        answer = self.attempt(self.store.put_artefact("m", artefact, text, token, parts))
        standing = self.routes.get(artefact, ({}, ""))[0]
        if owner != "a":
            assert answer is Superseded
        elif any(standing.get(g, 0) > seq for g, seq in positions.items()):
            assert answer is False
        elif any(seq < self.gs[g].voids for g, seq in positions.items()):
            assert answer is Superseded
        else:
            assert answer is True
            self.routes[artefact] = positions, text

    def read_units(self) -> None:
        """All of them, and then only what has changed since the last time."""
        positions = self.run(self.store.state("m", all_metrics=True, estimates=False))
        for known in (None, self.seen):
            self.seen = self.run(self.store.state("m", known, all_metrics=True))
            for without, seen, of in zip(positions.generators, self.seen.generators, self.gs, strict=True):
                assert {label: replace(one, estimate=None) for label, one in seen.units.items()} == without.units
                assert list(seen.units) == self.labels
                for label, one in seen.units.items():
                    scored = of.by[label]
                    shown = one.estimate_seq, one.estimate, one.scoring_error
                    assert shown == (*scored.estimate, scored.scoring_error)
                    assert (one.snapshot_seq, one.log_bytes) == (scored.position, of.log_bytes(scored))

    @rule(g=generators, state=st.sampled_from(["active", "active", "active", "paused", "retired"]))
    def set_state(self, g: int, state: GeneratorStatus) -> None:
        g %= len(self.gs)
        generator = self.gs[g]
        answer = self.attempt(self.store.set_state("m", g, state))
        last = generator.state == "active" and sum(other.state == "active" for other in self.gs) == 1
        if generator.state != state and (generator.state == "retired" or last):
            assert answer is Conflict
            return
        assert answer is None
        generator.state = state
        if state == "retired":
            self.gs[g].returned.clear()

    @rule(g=generators)
    def add_generator(self, g: int) -> None:
        answer = self.attempt(self.store.add_generator("m", str(g := min(g, len(self.gs)))))
        if g == len(self.gs):
            self.gs.append(self.new())
        assert answer is Conflict if self.gs[g].state == "retired" else answer == g

    @rule(g=generators, decision=digests, reopened=digests, lasting=seldom)
    def hold(self, g: int, decision: str, reopened: str, lasting: bool) -> None:
        """Stops, or decides, and mostly goes on again."""
        if g % 2:
            self.run(self.store.control("m", {"stopped": "yes"}))
            self.stopped = True
        else:
            assert self.run(self.store.latch_decision("m", decision)) == (self.decision in (None, decision))
            if self.decision is None:
                self.decided = [other.by[""].estimate[0] for other in self.gs]
            self.decision = self.decision or decision
        self.ask([g], sliced=False, wanted=1, stale=False)
        if not lasting:
            self.run(self.store.control("m", {"stopped": ""}))
            assert self.run(self.store.reopen("m", reopened)) == (self.decision in (None, reopened))
            assert self.run(self.store.reopen("m", self.decision or ""))
            self.stopped, self.decision = False, None

    @precondition(lambda self: self.indexed)
    @rule(choice=choices, wanted=sizes, told=st.lists(digests, min_size=1, max_size=3))
    def outlast(self, choice: int, wanted: int, told: list[str]) -> None:
        """A pick outlasts its lease, its slice goes to the next ones, whole or in part, and some of them are told."""
        leased = [n for n, pick in self.picks.items() if pick.status == "leased" and pick.start is not None]
        if leased:
            number = leased[choice % len(leased)]
            self.run_out(number)
            self.read_state()
            g, last = self.picks[number].generator, len(self.picks)
            self.ask([g], sliced=True, wanted=wanted, stale=False)
            self.ask([g], sliced=True, wanted=wanted, stale=False)
            for place, digest in enumerate(told):
                again = [number, *range(last + 1, len(self.picks) + 1)]
                self.tell_one(again[(choice + place) % len(again)], digest)

    @rule(g=generators, key=choices, digest=digests, start=st.none() | st.integers(0, 30))
    def append(self, g: int, key: int | str, digest: str, start: int | None) -> None:
        g, key = g % len(self.gs), f"{key}"[0]
        rows, measures = ROWS[digest], MEASURES[digest]
        settled = self.attempt(
            self.store.append("m", g, key, Contents(digest, rows, digest.encode(), measures=measures), start=start)
        )
        known = self.appended.get((g, key))
        if known is not None and known[3] and self.gs[g].is_retracted(known[3]):
            assert settled is Retracted
            return
        if known is not None and known[:2] != (digest, start):
            assert settled is Conflict
            return
        if known is None and start is not None and not self.indexed:
            assert settled is Refused
            return
        is_known = known is not None
        if known is None:
            seq = self.gs[g].accept(0, digest, start, rows)
            self.appended[g, key] = known = (digest, start, g, seq)
            if start is not None:
                if seq:
                    self.gs[g].returned -= self.gs[g].told
                end = start + rows
                self.gs[g].handed = max(self.gs[g].handed, end + -end % SIZE)
            if len(self.appended) > LIMIT:
                del self.appended[next(iter(self.appended))]
        assert (settled.generator, settled.seq) == known[2:]
        assert settled.duplicate == (is_known or not settled.seq)

    @rule(g=generators, label=labels, owner=owners, ended=st.sampled_from(["", "released", "lapsed"]))
    def claim(self, g: int, label: str, owner: str, ended: str) -> None:
        """Claims a generator by one metric, where the claim until now was released, ran out, or stands."""
        g, label, _, scored = self.unit(g, label)
        if ended == "released" and scored.holder is not None:
            self.run(self.store.end_claim("m", g, self.tokens[scored.holder, g, label], label))
            scored.holder = None
        if ended == "lapsed" and scored.holder is not None:
            self.run(self.redis.zadd("optimist:{m}:claimed_until", {unit(g, label): 1.0}))
            scored.lapsed = True
        claim = self.run(self.store.claim("m", g, owner, 60, label))
        if scored.holder not in (None, owner) and not scored.lapsed:
            assert claim is None
            return
        if scored.holder == owner:
            assert claim.token == self.tokens[owner, g, label]
        else:
            assert claim.token not in self.spent
        self.spent.add(claim.token)
        self.tokens[owner, g, label] = claim.token
        scored.holder, scored.lapsed = owner, False

    @rule(g=generators, label=labels, owner=owners, back=st.integers(0, 2))
    def publish(self, g: int, label: str, owner: str, back: int) -> None:
        g, label, generator, scored = self.unit(g, label)
        seq = max(0, len(generator.log) - back)
        before = self.run(self.redis.hget("optimist:{m}:counts", "state_token"))
        token = self.tokens.get((owner, g, label), "")
        answer = self.attempt(self.store.put_estimate("m", g, seq, f"{seq}", token, label=label))
        if label:
            now = self.run(self.redis.hget("optimist:{m}:counts", "state_token"))
            assert now == before, "picks are not made from it"
        if scored.holder != owner:
            assert answer is Superseded
        elif scored.estimate[1] is None or seq > scored.estimate[0]:
            if seq < generator.voids:
                assert answer is Superseded
                return
            assert answer is True
            scored.estimate, scored.scoring_error = (seq, f"{seq}"), None
        else:
            assert answer == (seq == scored.estimate[0])

    @rule(g=generators, label=labels, owner=owners)
    def scoring_error(self, g: int, label: str, owner: str) -> None:
        g, label, _, scored = self.unit(g, label)
        token = self.tokens.get((owner, g, label), "")
        answer = self.attempt(self.store.put_scoring_error("m", g, "torn", token, label))
        assert answer is (None if scored.holder == owner else Superseded)
        scored.scoring_error = "torn" if scored.holder == owner else scored.scoring_error

    @rule(g=generators, label=labels, owner=owners, back=st.integers(-1, 2))
    def snapshot(self, g: int, label: str, owner: str, back: int) -> None:
        g, label, generator, scored = self.unit(g, label)
        seq = max(0, len(generator.log) - back)
        body = repr((label, generator.log[:seq])).encode()
        token = self.tokens.get((owner, g, label), "")
        answer = self.attempt(self.store.put_snapshot("m", g, seq, body, token, label=label))
        if scored.holder != owner:
            assert answer is Superseded
        elif scored.snapshot is not None and seq <= scored.snapshot.seq:
            assert answer is False
        elif seq > len(generator.log):
            assert answer is Conflict
        elif seq < generator.voids:
            assert answer is Superseded
        else:
            assert answer is True
            scored.snapshot = Snapshot(seq, body)
        for other, known in generator.by.items():
            assert self.run(self.store.snapshot("m", g, other)) == known.snapshot
        self.read(g, beyond=-1)

    @rule(g=generators, beyond=st.integers(-2, 2))
    def read(self, g: int, beyond: int) -> None:
        g %= len(self.gs)
        log = self.gs[g].log
        trimmed = self.gs[g].trimmed
        after = max(0, trimmed + beyond)
        entries = self.attempt(self.store.read_log("m", g, after))
        if after > len(log) or after < trimmed:
            assert entries is LogGap
        else:
            found = [(e.pick, RETRACTION if e.is_retraction else e.digest, e.body) for e in entries]
            assert found == log[after:]
            assert [e.rows for e in entries] == [self.gs[g].rows.get(e.seq, 0) for e in entries]
            assert [e.indices for e in entries] == [self.gs[g].indices.get(e.seq, ()) for e in entries]
            assert [e.counted for e in entries] == [self.gs[g].parts.get(e.seq, ()) for e in entries]
            assert [e.context for e in entries] == [self.gs[g].contexts.get(e.seq, b"") for e in entries]

    @precondition(lambda self: self.picks)
    @rule(choice=choices, now=sometimes)
    def retract_by_pick(self, choice: int, now: bool) -> None:
        number = choice % (len(self.picks) + 2)
        told = self.picks.get(number)
        if now:
            answer = self.attempt(self.store.retract("m", pick=number))
            if told is None:
                assert answer is NotFound
            elif number not in self.ended or told.status != "told" or not told.seq:
                assert answer is NotRetractable
            else:
                self.retracted(told.generator, told.seq, answer)

    @rule(g=generators, back=st.integers(-1, 6), now=sometimes)
    def retract_by_position(self, g: int, back: int, now: bool) -> None:
        g %= len(self.gs)
        if now:
            position = len(self.gs[g].log) - back
            answer = self.attempt(self.store.retract("m", generator=g, position=position))
            if position > 0:
                self.retracted(g, position, answer)
            else:
                assert answer is NotFound

    @rule(g=generators, now=seldom)
    def retract_generator(self, g: int, now: bool) -> None:
        g %= len(self.gs)
        if now:
            self.retracted(g, 0, self.attempt(self.store.retract("m", generator=g)))

    def retracted(self, g: int, position: int, answer: Any) -> None:
        """What comes of retracting the batch at a position, 0 for all."""
        generator = self.gs[g]
        is_known = generator.is_retracted(position) if position > 0 else not generator.counted
        newest = max(scored.position for scored in generator.by.values())
        is_whole = generator.trimmed <= max(0, generator.restart - 1)
        if position > len(generator.log):
            assert answer is NotFound
        elif is_known:
            assert answer[1]
        elif position and (position <= generator.trimmed or (position <= newest and not is_whole)):
            assert answer is NotRetractable
        elif position and generator.log[position - 1][1] == RETRACTION:
            assert answer is NotFound
        else:
            self.note(g, position, *answer)

    def note(self, g: int, position: int, retraction: Any, already: bool) -> None:
        generator = self.gs[g]
        assert not already
        lost = 1 if position else generator.counted
        samples = generator.rows[position] if position else generator.samples
        assert (retraction.position, retraction.batches, retraction.samples) == (position, lost, samples)
        rests = g >= len(self.decided) or max(position, 1) <= self.decided[g]
        assert retraction.reopened == (self.decision is not None and rests)
        self.decision = None if retraction.reopened else self.decision
        number = generator.log[position - 1][0] if position else 0
        generator.log.append((0, RETRACTION, b""))
        generator.voids = len(generator.log)
        for scored in generator.by.values():
            scored.holder = None
        first = max(position, 1)
        self.routes = {what: made for what, made in self.routes.items() if made[0].get(g, 0) < first}
        for scored in generator.by.values():
            scored.estimate, scored.scoring_error = (0, None), None
            if not position or position <= scored.position:
                scored.snapshot = None
        if position:
            generator.retracted.add(position)
            generator.copied.discard(position)
            runs = generator.indices.get(position, ())
            indices = {i for start, size in pairs(runs) for i in range(start, start + size)}
            generator.told -= indices
            if number and generator.state != "retired":
                generator.returned |= indices
            return
        generator.restart, generator.handed = len(generator.log), 0
        generator.told.clear()
        generator.copied.clear()
        generator.returned.clear()

    @precondition(lambda self: self.lost)
    @rule(data=st.data(), digest=digests)
    def tell_what_was_lost(self, data: st.DataObject, digest: str) -> None:
        """A pick that Redis has lost, though another may have its number, and the same batch: nothing is counted."""
        number, nonce = data.draw(st.sampled_from(self.lost))
        told = settle(self.store, "m", number, digest, ROWS[digest], digest.encode(), nonce=nonce)
        assert self.attempt(told) is Gone
        assert self.attempt(self.store.give_up("m", number, "lost", nonce=nonce)) is Gone

    @rule(now=seldom)
    def remember(self, now: bool) -> None:
        """Keeps what Redis holds, and what it should hold, to go back to."""
        if now:
            keys = self.run(self.redis.keys("optimist:{m}:*"))
            self.kept = copy.deepcopy(self.model()), {key: self.run(self.redis.dump(key)) for key in keys}

    @precondition(lambda self: self.kept)
    @rule(now=seldom)
    def go_back(self, now: bool) -> None:
        """Redis loses all writes since then."""
        if not now or self.kept is None:
            return
        model, dumps = self.kept
        made = {(number, pick.nonce) for number, pick in self.picks.items()}
        for key in self.run(self.redis.keys("optimist:{m}:*")):
            self.run(self.redis.unlink(key))
        for key, dump in dumps.items():
            self.run(self.redis.restore(key, 0, dump))
        vars(self).update(copy.deepcopy(model))
        self.lost += sorted(made - {(number, pick.nonce) for number, pick in self.picks.items()})

    def model(self) -> dict[str, Any]:
        """What Redis should hold."""
        names = "gs picks requests overdue ended expired known appended tokens spent routes "
        names += "decision decided stopped"
        return {name: vars(self)[name] for name in names.split()}

    @rule(now=seldom)
    def kill_redis(self, now: bool) -> None:
        if now:
            self.server.kill()
            self.server.start()


def test_the_store_does_what_the_model_says():
    every = list(HealthCheck)
    run_state_machine_as_test(
        Model, settings=settings(stateful_step_count=80, deadline=None, suppress_health_check=every, database=None)
    )
