"""The attacks of docs/security.md on a real service with two tenants, and their effect on service and other tenant.

    python -m tests.chaos.attacks [NAME …] [--json FILE] [--compare FILE]

Each attack has a fresh `optimist serve` with an embedded Redis and access keys of two namespaces: one tenant attacks,
the other asks and tells with four loops in a separate process. Everything runs on 127.0.0.1, takes about a minute per
attack at most, and needs 4 GiB of free memory. `--compare` shows the figures beside those that an earlier run wrote
with `--json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import misleading, stalling, starving
from .hostile import Scale
from .tenants import Outcome, available

NEEDED = 4 * 1024
"""MiB of free memory required at the start."""


@dataclass(frozen=True)
class Attack:
    """An attack: the function that runs it, which describes it, and the limit that should hold it."""

    run: Callable[[Scale], Outcome]
    limit: str

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.run.__name__.replace("_", "-")

    @property
    def description(self) -> str:
        """In a few words."""
        return (self.run.__doc__ or "").partition("\n\n")[0].rstrip(".")


ATTACKS = tuple(
    Attack(run, limit)
    for run, limit in (
        (
            starving.large_batches,
            "pick and shape are checked before decoding; memory for decoding is reserved from `MAX_MEMORY`",
        ),
        (starving.slow_bodies, "share of `MAX_MEMORY` per key; minimum rate of a body; small bodies are exempt"),
        (starving.references, "one thread for references, one BLAS thread"),
        (starving.open_picks, "open picks per worker, key and experiment"),
        (starving.lists, "lists have summaries, by pages"),
        (starving.imports, "one import at a time and key; every part of an archive is bounded before it is parsed"),
        (starving.feature_maps, "dimension × features; maps count towards `WARM_BYTES`"),
        (misleading.more_rows, "a tell has at most the rows that were asked for"),
        (misleading.absurd_rows, "plausibility compared with reference, history and other generators"),
        (misleading.copies, "warnings about repeated batches"),
        (misleading.heads, "size of a request head, 64 KiB"),
        (misleading.revoked_key, "keys are checked again before a request takes effect"),
        (
            starving.large_asks,
            "size of an ask by its experiment's goal, known before it is read; values of JSON counted before parsing",
        ),
        (
            starving.watched,
            "metrics that decide are scored first; of the rest each namespace has a share, in short turns",
        ),
        (stalling.slow_exports, "one export at a time and key; room is checked while it is written"),
        (stalling.small_tensors, "bodies are cut into at most the tensors of 64 batches"),
        (stalling.shares, "live shares of an experiment; they expire"),
        (stalling.wide, "reports are made once for all readers, beside the event loop; asks are charged by their size"),
        (stalling.utf16, "JSON is UTF-8"),
        (stalling.returned, "returned slices of an experiment"),
        (stalling.trials, "one trial at a time and namespace, one that waits per key"),
        (stalling.long_records, "bytes of a page of records, counted as memory"),
        (stalling.connections, "shares of the connections per key and peer"),
        (starving.everything, "all of these; target: p99 at most 5 × quiet"),
    )
)


def run(
    attacks: Sequence[Attack], scale: Scale, progress: Callable[[str], None] = lambda text: None
) -> dict[str, Outcome]:
    """The outcome of each attack by name; an attack that fails has an outcome, too."""
    outcomes = {}
    for attack in attacks:
        begun = time.monotonic()
        try:
            outcome = attack.run(scale)
        except Exception as error:  # the other attacks still run
            outcome = Outcome()
            outcome.note(f"could not be tried: {type(error).__name__}: {error}")
        outcome.numbers["took"] = time.monotonic() - begun
        progress(f"{attack.name}: {outcome.numbers['took']:.0f} s")
        outcomes[attack.name] = outcome
    return outcomes


def table_of(figures: Mapping[str, Mapping[str, Sequence[str]]]) -> Table:
    """One row per attack; `figures` by name of the column ("figure", or "before" and "after") and by attack.

    Figures of asks and tells are the waiting times of the other tenant in seconds: p50 / p99 / longest.
    """
    table = Table(box=box.MARKDOWN)
    for column in ("attack", "limit that applies", *figures):
        table.add_column(column, no_wrap=True)
    for attack in ATTACKS:
        cells = [found.get(attack.name) for found in figures.values()]
        if any(cells):
            shown = attack.description, attack.limit, *("; ".join(cell or ["–"]) for cell in cells)
            table.add_row(*map(Text, shown))
    return table


def record(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """The results of a run as values for JSON."""
    return {name: {"figures": outcome.figures, "numbers": outcome.numbers} for name, outcome in outcomes.items()}


def main() -> int:
    """Run the attacks and print the table. The exit code is 1 if one of them could not be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"names of attacks (default: all) of {', '.join(a.name for a in ATTACKS)}",
    )
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument(
        "--compare", type=Path, help="show the figures of an earlier run (a file from --json) in a column 'before'"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - {attack.name for attack in ATTACKS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if available() < NEEDED:
        parser.error(f"needs {NEEDED} MiB of free memory, found {available():.0f}")
    chosen = [attack for attack in ATTACKS if not options.names or attack.name in options.names]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the services end as well
    progress, console = Console(stderr=True), Console(width=100_000)
    outcomes = run(chosen, Scale(), progress.print)
    found = record(outcomes)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    columns = {"figure": {name: outcome["figures"] for name, outcome in found.items()}}
    if options.compare:
        before = json.loads(options.compare.read_text())
        columns = {
            "before": {name: before[name]["figures"] for name in found if name in before},
            "after": columns["figure"],
        }
    console.print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    console.print("asks and tells of the other tenant in seconds: p50 / p99 / longest")
    console.print(table_of(columns))
    return int(any(figure.startswith("could not") for outcome in outcomes.values() for figure in outcome.figures))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
