"""Many workers ask at once through several replicas: attempts per ask, waiting times, and the generators of the picks.

    python -m tests.chaos.herd [--workers 128] [--apis 4] [--bursts 5]

In a burst every worker asks at the same moment; then all tell, and the next burst starts when their batches are scored.
An attempt is a script call that would have opened picks for the ask, successful or not; MONITOR shows all of them. Each
burst is compared with one that a policy in memory assigns in sequence, with all earlier picks pending: replicas that
did not see each other's picks would concentrate them on the same generators.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.policies import Arm, Policy, Stopping, warmup_batches
from tests.support.configs import config_of

from . import checks
from .driver import create, service
from .processes import RedisServer
from .questions import BATCH, GENERATORS, QUESTIONS, Question
from .wire import Client, Reply
from .workers import Acknowledged, Ledger, tell

CONFIG: dict[str, Any] = {"seed": 0, "rescore_growth": 0.02, "max_wait": 10.0}
_REQUEST = re.compile(rb'(?<!\\)"(herd-[0-9]+-[0-9]+)"')


@dataclass
class Burst:
    """One burst: generators by pick number, and those that a single process would have chosen in sequence.

    `attempts` and `seconds` are per ask, each in its own order.
    """

    picks: dict[int, str]
    serial: dict[int, str]
    seconds: list[float]
    attempts: list[int] = field(default_factory=list)


@asynccontextmanager
async def attempts_seen(redis: RedisServer) -> AsyncIterator[Counter[str]]:
    """Counts the script calls that name each request, during the context."""
    seen: Counter[str] = Counter()
    reader, writer = await asyncio.open_unix_connection(str(redis.socket), limit=2**26)
    writer.write(b"MONITOR\r\n")
    await reader.readline()

    async def listen() -> None:
        while line := await reader.readline():
            if b'] "EVALSHA" ' in line:
                seen.update(request.decode() for request in set(_REQUEST.findall(line)))

    listener = asyncio.create_task(listen())
    try:
        yield seen
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener
        writer.transport.abort()


async def bursts(workers: int, apis: int, count: int) -> AsyncIterator[Burst]:
    """`count` bursts on one experiment, on a separate service."""
    question, ledger = QUESTIONS[0], Ledger()
    with tempfile.TemporaryDirectory(prefix="herd-") as place:
        async with service(Path(place), apis, scorers=1) as (redis, _, front, _):
            clients = [Client(front.port) for _ in range(workers)]
            for question in QUESTIONS:
                await create(clients[0], question, **CONFIG)
            # Every replica has loaded its scripts and every worker has its connection, as in a running fleet.
            for number, client in enumerate(clients):
                await _ask(client, QUESTIONS[1].name, f"warm-{number}")
            async with attempts_seen(redis) as seen:
                for turn in range(count):
                    replies = await asyncio.gather(
                        *(_ask(client, question.name, f"herd-{turn}-{i}") for i, client in enumerate(clients))
                    )
                    picks = [ledger.picked(question, reply.content["picks"][0], reply.sent) for reply in replies]
                    chosen = {pick.number: pick.told.generator for pick in picks}
                    seconds = [reply.seconds for reply in replies]
                    burst = Burst(chosen, in_sequence(question, ledger, sorted(chosen)), seconds)
                    pairs = zip(clients, picks, strict=True)
                    await asyncio.gather(*(tell(client, question, pick, ledger) for client, pick in pairs))
                    await checks.calm(clients[0], [question], seconds=30.0)
                    # By now MONITOR has shown the asks of this burst, which ended long ago.
                    burst.attempts = [seen[f"herd-{turn}-{i}"] for i in range(workers)]
                    yield burst
            for client in clients:
                client.abort()


def in_sequence(question: Question, ledger: Ledger, numbers: Sequence[int]) -> dict[int, str]:
    """The picks with these numbers as the experiment's policy makes them in sequence (rules/stopping.md)."""
    config = config_of(**question.config(**CONFIG))
    logs: dict[str, list[Acknowledged]] = {name: [] for name in GENERATORS}
    entries = (entry for entries in ledger.acknowledged.values() for entry in entries)
    for entry in sorted(entries, key=lambda entry: entry.position):
        logs[entry.told.generator].append(entry)
    replayed = {
        name: [(told.size, told.seed, told.start, range(told.size)) for told in (entry.told for entry in log)]
        for name, log in logs.items()
    }
    estimates = question.replay(replayed, config.rescore_growth)[None]
    arms = [Arm(name, estimates[name], sum(entry.told.size for entry in log), len(log)) for name, log in logs.items()]
    stopping = Stopping(config.delta, config.tolerance)
    policy = Policy(config.policy, warmup_batches(type(config.metric), config.bound), stopping, config.seed)
    chosen: dict[int, str] = {}
    for number in numbers:
        turn = policy.pick(arms, len(ledger.acknowledged), number)
        arm = arms[turn]
        arms[turn] = replace(arm, pending_samples=arm.pending_samples + BATCH, pending_batches=arm.pending_batches + 1)
        chosen[number] = arm.name
    return chosen


async def _ask(client: Client, experiment: str, request: str) -> Reply:
    body: dict[str, Any] = {"worker": request, "request_id": request}
    return await client.call("POST", f"/v1/experiments/{experiment}/picks", body)


async def measure(workers: int, apis: int, count: int) -> Table:
    """The table of a run."""
    table = Table(title=f"{workers} workers asking at once of {apis} replicas", box=box.MARKDOWN)
    attempts, picks = ("attempts per ask", "most", "p50, s", "p99, s"), ("picks by generator", "in sequence", "same")
    for column in ("burst", *attempts, *picks):
        table.add_column(column, justify="right", no_wrap=True)
    began, number = time.monotonic(), 0
    async for burst in bursts(workers, apis, count):
        number += 1
        p50, p99 = np.quantile(burst.seconds, [0.5, 0.99])
        tries = f"{np.mean(burst.attempts):.2f}", str(max(burst.attempts))
        spread = [
            ", ".join(f"{name} {list(picks.values()).count(name)}" for name in GENERATORS)
            for picks in (burst.picks, burst.serial)
        ]
        same = sum(burst.picks[pick] == name for pick, name in burst.serial.items())
        table.add_row(str(number), *tries, f"{p50:.3f}", f"{p99:.3f}", *spread, f"{same} of {workers}")
        Console(stderr=True).print(f"burst {number} of {count}, {time.monotonic() - began:.0f} s")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=128)
    parser.add_argument("--apis", type=int, default=4)
    parser.add_argument("--bursts", type=int, default=5)
    options = parser.parse_args()
    Console(width=160).print(asyncio.run(measure(options.workers, options.apis, options.bursts)))


if __name__ == "__main__":
    main()
