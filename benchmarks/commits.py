"""What a round of ask and tell costs at the store's layer, by the scripts of today and by tables that Python changes.

    python benchmarks/commits.py [--turns 9] [--seconds 1] [--generators 5 100 1000] [--workers 1 16] [--processes 1 2]

Both sides go on in turns, each with processes of its own on one experiment, and a policy that costs nothing: only what
keeps an experiment is compared. The file is synced at each write. The figures are medians of the turns; ratios are
those to today, of the same turn. It goes when the service is on tables.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from redis import Redis
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.dispatch.committing import carried_out
from optimist.dispatch.writer import Command, Writer
from optimist.experiments.drafts import Draft
from optimist.experiments.opening import open_pick
from optimist.experiments.settling import count_batch, end_pick
from optimist.experiments.transitions import batches, controls, picks
from optimist.records import (
    AskGroup,
    Batch,
    Contents,
    ExperimentState,
    Measures,
    NewPick,
    Opening,
    OpenPick,
    Size,
    Slice,
    StoreError,
)
from optimist.records.tables import PickRow, RootRow
from optimist.store import Store, connect, start_embedded

ROWS, COLUMNS, LEASE, GROWTH = 5, 64, 600.0, 1.0
ROOM = picks.Room(10**6, 10**6, 10**6)


class Held(NamedTuple):
    """The pick that a worker has."""

    number: int
    generator: int
    nonce: str
    start: int


@lru_cache(1)
def _facts(generators: int) -> str:
    each = [17] * generators
    return f'"positions":{each},"batches":{each},"pending":{each}'


def record(number: int, generators: int) -> str:
    """As long as the record of a pick is, at no cost: it is of the policy, which both sides share."""
    return f'{{"number":{number},{_facts(generators)}}}'


def contents() -> Contents:
    """A batch of a worker."""
    digest = uuid.uuid4().hex
    sizes = (Size("features", 3.0, 1, 1.0, 1.0, random.gauss(0.5, 0.01)),)
    return Contents(digest, ROWS, random.randbytes(4 * ROWS * COLUMNS), Measures(digest[:16], sizes=sizes))


class Served:
    """Serves the workers of one process: what they want while a round is on its way is the next round."""

    def __init__(self, store: Store, name: str, generators: int) -> None:
        self.store, self.name, self.generators = store, name, generators
        self.worst, self._waiting = 0.0, list[tuple[str, Batch | None, asyncio.Future[Held]]]()
        self._serving: asyncio.Task[None] | None = None

    async def next(self, worker: str, held: Held | None) -> Held:
        """The next pick of a worker, which tells the one that it has."""
        begun, answer = time.perf_counter(), asyncio.get_running_loop().create_future()
        batch = None if held is None else Batch(held.number, held.nonce, contents())
        self._waiting.append((worker, batch, answer))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        found = await answer
        self.worst = max(self.worst, time.perf_counter() - begun)
        return found

    async def _serve(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            told = [batch for _, batch, _ in waiting if batch is not None]
            for (_, _, answer), pick in zip(waiting, await self.round(told, [one[0] for one in waiting]), strict=True):
                answer.set_result(pick)

    async def create(self) -> None:
        """Create the experiment, unless another process has."""
        raise NotImplementedError

    async def round(self, told: Sequence[Batch], workers: Sequence[str]) -> list[Held]:
        """Settle these batches, and open a pick for each worker."""
        raise NotImplementedError


class ByScripts(Served):
    """What the dispatcher does around `Store.exchange`."""

    state: ExperimentState | None = None
    held: Mapping[int, Held] = {}

    async def create(self) -> None:
        names = [f"g{g}" for g in range(self.generators)]
        traits: dict[str, Any] = {"batch_size": ROWS, "labels": ["m"], "instance": "one"}
        await self.store.create_experiment(self.name, "{}", names, GROWTH, **traits)

    async def round(self, told: Sequence[Batch], workers: Sequence[str]) -> list[Held]:
        left, known, plan = list(told), self.state, None
        if known is not None and all(self._settle(known, batch) for batch in told):
            plan = self._planned(known, workers, exactly=True)
        while True:
            done = await self.store.exchange(
                self.name,
                left,
                None if plan is None else plan[0],
                wants_state=True,
                who="" if plan is None else str(os.getpid()),
                known=self.state,
            )
            left = []
            assert not [one for one in done.settled if isinstance(one, StoreError)]
            if plan is not None and done.has_opened:
                assert known is not None
                known.state_token, self.state = done.after, known if done.is_foreseen else None
                self.held = {pick.number: pick for pick in plan[1]}
                return plan[1]
            known = self.state = done.state
            plan = None if known is None else self._planned(known, workers, exactly=False)
            if known is None:
                await asyncio.sleep(0.005)

    def _settle(self, state: ExperimentState, batch: Batch) -> bool:
        leased = next((pick for pick in state.open_picks if pick.number == batch.pick), None)
        if leased is None or batch.pick not in self.held:
            return False
        pick: Any = _Slice(batch.pick, self.held[batch.pick].start, ROWS)
        end_pick(state, pick, leased, ROWS)
        count_batch(state, state.generators[leased.generator], ROWS, GROWTH)
        return True

    def _planned(self, state: ExperimentState, workers: Sequence[str], *, exactly: bool) -> tuple[Opening, list[Held]]:
        rounds, last, version = state.rounds, state.last, state.version
        groups, held = list[AskGroup](), list[Held]()
        for worker in workers:
            number, nonce, request = state.rounds + 1, os.urandom(8).hex(), uuid.uuid4().hex
            generator = state.generators[number % self.generators]
            new = NewPick(
                generator.ordinal,
                record(number, self.generators),
                nonce,
                Slice(generator.handed, ROWS),
                worker=worker,
            )
            held.append(Held(number, generator.ordinal, nonce, generator.handed))
            open_pick(state, OpenPick(number, generator.ordinal, request, new.record, time.time(), nonce), new)
            groups.append(AskGroup(request, [new]))
        state.version = version + 1
        return Opening(groups, LEASE, rounds, last, version if exactly else None, state.state_token), held


class _Slice(NamedTuple):
    number: int
    start: int
    size: int


class ByTables(Served):
    """Commands, decided by a writer."""

    def __init__(self, store: Store, name: str, generators: int) -> None:
        super().__init__(store, name, generators)
        self._writer = Writer(uuid.uuid4().hex, time.monotonic)

    async def create(self) -> None:
        names, root = [f"g{g}" for g in range(self.generators)], RootRow("one", "", GROWTH, ("m",), ROWS)
        await self._run([lambda draft: controls.create(draft, root, "{}", names)])

    async def round(self, told: Sequence[Batch], workers: Sequence[str]) -> list[Held]:
        commands: list[Command] = [lambda draft, batch=batch: batches.tell(draft, batch) for batch in told]
        for worker in workers:
            asked = picks.Ask(uuid.uuid4().hex, (os.urandom(8).hex(),), LEASE, ROOM, worker)
            commands.append(lambda draft, asked=asked: picks.ask(draft, asked, self))
        replies = await self._run(commands)
        assert not [one for one in replies if isinstance(one, StoreError)]
        numbers = [reply.numbers[0] for reply in replies[len(told) :]]
        rows = [(number, self._writer.tables.picks[number]) for number in numbers]
        return [Held(number, row.generator, row.nonce, row.start or 0) for number, row in rows]

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        return await carried_out(self.store, self.name, self._writer, commands)

    def is_spent(self, draft: Draft) -> bool:
        """As of `picks.Chooser`."""
        return False

    def choose(self, draft: Draft, number: int, place: int) -> picks.Chosen:
        """As of `picks.Chooser`."""
        return picks.Chosen(number % self.generators, ROWS)

    def describe(self, draft: Draft, number: int, pick: PickRow) -> picks.Described:
        """As of `picks.Chooser`."""
        return picks.Described(record(number, self.generators))


SIDES: Mapping[str, type[Served]] = {"scripts": ByScripts, "tables": ByTables}


class Turn(NamedTuple):
    """What a process did in one turn."""

    rounds: int
    seconds: float
    processor: float
    """Processor seconds."""
    worst: float
    """The longest wait for a pick, in seconds."""


def process(url: str, side: str, name: str, generators: int, workers: int, pipe: Connection) -> None:
    """One process of a side, which works for as many seconds as it is told, until it is told 0."""

    async def run() -> None:
        async with connect(url) as redis:
            served = SIDES[side](Store(redis), name, generators)
            await served.create()
            held: dict[str, Held] = {}

            async def work(worker: str, end: float) -> int:
                rounds = 0
                while time.perf_counter() < end:
                    held[worker] = await served.next(worker, held.get(worker))
                    rounds += 1
                return rounds

            while seconds := pipe.recv():
                served.worst, spent, begun = 0.0, time.process_time(), time.perf_counter()
                names = [f"{os.getpid()}-{worker}" for worker in range(workers)]
                rounds = sum(await asyncio.gather(*(work(one, begun + seconds) for one in names)))
                taken = time.perf_counter() - begun
                pipe.send(Turn(rounds, taken, time.process_time() - spent, served.worst))

    uvloop.run(run())


def measured(url: str, redis: Redis, case: tuple[int, int, int], turns: int, seconds: float) -> dict[str, list[Any]]:
    """Of each side and turn: rounds a second, µs of processes and of Redis a round, and the longest wait in ms."""
    generators, workers, processes = case
    context, fleets = multiprocessing.get_context("spawn"), dict[str, list[Connection]]()
    started: list[Any] = []
    for side in SIDES:
        for _ in range(processes):
            ours, theirs = context.Pipe()
            given = url, side, f"{side}-{'-'.join(map(str, case))}", generators, max(1, workers // processes), theirs
            started.append(context.Process(target=process, args=given, daemon=True))
            started[-1].start()
            fleets.setdefault(side, []).append(ours)
    found: dict[str, list[Any]] = {side: [] for side in SIDES}
    for turn in range(turns + 1):
        for side in list(SIDES)[:: -1 if turn % 2 else 1]:
            before = _spent_by(redis)
            for pipe in fleets[side]:
                pipe.send(seconds if turn else max(seconds, generators / 250))
            done: list[Turn] = [pipe.recv() for pipe in fleets[side]]
            rounds = sum(one.rounds for one in done)
            costs = sum(one.processor for one in done), _spent_by(redis) - before
            worst = 1e3 * max(one.worst for one in done)
            if turn:  # in the first one every process reads what each generator has
                found[side].append((rounds / done[0].seconds, *(1e6 * cost / rounds for cost in costs), worst))
    for pipes in fleets.values():
        for pipe in pipes:
            pipe.send(0)
    for one in started:
        one.join()
    return found


def _spent_by(redis: Redis) -> float:
    info: Any = redis.info("cpu")
    return info["used_cpu_user"] + info["used_cpu_sys"]


def main() -> None:
    """Measure each case, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    for name, cases in ("generators", [5, 100, 1000]), ("workers", [1, 16]), ("processes", [1, 2]):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=cases)
    options = parser.parse_args()
    columns = "generators", "workers", "processes", "", "rounds/s", "API, µs", "Redis, µs", "longest wait, ms"
    table = Table(*columns, "ratios: rate, API, Redis", box=box.MARKDOWN)
    with tempfile.TemporaryDirectory() as directory, start_embedded(Path(directory)) as server:
        redis = Redis(unix_socket_path=server.url.removeprefix("unix://"))
        for case in product(options.generators, options.workers, options.processes):
            found = measured(server.url, redis, case, options.turns, options.seconds)
            for side, turns in found.items():
                middle = [statistics.median(each) for each in zip(*turns, strict=True)]
                pairs = list(zip(turns, found["scripts"], strict=True))
                ratios = [statistics.median(one[i] / other[i] for one, other in pairs) for i in range(3)]
                figures = [f"{one:,.0f}" for one in middle]
                table.add_row(*map(str, case), side, *figures, " ".join(f"{one:.2f}" for one in ratios))
    Console().print(table)


if __name__ == "__main__":
    main()
