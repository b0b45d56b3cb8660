"""Runs many seeds of the simulator: python -m tests.interleavings [--seeds 100] [--first 0] [--steps 4000]"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from rich.console import Console

from tests.interleavings.simulator import Simulation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    options, console = parser.parse_args(), Console(markup=False, highlight=False, soft_wrap=True)
    begun, seen, failed = time.process_time(), Counter[str](), list[int]()
    for seed in range(options.first, options.first + options.seeds):
        simulation = Simulation(seed)
        try:
            simulation.run(options.steps)
        except Exception as error:
            failed.append(seed)
            console.print(f"seed {seed}:\n{''.join(traceback.format_exception(error))}")
            console.print(f"again alone: make interleave FIRST={seed} SEEDS=1 STEPS={options.steps}")
        seen += simulation.seen
    rate = options.seeds * options.steps / (time.process_time() - begun)
    console.print(f"{options.seeds} seeds × {options.steps} steps, {len(failed)} failed, {rate:,.0f} steps a second")
    console.print(dict(sorted(seen.items())))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
