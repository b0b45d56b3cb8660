"""How long importing the SDK takes, compared with httpx, numpy and pydantic, which it uses.

Each number is the median of several fresh processes, from the start of the interpreter to its end, minus a process that
imports nothing. The number in brackets is the fastest one, because other work on the machine only ever adds time. The
package loads its names on first use: `from optimist_client import Optimist` is what a worker imports before its first
request, and the ratio is for this import; `tensors` is what the first array adds: numpy.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

OURS = "from optimist_client import Optimist"
STATEMENTS = (
    "import httpx",
    "import numpy",
    "import pydantic",
    "import httpx, numpy, pydantic",
    "import optimist_client",
    OURS,
    f"{OURS}, tensors",
)


def seconds(statement: str) -> float:
    """Wall-clock time of a fresh interpreter that runs the statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print milliseconds, and the ratio of the SDK to httpx."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="number of processes for each import")
    times = parser.parse_args().times
    taken: dict[str, list[float]] = {statement: [] for statement in ("pass", *STATEMENTS)}
    for _ in range(times):
        for statement, runs in taken.items():
            runs.append(seconds(statement))
    nothing = taken.pop("pass")
    for statement, runs in taken.items():
        median, least = (1000 * (of(runs) - of(nothing)) for of in (statistics.median, min))
        print(f"{statement}: {median:.0f} ms ({least:.0f})")
    turns = zip(taken[OURS], taken["import httpx"], nothing, strict=True)
    ratio = statistics.median((mine - none) / (its - none) for mine, its, none in turns)
    print(f"{OURS} / import httpx, median of the ratios: {ratio:.2f}")


if __name__ == "__main__":
    main()
