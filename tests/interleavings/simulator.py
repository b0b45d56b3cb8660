"""Several dispatchers on one experiment in a real Redis, in one thread, from one seed, each step beside the oracle.

Every call of a dispatcher to its store waits until the simulator takes it: calls and their answers are late, lost, and
come twice. Dispatchers crash, also between a call and its answer. Redis loses its last writes, and is full for a while.
Clients repeat what was not answered, at any dispatcher. Scorers claim, publish and trim. Whatever Redis carries out,
the oracle carries out, too: both must answer the same, and have the same then. `python -m tests.interleavings` runs
many seeds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from optimist.dispatch.dispatcher import Dispatcher
from optimist.experiments.assignment import PickLimits
from optimist.experiments.state import PolicyState
from optimist.records import (
    Contents,
    Exchanged,
    NotFound,
    Opened,
    Opening,
    PickBatch,
    Settled,
    Slice,
    StoreError,
    Unavailable,
)
from optimist.store import Store
from optimist_client.models import AskReply, AskRequest
from tests.interleavings.differential import MOST, SIZE, Both
from tests.interleavings.invariants import check_oracle
from tests.oracle.oracle import Moment, Oracle
from tests.oracle.rows import PICKS, SETTLED, PickRow
from tests.oracle.state import state_from
from tests.oracle.transitions import batches, controls, picks
from tests.oracle.transitions.indices import returned_by
from tests.support.made import go_back
from tests.support.states import comparable, plain

MOST_OPEN = PickLimits(24, 4, 20)
ROOM = picks.Room(*(MOST_OPEN.experiment, MOST_OPEN.worker, MOST_OPEN.key))
LEASE = 600.0
KEPT_STEPS = 50
"""Steps that are shown of a run that failed."""


class Clock:
    """Seconds that pass only where the simulator says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def simulated_time() -> Iterator[Clock]:
    """In place of the monotonic clock, by which dispatchers and the event loop wait."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(time, "monotonic", clock)
        # Its end in Redis's time would differ from run to run: the simulator ends it.
        patch.setattr("optimist.store.picks.OPENING_LOCK_SECONDS", 1e6)
        yield clock


@dataclass(eq=False)
class Process:
    """A process that serves the experiment."""

    name: str
    dispatcher: Dispatcher
    is_alive: bool = True


@dataclass(eq=False)
class Call:
    """A call of a dispatcher to its store, on its way, or its answer on the way back."""

    process: Process
    name: str
    call: Callable[[], Awaitable[Any]]
    answer: asyncio.Future[Any] = field(default_factory=asyncio.Future)
    outcome: Any = None

    @property
    def is_awaited(self) -> bool:
        return self.process.is_alive and not self.answer.done()


class Gate:
    """The store as one process sees it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.process: Process

    @property
    def incarnation(self) -> int:
        return self._simulation.losses

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            simulation = self._simulation
            method = getattr(simulation, f"on_{name}", None) or getattr(simulation.store, name)
            waiting = Call(self.process, name, lambda: method(*given, **named))
            simulation.calls.append(waiting)
            return await waiting.answer

        return call


@dataclass(eq=False)
class Operation:
    """What a client wants, again and again until it is answered."""

    kind: str
    start: Callable[[Dispatcher], Awaitable[Any]]
    about: tuple[Any, ...] = ()
    """The number, the nonce and the digest of a batch."""
    ended: frozenset[int] = frozenset()
    """The picks that had ended when it was first sent."""
    losses: int = 0
    """How often writes had been lost by then."""
    attempts: dict[asyncio.Task[Any], Process] = field(default_factory=dict)
    is_answered: bool = False


@dataclass(frozen=True)
class Planned:
    """The choices that a dispatcher has made for an ask, one after the other."""

    choices: Sequence[picks.Chosen]
    records: Sequence[str]
    place: int
    """How many picks the ask gets again."""
    number: int
    """Of the first new one."""

    def is_spent(self, oracle: Oracle) -> bool:
        return False

    def choose(self, oracle: Oracle, number: int, place: int) -> picks.Chosen | None:
        return self.choices[place - self.place]

    def describe(self, oracle: Oracle, number: int, pick: PickRow) -> picks.Described:
        return picks.Described(self.records[number - self.number])


