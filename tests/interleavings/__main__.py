"""Runs many seeds of the simulator: python -m tests.interleavings [--seeds 50] [--first 0] [--steps 2000]"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from rich.console import Console

from optimist.store import EmbeddedRedis, connect, start_embedded
from tests.interleavings.simulator import Simulation, simulated_time


async def simulated(server: EmbeddedRedis, seed: int, steps: int) -> Counter[str]:
    """How often what happened in a run. Raises what it has found."""
    with simulated_time() as clock:
        async with connect(server.url) as redis:
            await redis.flushall()
            simulation = await Simulation.begun(redis, clock, seed)
            await simulation.run(steps)
            return simulation.seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    options, console = parser.parse_args(), Console(markup=False, highlight=False, soft_wrap=True)
    begun, seen, failed = time.perf_counter(), Counter[str](), list[int]()
    with tempfile.TemporaryDirectory() as directory, start_embedded(Path(directory)) as server:
        for seed in range(options.first, options.first + options.seeds):
            try:
                seen += asyncio.run(simulated(server, seed, options.steps))
            except Exception as error:
                failed.append(seed)
                console.print(f"seed {seed}:\n{''.join(traceback.format_exception(error))}")
                console.print(f"again alone: make interleave FIRST={seed} SEEDS=1 STEPS={options.steps}")
    rate = 60 * options.seeds * options.steps / (time.perf_counter() - begun)
    console.print(f"{options.seeds} seeds × {options.steps} steps, {len(failed)} failed, {rate:,.0f} steps a minute")
    console.print(dict(sorted(seen.items())))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
