"""Many workers asking at once, through several replicas: how often an ask is tried, how long it takes, where picks go.

    python -m tests.faults.herd [--workers 128] [--apis 4] [--bursts 5]

In a burst every worker asks at the same moment; then all tell, and the next burst comes when their batches are scored.
An attempt is a script call that would have opened picks for the ask, successful or not; MONITOR shows them all.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from . import checks
from .chaos import Plan, create_experiments, service
from .processes import RedisServer
from .questions import GENERATORS, QUESTIONS
from .wire import Client, Reply
from .workers import Ledger, tell

_REQUEST = re.compile(rb'(?<!\\)"(herd-[0-9]+-[0-9]+)"')


@dataclass
class Burst:
    """All workers asking once. `attempts` and `seconds` are per ask, in no common order."""

    numbers: list[int]
    spread: dict[str, int]
    seconds: list[float]
    attempts: list[int] = field(default_factory=list)


@asynccontextmanager
async def attempts_seen(redis: RedisServer) -> AsyncIterator[Counter[str]]:
    """Counts the script calls that name each request, while the context lasts."""
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
    """`count` bursts on one experiment, on a service of its own."""
    question, ledger = QUESTIONS[0], Ledger()
    with tempfile.TemporaryDirectory(prefix="herd-") as place:
        async with service(Path(place), apis, scorers=1) as (redis, _, front, _):
            clients = [Client(front.port) for _ in range(workers)]
            await create_experiments(clients[0], 0, Plan(rounds=10**6))
            # Every replica knows its scripts, and every worker has its connection, as in a fleet at work.
            for number, client in enumerate(clients):
                await _ask(client, QUESTIONS[1].name, f"warm-{number}")
            async with attempts_seen(redis) as seen:
                for turn in range(count):
                    replies = await asyncio.gather(
                        *(_ask(client, question.name, f"herd-{turn}-{i}") for i, client in enumerate(clients))
                    )
                    picks = [reply.content["picks"][0] for reply in replies]
                    burst = Burst(
                        sorted(pick["number"] for pick in picks),
                        {name: sum(pick["generator"] == name for pick in picks) for name in GENERATORS},
                        [reply.seconds for reply in replies],
                    )
                    pairs = zip(clients, picks, strict=True)
                    await asyncio.gather(*(tell(client, question, pick, ledger) for client, pick in pairs))
                    await checks.calm(clients[0], [question], seconds=30.0)
                    # By now MONITOR has shown the asks of this burst, which are long over.
                    burst.attempts = [seen[f"herd-{turn}-{i}"] for i in range(workers)]
                    yield burst
            for client in clients:
                client.abort()


async def _ask(client: Client, experiment: str, request: str) -> Reply:
    body: dict[str, Any] = {"worker": request, "request_id": request}
    return await client.call("POST", f"/v1/experiments/{experiment}/picks", body)


async def measure(workers: int, apis: int, count: int) -> Table:
    """The table of a run."""
    table = Table(title=f"{workers} workers asking at once of {apis} replicas", box=box.MARKDOWN)
    for column in ("burst", "attempts per ask", "most", "p50, s", "p99, s", "picks by generator"):
        table.add_column(column, justify="right", no_wrap=True)
    began, number = time.monotonic(), 0
    async for burst in bursts(workers, apis, count):
        number += 1
        p50, p99 = np.quantile(burst.seconds, [0.5, 0.99])
        spread = ", ".join(f"{name} {picks}" for name, picks in burst.spread.items())
        table.add_row(
            str(number), f"{np.mean(burst.attempts):.2f}", str(max(burst.attempts)), f"{p50:.3f}", f"{p99:.3f}", spread
        )
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
