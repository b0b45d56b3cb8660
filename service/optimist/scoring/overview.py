"""Gauges of what the scorer finds when it sweeps all experiments."""

from __future__ import annotations

import time
from collections import Counter

from optimist.insight import metrics
from optimist.scoring.record import Key
from optimist.store import GeneratorState, WatchedState


class Overview:
    """Sums over all generators of one sweep, and the times since which estimates and snapshots are due."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._due: dict[Key, float] = {}
        self._full: dict[Key, float] = {}
        self._due_before: dict[Key, float] = {}
        self._full_before: dict[Key, float] = {}

    def add(
        self, name: str, generator: GeneratorState, label: str, unit: GeneratorState | WatchedState, outgrown: bool
    ) -> None:
        """Count a generator by one metric, whose state is `unit`; `outgrown`: a snapshot is due, as the log is long.

        Of watched metrics only the snapshots are counted with the others: nobody waits for their estimates.
        """
        key, now = (name, generator.ordinal, label), time.monotonic()
        if outgrown:
            self._full[key] = self._full_before.get(key, now)
        if label:
            self._sums["watched_overdue"] += generator.state != "retired" and generator.due_seq > unit.estimate_seq
            self._sums["watched_damaged"] += generator.state != "retired" and unit.damage is not None
            return
        if generator.state != "retired":
            self._sums["generators"] += 1
            self._sums["damaged"] += generator.damage is not None
            if generator.due_seq > generator.estimate_seq:
                self._due[key] = self._due_before.get(key, now)
        self._sums["log_bytes"] += generator.log_bytes
        self._sums["log_entries"] += generator.seq - generator.snapshot_seq
        self._sums["set_aside"] += generator.aside_count

    def show(self, experiments: int, held: int, warm_bytes: int) -> None:
        """Set the gauges to what was counted since they were last set."""
        now = time.monotonic()
        metrics.EXPERIMENTS.set(experiments)
        metrics.GENERATORS.set(self._sums["generators"])
        metrics.DAMAGED.set(self._sums["damaged"])
        metrics.OVERDUE.set(len(self._due))
        metrics.WATCHED_OVERDUE.set(self._sums["watched_overdue"])
        metrics.WATCHED_DAMAGED.set(self._sums["watched_damaged"])
        metrics.STALENESS.set(now - min(self._due.values(), default=now))
        metrics.SNAPSHOT_AGE.set(now - min(self._full.values(), default=now))
        metrics.LOG_BYTES.set(self._sums["log_bytes"])
        metrics.LOG_ENTRIES.set(self._sums["log_entries"])
        metrics.SET_ASIDE_ENTRIES.set(self._sums["set_aside"])
        metrics.HELD.set(held)
        metrics.WARM_BYTES.set(warm_bytes)
        metrics.LAST_SWEEP.set_to_current_time()
        self._due_before, self._full_before, self._due, self._full = self._due, self._full, {}, {}
        self._sums.clear()