class Simulation(Both):
    """`clock`: that of `simulated_time`."""

    clock: Clock

    @classmethod
    async def begun(cls, redis: Redis, clock: Clock, seed: int, processes: int = 3, clients: int = 12) -> Simulation:
        """One that is about to take its first step."""
        drawn = random.Random(seed)
        made = cls(
            *(Store(redis, settled_limit=400), redis, f"s{seed}", drawn, drawn.random() < 0.3),
            growth=drawn.choice([0.0, 0.3, 1.0]),
            most_of_worker=drawn.choice([None, None, 5, 30]),
        )
        made.oracle = Oracle(dict.fromkeys(("settled", "expired", "appended"), 400))
        made.clock, made.losses, made.is_full = clock, 0, False
        made.calls, made.answers, made.trace = [], [], deque(maxlen=KEPT_STEPS)
        made.acknowledged, made.moment = {}, None
        await made.create()
        made.processes = [made.started(f"p{place}") for place in range(processes)]
        made.clients = [None] * clients
        await made.compare()
        return made

    losses: int
    """How often Redis has lost writes."""
    is_full: bool
    calls: list[Call]
    """On their way to Redis."""
    answers: list[Call]
    """Carried out, with their answers on the way back."""
    trace: deque[str]
    """The last steps, for whoever looks for a failure."""
    acknowledged: dict[tuple[Any, ...], Settled]
    """First answers of tells by number, nonce and digest."""
    moment: tuple[dict[bytes, bytes], Moment] | None
    """What Redis, and the oracle, may go back to."""
    processes: list[Process]
    clients: list[Operation | None]

    async def run(self, steps: int) -> None:
        """Take so many steps, and then answer everybody. An exception has the last steps as notes."""
        # Clients that have gone await no errors.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            for _ in range(steps):
                await self.take_step()
            await self._come_to_rest()
        except Exception as error:
            error.add_note("\n".join(self.trace))
            raise
        finally:
            await self._leave()

    async def take_step(self) -> None:
        self.step += 1
        weights: dict[Callable[[], Awaitable[None]], float] = {
            self._act: 60.0,
            self._carry_out: 80.0 if self.calls else 0.0,
            self._deliver: 80.0 if self.answers else 0.0,
            self._wait: 20.0,
            self._wake: 5.0,
            self._append: 4.0,
            self._give_up: 4.0,
            self._retract: 2.0,
            self._expire: 0.0 if self.is_full else 2.0,
            self._accept: 0.5,
            self._previews: 1.0,
            self._claim: 4.0,
            self._publish: 6.0,
            self._reopen_any: 1.0,
            self._set_state: 1.5,
            self._control: 2.0,
            self._renew: 0.5,
            self._blend: 0.5,
            self._add: 0.1,
            self._delete: 0.0 if self.is_full else 0.1,
            self._crash: 0.5,
            self._remember: 0.7,
            self._lose_writes: 0.3,
            self._fill: 0.6,
        }
        [step] = self.random.choices(list(weights), list(weights.values()))
        self.trace.append(f"{self.step} {step.__name__.strip('_')}")
        before = self.oracle.changes
        await step()
        self.seen[step.__name__.strip("_")] += 1
        await self._settle()
        if self.oracle.changes != before or step == self._carry_out:
            await self.compare()
        self._check_processes()
        if self.step % 50 == 0:
            check_oracle(self.oracle, ROOM, MOST)
            self._check_acknowledged()

    async def _settle(self) -> None:
        """Return when nobody goes on before something happens, and the answers of clients are taken."""
        ready = cast(Any, asyncio.get_running_loop())._ready
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110  nothing tells when nobody goes on
            await asyncio.sleep(0)
        for place, operation in enumerate(self.clients):
            if operation is not None and not operation.is_answered:
                self._take_answers(operation)
            if operation is not None and operation.is_answered:
                self.clients[place] = None
                for attempt in operation.attempts:
                    attempt.cancel()

    # Processes.

    def started(self, name: str) -> Process:
        """A process that has just begun."""
        gate = Gate(self)
        gate.process = Process(name, Dispatcher(cast(Store, gate), self.experiment, MOST_OPEN))
        return gate.process

    async def _carry_out(self) -> None:
        """Redis carries out a call."""
        r = self.random
        call = self.calls.pop(r.randrange(len(self.calls)))
        self.trace[-1] += f" {call.process.name}.{call.name}"
        if call.is_awaited and r.random() < 0.02:
            call.answer.set_exception(Unavailable("it never came"))
            return
        try:
            call.outcome = await call.call()
        except StoreError as error:
            call.outcome = error
        self.trace[-1] += f" {type(call.outcome).__name__}"
        if not call.is_awaited:
            return
        if r.random() < 0.03:
            self.calls.append(call)  # its answer is lost, and it is sent again
        elif r.random() < 0.02:
            call.answer.set_exception(Unavailable("nobody knows whether it was done"))
        else:
            self.answers.append(call)

    async def _deliver(self) -> None:
        """An answer comes."""
        call = self.answers.pop(self.random.randrange(len(self.answers)))
        self.trace[-1] += f" {call.process.name}.{call.name}"
        if not call.is_awaited:
            return
        if isinstance(call.outcome, NotFound):  # it was deleted: another process serves the next one
            call.answer.set_exception(call.outcome)
            await self._settle()
            self._replace(call.process)
        elif isinstance(call.outcome, StoreError):
            call.answer.set_exception(call.outcome)
        else:
            call.answer.set_result(call.outcome)

    async def on_exchange(
        self, name: str, told: Sequence[PickBatch] = (), opening: Opening | None = None, **given: Any
    ) -> Exchanged:
        """`Store.exchange`, on both sides."""
        instance: str = given["instance"]
        try:
            done = await self.store.exchange(name, told, opening, **given)
        except Unavailable:
            raise
        except StoreError as error:
            mine = self.mine(lambda oracle: controls.root_of(oracle, instance))
            self.same((type(mine), str(mine)), (type(error), str(error)))
            raise
        for batch, outcome in zip(told, done.settled, strict=True):
            mine = self.mine(lambda oracle, batch=batch: batches.tell(oracle, batch))
            self.same_settled(mine, outcome)
            if isinstance(outcome, Settled) and not outcome.duplicate:
                assert not self.is_full, "no batch while memory is full"
        if opening is not None and isinstance(done.opened, Opened):
            self._open(opening, done.opened)
        return done

    def _open(self, opening: Opening, opened: Opened) -> None:
        """Open what the store has opened, by the oracle's rules."""
        root, tables = self.tables.root, self.tables
        assert root is not None
        if opened.repeated:
            for request, numbers in opened.numbers.items():
                assert {*numbers} <= {*tables.of_request[request]}, "a repeated ask gets the picks that it has"
            self.seen["repeated"] += 1
            return
        assert (root.decision, controls.STOPPED in tables[controls.CONTROLS]) == (None, False), "nothing is over"
        for group in opening.groups:
            # What was returned since the state was read may be left for later.
            is_exact = opening.version is not None
            new, worker = group.picks, group.picks[0].worker
            parts = [pick.part or Slice(0, 0) for pick in new]
            choices = [
                picks.Chosen(pick.generator, part.size, pick.min_rows, pick.max_rows, not part.again)
                for pick, part in zip(new, parts, strict=True)
            ]
            assert all(tables.generators[one.generator].state == "active" for one in choices), (
                "picks are of active ones"
            )
            is_fresh = not parts[0].again
            assert not (is_exact and is_fresh and returned_by(tables, new[0].generator)), (
                "what was returned comes first"
            )
            owned = {
                *tables.of_request.get(group.request_id, ()),
                *(tables.of_worker.get(worker, ()) if worker else ()),
            }
            nonces = ("",) * len(owned) + tuple(pick.nonce for pick in new)
            asked = picks.Ask(group.request_id, nonces, LEASE, ROOM, worker, new[0].key)
            plan = Planned(choices, [pick.record for pick in new], len(owned), opened.numbers[group.request_id][0])
            mine = self.mine(lambda oracle, asked=asked, plan=plan: picks.ask(oracle, asked, plan))
            numbers = mine.numbers[len(owned) :]
            self.same(list(numbers), opened.numbers[group.request_id])
            for number, pick, part in zip(numbers, new, parts, strict=True):
                row = tables[PICKS][number]
                self.same((row.start, row.size), (part.start, part.size))
                self.picks.append((number, pick.nonce))

    async def on_latch_decision(
        self, name: str, payload: str, basis_digest: str, *, token: str = "", instance: str | None = None
    ) -> bool:
        """`Store.latch_decision`, on both sides."""
        was_decided = self.tables.root is not None and self.tables.root.decision is not None
        latched = await self.store.latch_decision(name, payload, basis_digest, token=token, instance=instance)
        state = state_from(self.tables)
        stands = basis_digest in ("", state.basis_digest)
        seqs = [generator.primary.estimate_seq for generator in state.generators]
        self.same(self.mine(lambda oracle: controls.latch(oracle, payload, stands, seqs)), latched)
        self.seen["decided"] += latched and not was_decided
        return latched

    # Clients.

    async def _act(self) -> None:
        """A client asks for something, or sends again what was not answered."""
        r, place = self.random, self.random.randrange(len(self.clients))
        operation = self.clients[place]
        if operation is not None and r.random() < 0.9 and any(not task.done() for task in operation.attempts):
            return
        if operation is None:
            operation = self.clients[place] = self._drawn(place)
        process = r.choice(self.processes)
        self.trace[-1] += f" c{place} {operation.kind} {operation.about} at {process.name}"
        self._attempt(operation, process)

    def _attempt(self, operation: Operation, process: Process) -> None:
        attempt = asyncio.ensure_future(operation.start(process.dispatcher))
        attempt.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait for it any more
        operation.attempts[attempt] = process

    def _drawn(self, client: int) -> Operation:
        r, worker = self.random, f"w{client}" if client % 2 else None
        ended, request = (
            frozenset(self.tables[SETTLED]),
            AskRequest(worker=worker, count=r.choice([1, 1, 3]), request_id=f"{r.getrandbits(64):x}"),
        )
        if not self.picks or r.random() < 0.4:
            return Operation("ask", lambda to: to.ask(request, f"k{client % 2}"), (), ended, self.losses)
        number, nonce = r.choice(self.picks[-10:] if r.random() < 0.9 else self.picks)
        nonce = nonce if r.random() < 0.98 else "wrong"
        digest = f"{nonce} {'' if r.random() < 0.95 else 'other'}"
        row = self.tables.picks.get(number)
        size = SIZE if row is None else row.size
        rows = size if r.random() < 0.8 else r.randrange(1, size + 2)
        batch = PickBatch(number, nonce, Contents(digest, rows, digest.encode(), self.measures()))
        then = request if r.random() < 0.5 else None
        about = number, nonce, digest
        operation = Operation("tell", lambda to: told(to), about, ended, self.losses)

        async def told(dispatcher: Dispatcher) -> Any:
            settled, following = await dispatcher.tell(batch, then, f"k{client % 2}")
            self._acknowledge(operation, settled)
            return settled if following is None else await following

        return operation

    def _take_answers(self, operation: Operation) -> None:
        for task in [task for task in operation.attempts if task.done()]:
            del operation.attempts[task]
            if task.cancelled():
                continue
            error = task.exception()
            if error is not None and not isinstance(error, StoreError):
                raise error
            if isinstance(error, Unavailable):
                continue
            self.seen[f"{operation.kind} {'done' if error is None else type(error).__name__}"] += 1
            operation.is_answered = True
            if error is None and isinstance(reply := task.result(), AskReply) and operation.losses == self.losses:
                for pick in reply.picks:
                    assert pick.number not in operation.ended, "no pick that had ended before"

    def _acknowledge(self, operation: Operation, settled: Settled) -> None:
        if operation.losses != self.losses:
            return  # it may have been answered from what Redis has lost since
        before = self.acknowledged.setdefault(operation.about, settled)
        facts = "generator", "rows", "samples", "batches", "seq", "uncounted"
        assert [getattr(before, fact) for fact in facts] == [getattr(settled, fact) for fact in facts], (
            "the first answer"
        )

    def _check_acknowledged(self) -> None:
        for (number, *_), settled in self.acknowledged.items():
            if settled.seq:
                assert self._holds(number, settled), f"the batch of pick {number} was acknowledged, and is not lost"

    def _holds(self, number: int, settled: Settled) -> bool:
        entry = self.oracle.logged.get((settled.generator, settled.seq))
        return entry is not None and entry.get("pick") == number

    # What happens beside.

    async def _wait(self) -> None:
        self.clock.now += self.random.expovariate(20)
        if self.random.random() < 0.2:
            await self.redis.delete(self.key("opening_lock"))

    async def _wake(self) -> None:
        """What was announced comes to one of the processes; the others never hear it."""
        self.random.choice(self.processes).dispatcher.wake()

    async def _reopen_any(self) -> None:
        """The decision that stands is dropped."""
        root = self.tables.root
        decision = (root and root.decision) or "another"
        found = await self.both(
            lambda oracle: controls.reopen(oracle, decision), self.store.reopen(self.name, decision)
        )
        if found is not None:
            self.same(*found)

    async def _control(self) -> None:
        name, value = self.random.choice([("stopped", ""), ("stopped", ""), ("stopped", "yes"), ("budget", "")])
        value = str(self.tables.samples + self.random.randrange(300)) if self.random.random() < 0.1 else value
        name = "budget" if value.isdigit() else name
        await self.both(
            lambda oracle: controls.control(oracle, {name: value}), self.store.control(self.name, {name: value})
        )

    async def _delete(self) -> None:
        await super()._delete()
        self.losses += 1  # nothing that was acknowledged is expected of the next one
        self.acknowledged.clear()
        self.moment = None
        for process in self.processes:
            if self.random.random() < 0.5:
                self._replace(process)

    # Faults.

    async def _crash(self) -> None:
        self._replace(self.random.choice(self.processes))

    def _replace(self, process: Process) -> None:
        """Another process in place of this one, whose calls that are on their way are carried out, or not."""
        process.is_alive = False
        serving = process.dispatcher._serving
        if serving is not None:
            serving.cancel()
        self.calls = [call for call in self.calls if call.process is not process or self.random.random() < 0.5]
        self.processes[self.processes.index(process)] = self.started(f"{process.name}'")
        for operation in self.clients:
            for task, at in () if operation is None else operation.attempts.items():
                if at is process:
                    task.cancel()

    async def _remember(self) -> None:
        if not self.is_full:
            keys = await self.redis.keys(self.key("*"))
            self.moment = {key: await self.redis.dump(key) for key in keys}, self.oracle.remembered()

    async def _lose_writes(self) -> None:
        if self.moment is None or self.is_full:
            return
        values, moment = self.moment
        for key in await self.redis.keys(self.key("*")):
            await self.redis.delete(key)
        await go_back(self.redis, values)
        self.oracle.go_back(moment)
        self.losses, self.moment = self.losses + 1, None
        self.acknowledged = {about: one for about, one in self.acknowledged.items() if self._holds(about[0], one)}

    async def _fill(self) -> None:
        self.is_full = not self.is_full and self.random.random() < 0.7
        await self.redis.config_set("maxmemory", 1 if self.is_full else 0)

    # What must hold.

    def _check_processes(self) -> None:
        """A process whose state token is that of the store has exactly the state that is read."""
        read, busy = self.state, {call.process for call in (*self.calls, *self.answers)}
        assert read is not None
        for process in self.processes:
            known = process.dispatcher._state
            if known is None or process in busy or not process.dispatcher._is_known:
                continue
            if known.stored.state_token == read.state_token:
                self.seen["known states"] += 1
                self.same(plain(known.stored), plain(read))
                if self.random.random() < 0.05:
                    fresh = replace(read, generators=[replace(one, told=[]) for one in read.generators])
                    self.same(comparable(known), comparable(PolicyState(self.experiment, fresh)))

    async def _come_to_rest(self) -> None:
        """Everybody is answered once nothing fails any more."""
        await self.redis.config_set("maxmemory", 0)
        self.is_full = False
        await self._settle()
        for _ in range(400):
            if not any(self.clients):
                break
            self.trace.append("rests")
            for operation in filter(None, self.clients):
                if not operation.attempts:
                    self._attempt(operation, self.processes[0])
            await self._settle()
            for call in list(self.calls):
                self.calls.remove(call)
                try:
                    call.outcome = await call.call()
                except StoreError as error:
                    call.outcome = error
                self.answers.append(call)
            while self.answers:
                await self._deliver()
            self.clock.now += 0.05
            await self.redis.delete(self.key("opening_lock"))
            await self._settle()
        assert not any(self.clients), "every client is answered"
        await self.compare()
        check_oracle(self.oracle, ROOM, MOST)
        self._check_acknowledged()

    async def _leave(self) -> None:
        await self.redis.config_set("maxmemory", 0)
        for process in self.processes:
            process.is_alive = False
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
