"""Processor time of a round below HTTP: `Dispatcher.tell` with the next ask, on an embedded Redis.

    python benchmarks/dispatching.py [--against CHECKOUT] [--repeats 7] [--rounds 400]

A round is what the service does between a batch that was read and an answer that is written: settle, plan, exchange.
Each worker tells a batch of 5 × 64 and awaits its next pick, on uvloop as in the service, in one process without HTTP
and scorer; estimates are published by hand, paired, and stay. With another checkout of this project both are measured
in turns, each in a process of its own, and the last columns have the median of the ratios of neighbouring turns. "CPU"
is that of the process, in µs per round; "script" is Redis's own `usec_per_call` of EVALSHA divided by the rounds that a
call served, without the network and without the log on disk; "Redis" is the processor time of redis-server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

SHAPES = {"1 worker": (1, 1), "16 on one": (16, 1), "16 × 16": (16, 16)}
"""Workers and experiments of each row."""
WARM_UP = 320
GENERATORS = 5


class World:
    """The experiments of one shape, and the open pick of each worker."""

    def __init__(self, redis: Any, pid: int, tag: str, workers: int, experiments: int) -> None:
        self._redis, self._pid, self._tag = redis, pid, tag
        self._names = [f"x{tag}-{number % experiments}" for number in range(workers)]
        self._told = 0

    async def begin(self) -> None:
        """Create the experiments, run them until they are in their steady state, and publish estimates."""
        from optimist.dispatch.dispatcher import Dispatcher
        from optimist.experiments.assignment import MostOpen
        from optimist.store import Store
        from optimist_client.config import RULES
        from optimist_client.metrics import FID
        from optimist_client.models import AskRequest, Experiment, ExperimentConfig

        self._store = Store(self._redis)
        self._dispatchers: dict[str, Dispatcher] = {}
        for name in set(self._names):
            fields = {"max_wait": 0.0, "rescore_growth": 1.0, "stop": False}
            config = ExperimentConfig(
                name=name, generators=[*"abcde"], metric=FID(reference="r"), batch_size=5, **fields
            )
            await self._store.create_experiment(
                name, "{}", config.generators, config.rescore_growth, instance=name, batch_size=5
            )
            pinned = {"columns": {"features": 64}, "scales": {}, "references": {"r": ""}}
            experiment = Experiment(config=config, **pinned, created=0.0, instance=name, rules=RULES)
            self._dispatchers[name] = Dispatcher(self._store, experiment, MostOpen(1000, 1000, 1000))
        first = [self._dispatchers[name].ask(AskRequest(worker=f"w{i}")) for i, name in enumerate(self._names)]
        self._picks = [reply.picks[0] for reply in await asyncio.gather(*first)]
        await self.rounds(WARM_UP * len(self._dispatchers) // len(self._names))
        for name, dispatcher in self._dispatchers.items():
            await self._publish(name)
            dispatcher.wake()
        await self.rounds(20)

    async def _publish(self, name: str) -> None:
        from picks import stored

        for generator, state in enumerate((await self._store.state(name)).generators):
            claim = await self._store.claim(name, generator, "owner", 60.0)
            assert claim is not None
            await self._store.put_estimate(name, generator, state.seq, stored(generator, True), claim.token)

    async def rounds(self, count: int) -> None:
        """That many rounds of each worker, all at once."""
        await asyncio.gather(*(self._work(place, count) for place in range(len(self._names))))

    async def _work(self, place: int, count: int) -> None:
        from optimist.records import Batch, Contents, Measures, Size
        from optimist_client.models import AskRequest

        dispatcher, pick, worker = self._dispatchers[self._names[place]], self._picks[place], f"w{place}"
        for _ in range(count):
            self._told += 1
            digest = struct.pack(">QQQQ", self._told * 0x9E3779B97F4A7C15 % 2**64, 0, place, self._told).hex()
            measures = Measures(digest, sizes=[Size("features", 3.0 + self._told % 7 / 10, 2, 1.01)])
            batch = Batch(pick.number, pick.nonce, Contents(digest, 5, bytes(1300), measures))
            _, following = await dispatcher.tell(batch, AskRequest(worker=worker, request_id=f"after-{pick.nonce}"))
            assert following is not None
            pick = (await following).picks[0]
        self._picks[place] = pick

    async def turn(self, count: int) -> tuple[float, float, float]:
        """CPU of this process, time in scripts, CPU of redis-server: µs per round."""
        await self._redis.config_resetstat()
        redis, begun = _cpu(self._pid), time.process_time()
        await self.rounds(max(1, count // len(self._names)))
        done = max(1, count // len(self._names)) * len(self._names)
        used, redis = time.process_time() - begun, _cpu(self._pid) - redis
        script = (await self._redis.info("commandstats"))["cmdstat_evalsha"]["usec"]
        return used * 1e6 / done, script / done, redis * 1e6 / done


def _cpu(pid: int) -> float:
    """Processor time of all threads of a process, in seconds."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def serve() -> None:
    """Answer each line `shape rounds` of the input with the measures of one turn."""
    from optimist.store import connect, start_embedded

    with tempfile.TemporaryDirectory(prefix="dispatching-") as folder, start_embedded(Path(folder)) as embedded:
        redis, worlds = connect(embedded.url), dict[str, World]()
        for text in sys.stdin:
            shape, count = json.loads(text)
            if shape not in worlds:
                worlds[shape] = World(redis, embedded.pid, str(len(worlds)), *SHAPES[shape])
                await worlds[shape].begin()
            print(json.dumps(await worlds[shape].turn(count)), flush=True)
        await redis.aclose()


class Child:
    """A checkout that is measured in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        path = f"{checkout}/service:{checkout}/clients/python:{Path(__file__).parent}"
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def turn(self, shape: str, rounds: int) -> list[float]:
        """The measures of one turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([shape, rounds]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Run the measurements and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, to be measured in turns with this one")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=400, help="rounds of one turn")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        import uvloop

        uvloop.run(serve())
        return
    here = Path(__file__).resolve().parents[1]
    checkouts = [here] if options.against is None else [options.against.resolve(), here]
    print("| | " + " | ".join(f"CPU, µs | script, µs | Redis, µs of {path.name}" for path in checkouts) + " | ratios |")
    print("| --- " * (2 + 3 * len(checkouts)) + "|")
    with ExitStack() as stack:
        children = [Child(path) for path in checkouts]
        for child in children:
            stack.callback(child.close)
        for shape in options.shapes:
            turns: list[list[list[float]]] = [[] for _ in children]
            for repeat in range(options.repeats + 1):
                order = list(zip(children, turns, strict=True))
                for child, found in order if repeat % 2 else reversed(order):
                    found.append(child.turn(shape, options.rounds))
            turns = [found[1:] for found in turns]  # the first one is a warm-up
            cells = [f"{statistics.median(each):.0f}" for found in turns for each in zip(*found, strict=True)]
            ratios = [
                statistics.median(now / before for before, now in zip(*pair, strict=True))
                for pair in zip(*(zip(*found, strict=True) for found in turns), strict=True)
                if len(pair) > 1
            ]
            print(f"| {shape} | {' | '.join(cells)} | {' '.join(f'{ratio:.2f}' for ratio in ratios)} |", flush=True)


if __name__ == "__main__":
    main()
