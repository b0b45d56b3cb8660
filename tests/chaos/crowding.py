"""One tenant keeps the scorer busy with expensive estimates; how many picks of another tenant are stale meanwhile.

    python -m tests.chaos.crowding

`noisy` appends batches to every generator of an experiment in 4096 dimensions with growth 0, so that an estimate is due
after every batch and none is made in less than seconds. `quiet` runs a small experiment in a namespace of its own.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import httpx
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from .hostile import WIDE, attacking
from .tenants import Neighbour, Tenants, Waits, two_tenants


@dataclass(frozen=True)
class Load:
    """How much `noisy` asks of the scorer."""

    dimension: int = 4096
    generators: int = 4
    rows: int = 64
    """Of a batch."""
    pause: float = 0.2
    """Seconds between the batches of one generator."""


@dataclass
class Crowding:
    """What came of the crowding."""

    alone: Waits
    """How long asks of `quiet` waited while nobody else was there."""
    crowded: Waits
    stale: int
    """Picks of `quiet` that were stale while `noisy` was there."""
    picks: int
    seconds: float
    """How long `noisy` was there."""
    scored: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By generator of `noisy`: samples that its last estimate was made of, and samples that were told."""
    failures: list[str] = field(default_factory=list)


def crowd(load: Load, seconds: float, patience: float, alone: float = 5.0) -> Crowding:
    """Have `quiet` work alone, then beside `noisy`.

    `noisy` appends for `seconds`, then waits at most `patience` seconds for an estimate of each of its generators.
    """
    with two_tenants(OPTIMIST_MAX_MEMORY=str(2 * 2**30)) as tenants:
        prepare(tenants, load)
        with Neighbour(tenants, loops=2, pause=0.1) as neighbour:
            begun = time.monotonic()
            time.sleep(alone)
            with hammering(tenants, load):
                crowded = time.monotonic()
                time.sleep(seconds)
            deadline = time.monotonic() + patience
            while any(n == 0 for n, _ in standings(tenants).values()) and time.monotonic() < deadline:
                time.sleep(0.5)
            ended = time.monotonic()
            scored = standings(tenants)
        stale, picks = neighbour.stale(crowded, ended)
        waits = (neighbour.between(begun, crowded, "ask"), neighbour.between(crowded, ended, "ask"))
        return Crowding(*waits, stale, picks, ended - crowded, scored, neighbour.failures)


def prepare(tenants: Tenants, load: Load) -> None:
    """Make the expensive experiment."""
    names = [f"g{number}" for number in range(load.generators)]
    reference = (np.zeros(load.dimension), np.eye(load.dimension))
    with tenants.sdk() as client:
        client.create_experiment(WIDE, names, reference=reference, rescore_growth=0, stop=False)


def hammering(tenants: Tenants, load: Load) -> AbstractContextManager[object]:
    """Batches for every generator of the expensive experiment, for as long as the context."""

    def append(generator: int, client: httpx.Client) -> str:
        time.sleep(load.pause)
        rows = np.random.default_rng().standard_normal((load.rows, load.dimension), np.float32)
        return str(tenants.append(WIDE, f"g{generator}", rows))

    return attacking(tenants, [partial(append, number) for number in range(load.generators)])


def standings(tenants: Tenants) -> dict[str, tuple[int, int]]:
    """By generator of `noisy`: samples that its estimate was made of, and samples told."""
    report = tenants.noisy.get(f"/v1/experiments/{WIDE}/report").raise_for_status().json()
    return {row["generator"]: (row["scored_samples"] or 0, row["samples"]) for row in report["standings"]}


def table_of(found: Crowding) -> Table:
    """The figures as a table of Markdown."""
    table = Table("what", "figure", box=box.MARKDOWN)
    table.add_row("asks of quiet, alone: p50 / p99 / longest", str(found.alone))
    table.add_row("asks of quiet, crowded: p50 / p99 / longest", str(found.crowded))
    table.add_row("stale picks of quiet, crowded", f"{found.stale} of {found.picks} ({found.stale / found.picks:.1%})")
    scored = ", ".join(f"{name} {n:,} of {told:,}" for name, (n, told) in found.scored.items())
    table.add_row(f"samples of noisy that are scored, after {found.seconds:.0f} s", scored)
    return table


def main() -> None:
    """Run the crowding and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, default=Load.dimension, help="columns of the expensive experiment")
    parser.add_argument("--generators", type=int, default=Load.generators, help="generators of it")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long noisy appends")
    parser.add_argument("--patience", type=float, default=300.0, help="how long noisy waits for estimates then")
    options = parser.parse_args()
    found = crowd(Load(options.dimension, options.generators), options.seconds, options.patience)
    console = Console(width=200)
    console.print(table_of(found))
    for failure in found.failures:
        console.print(f"refused: {failure}")


if __name__ == "__main__":
    main()
