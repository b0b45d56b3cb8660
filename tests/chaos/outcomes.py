"""Outcomes of runs of the chaos harness, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from .rollback import Rollback
from .workers import Fault


@dataclass
class Outcome:
    """The outcome of a run; without `violations` every guarantee was kept."""

    seed: int
    seconds: float = 0.0
    acknowledged: int = 0
    lost: int = 0
    """Those of them that rollbacks removed."""
    retracted: int = 0
    """Retractions that remain."""
    dropped: int = 0
    """Picks that rollbacks removed before they were told."""
    told_lost: list[int] = field(default_factory=list)
    """Of each rollback, how many tells of a pick that it removed were refused though its number was told again."""
    uncounted: int = 0
    """Batches none of which counts, because others were told with their indices."""
    late: int = 0
    duplicates: int = 0
    doubtful: int = 0
    """Batches of workers that were killed before the answer; they are told again at the end."""
    stale: int = 0
    """Picks made without an estimate that was due."""
    faults: list[Fault] = field(default_factory=list)
    rollbacks: list[Rollback] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    exits: list[str] = field(default_factory=list)
    """Processes that ended without being killed."""
    differences: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def record(outcome: Outcome) -> dict[str, Any]:
    """The results of a run as values for JSON."""
    faults = [
        {"kind": fault.kind, "next_tell": fault.next_tell, "next_estimate": fault.next_estimate}
        for fault in outcome.faults
    ]
    rollbacks = [
        {"taken": r.gone - r.to, "down": None if r.back is None else r.back - r.gone} for r in outcome.rollbacks
    ]
    return vars(outcome) | {"faults": faults, "rollbacks": rollbacks}


def recovery_table(outcomes: list[Outcome]) -> Table:
    """Seconds from a fault to the next acknowledged tell, and to the next new estimate, by kind."""
    table = Table(title="seconds from a fault until the service works again", box=box.MARKDOWN)
    for column in ("fault", "times", "next tell p50", "p99", "next estimate p50", "p99"):
        table.add_column(column, justify="left" if column == "fault" else "right", no_wrap=True)
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    for kind in sorted({fault.kind for fault in faults}):
        those = [fault for fault in faults if fault.kind == kind]
        columns = [[b.next_tell for b in those], [b.next_estimate for b in those]]
        table.add_row(kind, str(len(those)), *(cell for column in columns for cell in _quantiles(column)))
    return table


def run_table(outcomes: list[Outcome]) -> Table:
    """The table with one row per seed."""
    table = Table(title="runs", box=box.MARKDOWN)
    for column in ("seed", "rounds", "s", "faults", "lost", "told lost", "tries again", "repeats", "late",
                   "uncounted", "doubtful", "stale",
                   "wait p50", "p99", "longest", "score off by", "error", "wrong"):  # fmt: skip
        table.add_column(column, justify="right", no_wrap=True)
    for o in outcomes:
        worst = [f"{o.differences.get(name, float('nan')):.0e}" for name in ("score", "standard_error")]
        counts = (o.acknowledged, round(o.seconds), len(o.faults), o.lost, sum(o.told_lost), sum(o.tries.values()),
                  o.duplicates, o.late, o.uncounted, o.doubtful, o.stale)  # fmt: skip
        longest = f"{max(o.waits, default=0.0):.2f}"
        table.add_row(
            str(o.seed), *map(str, counts), *_quantiles(list(o.waits)), longest, *worst, str(len(o.violations))
        )
    return table


def _quantiles(seconds: list[float | None]) -> list[str]:
    known = [value for value in seconds if value is not None]
    if not known:
        return ["–", "–"]
    return [f"{quantile:.2f}" for quantile in np.quantile(known, [0.5, 0.99], method="higher")]
