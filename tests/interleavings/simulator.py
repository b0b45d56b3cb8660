"""Many processes on one experiment in one thread, from one seed. What decides and commits is the code of the service.

Messages between processes and store are late, lost, and come twice. Processes crash, also between commit and reply.
Redis loses its last writes, is full for a while, and its clock and those of the processes jump. Clients repeat what was
not answered, at any process. Scorers claim, publish and trim. `python -m tests.interleavings` runs many seeds.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from optimist.dispatch.writer import Command, Pause, Steps, Writer
from optimist.experiments.tables import Tables
from optimist.experiments.transitions import controls, picks
from optimist.records import Gone, Settled, StoreError, Unavailable
from optimist.records.commits import Head, Request
from optimist.records.tables import EXPIRED, GENERATORS, PICKS, RETRACTIONS, ROOT, TABLES, RootRow, unpacked
from tests.interleavings import operations
from tests.interleavings.invariants import check_store, check_writer, tables_of
from tests.interleavings.operations import LABEL, Drawer, Operation
from tests.support.memory_store import MemoryStore

RING = 400
"""Rows of a ring, few enough that some are forgotten."""
CALM = 15.0
"""Seconds after which no lease is left that was given before a clock jumped."""
KEPT_STEPS = 50
"""Steps that are shown of a run that failed."""


@dataclass(eq=False)
class Process:
    name: str
    writer: Writer
    skew: float
    queue: list[Operation] = field(default_factory=list)
    running: list[Operation] = field(default_factory=list)
    steps: Steps | None = None
    begun: int = 0
    """How many heads the store had had when its round began."""
    turn: int = 0
    """Answers of earlier turns come too late."""


class Before(NamedTuple):
    """What the store had before a step: the root, the names of the estimates, and the positions in each log."""

    root: RootRow | None
    names: str
    present: dict[int, frozenset[int]]


class Simulation:
    def __init__(self, seed: int, processes: int = 3, clients: int = 12) -> None:
        self.random = random.Random(seed)
        self.now, self._redis_offset = 0.0, 1e9
        rings = {table.name: RING for table in TABLES.values() if table.is_ring}
        self.store = MemoryStore(lambda: self.now + self._redis_offset, rings)
        self.drawer = Drawer(self.random, self._units, self._root)
        self.seen: Counter[str] = Counter()
        self.trace: deque[str] = deque(maxlen=KEPT_STEPS)
        """The last steps, for whoever looks for a failure."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = self._lives = self._lost = 0
        self._heads: list[Head] = []
        """Of the store, one after the other."""
        self._acknowledged: dict[tuple[Any, ...], Settled] = {}
        """First answers of tells by number, nonce and digest, and of appends by 0, key and digest."""
        self._blended: dict[tuple[Any, ...], Any] = {}
        """First answers of what was shared out, by request."""
        self._firsts: Counter[tuple[Any, ...]] = Counter()
        """How often a process answered that a batch was stored now."""
        self._settled_from = self._calm_from = 0.0
        self._cached: tuple[Head | None, Tables] = None, Tables()
        self._kept: Any = None
        self._processes = [self._started(place) for place in range(processes)]
        self._create()
        for client in range(clients):
            self._after(self.random.random(), lambda client=client: self._next_of(client))
        for delay, what in (
            *((8.0, self._crash), (8.0, self._remember), (15.0, self._lose_writes), (25.0, self._jump)),
            *((0.3, self._claim), (0.3, self._publish), (2.0, self._trim), (10.0, self._fill), (1.0, self.check)),
        ):
            self._every(delay, what)

    def run(self, steps: int) -> None:
        """Take so many steps. An exception has the last ones as notes."""
        try:
            for _ in range(steps):
                self.now, _, what = heapq.heappop(self._events)
                what()
            self.check()
        except Exception as error:
            error.add_note("\n".join(self.trace))
            raise

    # Time.

    def _after(self, delay: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, what))

    def _every(self, delay: float, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self._after(self.random.expovariate(1 / delay), again)

        self._after(self.random.expovariate(1 / delay), again)

    def _note(self, what: str) -> None:
        self.trace.append(f"{self.now:9.3f}  {what}")

    # Processes.

    def _started(self, place: int) -> Process:
        skew = self.random.uniform(-1e6, 1e6)
        process = Process(f"p{place}", Writer(f"p{place} {skew}", lambda: 0.0), skew)
        process.writer.clock = lambda: self.now + process.skew
        return process

    def _create(self) -> None:
        names = [f"g{g}" for g in range(operations.GENERATORS)]
        self._now(lambda draft: controls.create(draft, self.drawer.new_root(), "{}", names))
        self._heads.append(self.store.contents.head)

    def _now(self, command: Command) -> None:
        """Without any fault."""
        self._processes[0].writer.head = None
        self.store.run(Writer(f"setup {self._lives} {self.now}", lambda: self.now).run([command]))

    def _receive(self, process: Process, operation: Operation) -> None:
        if operation.lost < 0:
            ended = self.store.contents.hashes.get("settled", ())
            operation.lost, operation.ended = self._lost, frozenset(ended if operation.kind == "ask" else ())
        process.queue.append(operation)
        self._go_on(process)

    def _go_on(self, process: Process) -> None:
        if process.steps is None and process.queue:
            process.running, process.queue = process.queue[:16], process.queue[16:]
            process.steps = process.writer.run([operation.command for operation in process.running])
            process.begun = len(self._heads) - 1
            self._step(process, None)

    def _step(self, process: Process, answer: Any) -> None:
        assert process.steps is not None
        try:
            request = process.steps.send(answer)
        except StopIteration as done:
            self._finish(process, done.value)
        except Unavailable as error:
            self.seen["gave in"] += 1
            self._finish(process, [error] * len(process.running))
        else:
            process.turn += 1
            if isinstance(request, Pause):
                turn = process.turn
                self._after(0.003, lambda: self._answered(process, turn, None))
            else:
                self._send(process, request, process.turn)

    def _finish(self, process: Process, replies: list[Any]) -> None:
        running, process.running, process.steps = process.running, [], None
        process.turn += 1
        for operation, reply in zip(running, replies, strict=True):
            if isinstance(reply, Settled) and not reply.duplicate and self.now >= self._settled_from:
                self._firsts[operation.about] += 1
                assert self._firsts[operation.about] == 1, "a batch is told first once"
            self._note(f"{process.name} answers {operation.kind} {operation.about}: {reply!r}")
        if not all(isinstance(reply, Unavailable) for reply in replies) and process.writer.head is not None:
            assert process.writer.head in self._heads[process.begun :], "what is answered was so while it was asked"
        for operation, reply in zip(running, replies, strict=True):
            if self.random.random() > 0.05:  # else the client never hears of it
                delay = self.random.expovariate(20)
                self._after(delay, lambda operation=operation, reply=reply: self._reply(operation, reply))
        self._go_on(process)

    def _send(self, process: Process, request: Any, turn: int) -> None:
        """Requests and answers may be lost, come late, or twice; then the process sends again, or gives in."""

        def arrive() -> None:
            contents = self.store.contents
            is_outrun = isinstance(request, Request) and self.random.random() < 0.3
            if is_outrun:
                self._score_anew(request)
            head, before = contents.head, self._before()
            try:
                answer = self.store.answer(request)
            except Unavailable as error:
                answer = error
            if isinstance(request, Request) and self.store.contents.head != head:
                self._committed(process, request, before)
            if is_outrun:
                self._trim_what_was_read(request)
            if self.random.random() > 0.03:
                self._after(self.random.expovariate(100), lambda: self._answered(process, turn, answer))
            else:
                self.seen["lost answer"] += 1

        def again() -> None:
            if process.turn == turn and process.steps is not None:
                if self.random.random() < 0.5:
                    self._send(process, request, turn)
                else:  # nobody knows whether it was done
                    self._fail(process, Unavailable("timeout"))

        for _ in range(1 + (self.random.random() < 0.03)):
            if self.random.random() > 0.02:
                slow = 50 if self.random.random() < 0.02 else 1
                self._after(self.random.expovariate(100) * slow, arrive)
        self._after(0.5, again)

    def _answered(self, process: Process, turn: int, answer: Any) -> None:
        if process.turn != turn or process.steps is None:
            return
        if isinstance(answer, Unavailable):
            self._fail(process, answer)
        else:
            self._step(process, answer)

    def _fail(self, process: Process, error: Unavailable) -> None:
        assert process.steps is not None
        process.steps.close()
        self._finish(process, [error] * len(process.running))

    # Clients.

    def _next_of(self, client: int) -> None:
        operation = self.drawer.draw(client)

        def attempt() -> None:
            if operation.is_answered:
                self._after(self.random.expovariate(10), lambda: self._next_of(client))
                return
            for _ in range(1 + (self.random.random() < 0.05)):  # sometimes a proxy repeats it
                process = self.random.choice(self._processes)
                delay = self.random.expovariate(50)
                self._after(delay, lambda process=process: self._receive(process, operation))
            self._after(1.0 + self.random.random(), attempt)

        attempt()

    def _reply(self, operation: Operation, reply: Any) -> None:
        if operation.is_answered or isinstance(reply, Unavailable):
            return
        operation.is_answered = True
        self.seen[f"{operation.kind} {type(reply).__name__ if isinstance(reply, StoreError) else 'done'}"] += 1
        if isinstance(reply, picks.Asked):
            if operation.lost == self._lost:
                assert not {str(number) for number in reply.numbers} & operation.ended, "no pick that had ended before"
            held = self._tables().picks
            self.drawer.picks += (
                (number, held[number].nonce)
                for number in reply.numbers
                if number in held and held[number].request == operation.about[0]
            )
        if operation.kind == "blend" and not isinstance(reply, StoreError) and self.now >= self._settled_from:
            assert self._blended.setdefault(operation.about, reply) == reply, "the same samples are shared out once"
        if isinstance(reply, Settled):
            self._acknowledge(operation.about, reply)
        if operation.kind == "tell" and isinstance(reply, Gone):
            assert operation.about not in self._acknowledged, "what was acknowledged is recognised"

    def _acknowledge(self, about: tuple[Any, ...], reply: Settled) -> None:
        if self.now < self._settled_from:
            return  # it may have been answered from what Redis has lost since
        before = self._acknowledged.get(about)
        if before is None:
            if not reply.seq or self._holds(reply):
                self._acknowledged[about] = reply
            else:
                self.seen["acknowledged, then lost by Redis"] += 1
            return
        facts = "generator", "rows", "samples", "batches", "seq", "uncounted"
        assert [getattr(before, fact) for fact in facts] == [getattr(reply, fact) for fact in facts], "the first answer"

    def _holds(self, settled: Settled) -> bool:
        entry = self.store.contents.untrimmed.get(f"log:{settled.generator}", {}).get(settled.seq)
        return entry is not None and entry.get("pick") == settled.pick

    # Scorers, each step as one of their scripts.

    def _units(self) -> dict[str, str]:
        return self.store.contents.hashes.setdefault("units", {})

    def _claim(self) -> None:
        unit = f"{self.random.randrange(operations.GENERATORS)}:{LABEL}"
        token = f"{self.random.getrandbits(32):x}"
        self.store.contents.hashes.setdefault("claims", {})[unit] = token
        # Where the log ends now, up to which its estimate is then made.
        g = int(unit.partition(":")[0])
        seq = self._row(g)[0]
        self._after(self.random.expovariate(4), lambda: self._publish(g, token, seq))

    def _row(self, g: int) -> tuple[int, int]:
        """Where the log of a generator ends, and before which position nothing may be published."""
        text = self.store.contents.hashes.get(GENERATORS.name, {}).get(str(g))
        row = None if text is None else GENERATORS.row_in(text)
        return (0, 0) if row is None else (row.seq, row.voids)

    def _publish(self, g: int = 0, token: str = "", seq: int = 0) -> None:
        unit, (last, voids), units = f"{g}:{LABEL}", self._row(g), self._units()
        is_held = self.store.contents.hashes.get("claims", {}).get(unit) == token
        if is_held and max(1, voids, int(units.get(f"{unit}:seq", 0)) + 1) <= seq <= last:
            units[f"{unit}:seq"], units[f"{unit}:made"] = str(seq), f"{token} {seq}"
            self.seen["published"] += 1

    def _trim(self) -> None:
        g, units = self.random.randrange(operations.GENERATORS), self._units()
        seq = units.get(f"{g}:{LABEL}:seq")
        if seq is not None and self.random.random() < 0.2:
            self._snapshot(g, int(seq))
        units[f"{LABEL}:fitted"], units[f"{LABEL}:fitted_from"] = "kernels", "0 4 1 4 2 4"

    def _snapshot(self, g: int, seq: int) -> None:
        """A snapshot at this position, behind which the log begins then."""
        units, fact = self._units(), f"{g}:{LABEL}:snapshot_seq"
        if seq > max(int(units.get(fact, 0)), self._row(g)[1] - 1):
            units[fact] = str(seq)
            self.store.trim(f"log:{g}", seq + 1)
            self.seen["trimmed"] += 1

    def _score_anew(self, request: Request) -> None:
        """Publish what a request assumes anew, just before it comes."""
        for guard in request.guards:
            if guard.part == "units" and guard.field.endswith(":made"):
                self._units()[guard.field] = f"{self.random.getrandbits(32):x}"
                return

    def _trim_what_was_read(self, request: Request) -> None:
        """Trim a log just after an entry of it was read."""
        for guard in request.guards:
            if guard.part.startswith("log:") and guard.field:
                self._snapshot(g := int(guard.part.partition(":")[2]), min(int(guard.field) + 1, self._row(g)[0]))

    # Faults.

    def _crash(self) -> None:
        place = self.random.randrange(len(self._processes))
        self._note(f"p{place} crashes")
        self._processes[place].turn, self._processes[place].steps = -1, None
        self._processes[place] = self._started(place)
        self.seen["crash"] += 1

    def _remember(self) -> None:
        self._kept = self.store.remembered()

    def _lose_writes(self) -> None:
        """Those of some seconds; or the very last ones, so that others soon are as many."""
        if self.random.random() < 0.5:
            self._remember()
            self._after(self.random.expovariate(5), self._go_back)
        else:
            self._go_back()

    def _go_back(self) -> None:
        if self._kept is None:
            return
        self._note("Redis loses its last writes")
        self.store.go_back(self._kept)
        self._heads.append(self.store.contents.head)
        self._begin_anew()
        self.seen["lost writes"] += 1

    def _begin_anew(self) -> None:
        """Expect nothing of what the store has no longer."""
        self._lost += 1
        self._acknowledged = {about: one for about, one in self._acknowledged.items() if one.seq and self._holds(one)}
        self._blended.clear()
        self._firsts.clear()
        self._kept, self._settled_from = None, self.now + 8.0

    def _jump(self) -> None:
        self._calm_from = self.now + CALM
        self._note("a clock jumps")
        self.seen["clock jump"] += 1
        if self.random.random() < 0.5:
            self._redis_offset += self.random.choice([-30.0, 30.0, -2.0, 2.0])
        else:  # a monotonic clock never goes back; it may have slept
            self.random.choice(self._processes).skew += self.random.uniform(0, 30.0)

    def _fill(self) -> None:
        self.store.is_full = not self.store.is_full
        self._note(f"memory is {'full' if self.store.is_full else 'free'}")
        if self.store.is_full:
            self._after(self.random.expovariate(0.5), self._fill)

    # What must hold.

    def _before(self) -> Before:
        logs = self.store.contents.logs
        present = {g: frozenset(logs.get(f"log:{g}", ())) for g in range(operations.GENERATORS)}
        names = {g: self._units().get(f"{g}:{LABEL}:made") for g in range(operations.GENERATORS)}
        return Before(self._root(), repr(names), present)

    def _committed(self, process: Process, request: Request, before: Before) -> None:
        """What must hold of a step, by the store right before and after it."""
        self._heads.append(self.store.contents.head)
        self._note(f"{process.name} commits {request.entry[:200]}")
        if self.store.is_full:
            self.seen["commits while full"] += 1
            assert not [write for write in request.writes if "body" in write.arguments], "no batch while memory is full"
        changes, after = unpacked(request.entry), self._root()
        rounds, decided = (0, None) if before.root is None else (before.root.rounds, before.root.decision)
        if decided is not None and after is not None and after.decision == decided:
            opened = [key for table, key, row in changes if table is PICKS and row is not None and key > rounds]
            assert not opened, "a decided experiment opens no picks"
        for table, key, row in changes:
            if table is ROOT and row.decision not in (None, decided):
                assert row.decision == before.names, "a decision rests on what stands"
            if table is RETRACTIONS and row.position and key[0] in before.present:
                part = f"log:{key[0]}"
                own = [one.arguments[0] for one in request.writes if (one.command, one.part) == ("XADD", part)]
                is_there = row.position in before.present[key[0]] or f"{row.position}-0" in own
                assert is_there, "what is retracted is in the log"
        for write in request.writes:
            if write.command == "RING" and write.part == EXPIRED.name and self.now > self._calm_from:
                texts = write.arguments[2 + len(EXPIRED.beside) + 1 :: 2]
                deadlines = [EXPIRED.row_in(str(text)).deadline for text in texts]
                assert self.store.clock() > max(deadlines) - 1.0, "a lease lasts as long as it was given"
            if write.part == "head":  # it was deleted
                self._delete()

    def _root(self) -> RootRow | None:
        text = self.store.contents.hashes.get(ROOT.name, {}).get("")
        return None if text is None else ROOT.row_in(text)

    def _delete(self) -> None:
        assert not any(self.store.contents.hashes.values()), "nothing is left of what was deleted"
        assert not self.store.contents.untrimmed
        self.store.is_full = False
        self._lives += 1
        self.drawer.instance = f"life {self._lives}"
        self.drawer.picks.clear()
        self._create()
        self._begin_anew()

    def _tables(self) -> Tables:
        if self._cached[0] != self.store.contents.head:
            self._cached = self.store.contents.head, tables_of(self.store)
        return self._cached[1]

    def check(self) -> None:
        """Everything that must hold between steps."""
        tables = self._tables()
        check_store(self.store, tables)
        for process in self._processes:
            if process.steps is None and process.writer.head == self.store.contents.head:
                check_writer(self.store, tables, process.writer)
        for about, settled in self._acknowledged.items():
            assert not settled.seq or self._holds(settled), f"{about} was acknowledged, and is not lost"
