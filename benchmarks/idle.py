"""Processor time of the same work in a tight loop, and after the process has slept.

    python benchmarks/idle.py [--repeats 150]

A service of few requests sleeps between them, and meanwhile its core does other things: on a shared machine those of
other tenants. What it then runs for the first time finds caches cold, and costs a multiple; run once more at once it
costs as little as in the loop. So the time of a round depends less on how much is computed than on how much different
code that takes, and on how long the process slept before: a table of microseconds of processor time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from starlette.requests import Request

from optimist.api.bodies.asks import read_parameters
from optimist.api.routes.picks import TellParameters
from optimist.numerics.batches import check_batch
from optimist.numerics.plausibility import magnitudes
from optimist.policies.policy import Draws
from optimist_client import tensors

SLEEPS = (0.0001, 0.0005, 0.002, 0.01)
SETTLED = b'{"pick":12,"generator":3,"samples":710,"batches":142,"seq":99,"rows":5,"late":false}'


def works() -> dict[str, Callable[[], object]]:
    """Parts of a round by name."""
    body = tensors.encode({"features": np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)})
    arrays = tensors.decode(body)
    query = b"nonce=2d3cef8cba0c318c&next=1&worker=w3"
    scope = {"type": "http", "headers": [], "path_params": {"name": "x", "number": "377"}, "query_string": query}

    def loop() -> None:
        number = 0
        for i in range(200):
            number = (number * 3 + i) & 0xFFFF

    return {
        "a loop in Python": loop,
        "parameters of a tell": lambda: read_parameters(TellParameters, Request(scope)),
        "decoding of 5 × 64": lambda: tensors.decode(body),
        "check of 5 × 64": lambda: check_batch(arrays, {"features": 64}),
        "digest of 5 × 64": lambda: tensors.digest(arrays),
        "magnitudes of 5 × 64": lambda: magnitudes(arrays, ["features"]),
        "SHA-256 of 2.5 kB": lambda: hashlib.sha256(body + body).hexdigest(),
        "json.loads of an answer": lambda: json.loads(SETTLED),
        "random number of a pick": lambda: Draws(7, 12345).uniform(),
    }


def after(sleep: float, work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median microseconds of the first call after a sleep, and of the next one."""
    seen = []
    for _ in range(repeats):
        time.sleep(sleep)
        at = [time.process_time_ns()]
        for _ in range(2):
            work()
            at.append(time.process_time_ns())
        seen.append((at[1] - at[0], at[2] - at[1]))
    first, second = (statistics.median(column) / 1e3 for column in zip(*seen, strict=True))
    return first, second


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=150)
    repeats: int = parser.parse_args().repeats
    names = [f"after {1000 * sleep:g} ms" for sleep in SLEEPS]
    print(f"| µs | tight loop | {' | '.join(names)} | once more at once |")
    print("| --- " * (3 + len(names)) + "|")
    for name, work in works().items():
        begun = time.process_time_ns()
        for _ in range(2000):
            work()
        tight = (time.process_time_ns() - begun) / 2e6
        found = [after(sleep, work, repeats) for sleep in SLEEPS]
        print(f"| {name} | {tight:.1f} | {' | '.join(f'{first:.0f}' for first, _ in found)} | {found[-1][1]:.1f} |")


if __name__ == "__main__":
    main()
