"""How long importing the SDK takes, compared with httpx, numpy and pydantic, which it uses.

Each number is processor time, the median of several fresh processes minus that of a process that imports nothing. The
number in brackets is the least one, because other work on the machine only ever adds time. All statements take turns.
The SDK loads its names on first use: `from optimist_client import Optimist` is what a worker imports before its first
request, and the ratio is for this import. The first config adds pydantic and the models; the first array adds numpy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

OURS = "from optimist_client import Optimist"
CONFIG = "ExperimentConfig(name='a', generators=['a', 'b'], metric={'name': 'is', 'dimension': 10})"
STATEMENTS = (
    "import httpx",
    "import numpy",
    "from pydantic import BaseModel",
    "import httpx; from pydantic import BaseModel",
    "import httpx, numpy; from pydantic import BaseModel",
    "import optimist_client",
    OURS,
    f"{OURS}, ExperimentConfig; {CONFIG}",
    f"{OURS}, ExperimentConfig, tensors; {CONFIG}",
)


def seconds(statement: str) -> float:
    """Processor time of a fresh interpreter that runs the statement."""
    # Modules are compiled once, as they are wherever the variable is not set.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", statement], environment)
    _, status, used = os.wait4(process, 0)
    if status:
        sys.exit(f"{statement}: exit status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print milliseconds, and the ratio of the SDK to httpx."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="number of processes for each import")
    times = parser.parse_args().times
    taken: dict[str, list[float]] = {statement: [] for statement in ("pass", *STATEMENTS)}
    for statement in taken:
        seconds(statement)  # compiles what is not compiled yet
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
