"""How long importing the SDK takes, beside importing httpx, numpy and pydantic, which it stands on.

Each import is the fastest of several fresh processes, from the interpreter's start to its end, less a process that
imports nothing: what else runs on the machine only ever adds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

MODULES = ("httpx", "numpy", "pydantic", "httpx, numpy, pydantic", "optimist_client")


def seconds(statement: str) -> float:
    """Wall time of a fresh interpreter that runs the statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print milliseconds, and the ratio of the SDK to httpx."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="processes for each")
    times = parser.parse_args().times
    statements = {"nothing": "pass", **{modules: f"import {modules}" for modules in MODULES}}
    taken = {modules: [seconds(statement)] for modules, statement in statements.items()}
    for _ in range(times - 1):
        for modules, statement in statements.items():
            taken[modules].append(seconds(statement))
    nothing = min(taken.pop("nothing"))
    fastest = {modules: min(runs) - nothing for modules, runs in taken.items()}
    for modules, duration in fastest.items():
        print(f"import {modules}: {1000 * duration:.0f} ms")
    print(f"optimist_client / httpx: {fastest['optimist_client'] / fastest['httpx']:.2f}")


if __name__ == "__main__":
    main()
