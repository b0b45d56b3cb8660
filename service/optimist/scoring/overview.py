"""Gauges of what the scorer finds in its sweeps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from optimist.insight import metrics
from optimist.records import GeneratorState, WatchedState
from optimist.scoring.record import Key


class Overview:
    """Sums over all generators as they were last seen, and the times since which estimates and snapshots are due."""

    def __init__(self) -> None:
        self._total: Counter[str] = Counter()
        self._sums: dict[str, Counter[str]] = {}
        """By experiment, as `_due` and `_full`."""
        self._due: dict[str, dict[Key, float]] = {}
        self._full: dict[str, dict[Key, float]] = {}

    def begin(self, name: str) -> tuple[dict[Key, float], dict[Key, float]]:
        """Count an experiment anew. Returns since when its estimates and snapshots have been due, for `add`."""
        self._total.subtract(self._sums.pop(name, {}))
        self._sums[name] = Counter()
        return self._due.pop(name, {}), self._full.pop(name, {})

    def keep(self, names: Collection[str]) -> None:
        """Forget all experiments but these."""
        for name in [name for name in self._sums if name not in names]:
            self.begin(name)
            del self._sums[name]

    def add(
        self,
        name: str,
        generator: GeneratorState,
        label: str,
        unit: GeneratorState | WatchedState,
        outgrown: bool,
        before: tuple[dict[Key, float], dict[Key, float]],
    ) -> None:
        """Count a generator by one metric, whose state is `unit`; `outgrown`: a snapshot is due, as the log is long.

        before: what `begin` returned. Of watched metrics only the snapshots are counted with the others: nobody waits
        for their estimates.
        """
        key, now = (name, generator.ordinal, label), time.monotonic()
        if outgrown:
            self._full.setdefault(name, {})[key] = before[1].get(key, now)
        counts = generator.state != "retired"
        if label:
            self._count(
                name,
                watched_overdue=counts and generator.due_seq > unit.estimate_seq,
                watched_damaged=counts and unit.damage is not None,
            )
            return
        if counts and generator.due_seq > generator.estimate_seq:
            self._due.setdefault(name, {})[key] = before[0].get(key, now)
        self._count(
            name,
            generators=counts,
            damaged=counts and generator.damage is not None,
            log_bytes=generator.log_bytes,
            log_entries=generator.seq - generator.snapshot_seq,
            set_aside=generator.aside_count,
        )

    def _count(self, name: str, **more: int) -> None:
        self._sums[name].update(more)
        self._total.update(more)

    def show(self, experiments: int, held: int, warm_bytes: int) -> None:
        """Set the gauges."""
        now = time.monotonic()
        due = [since for those in self._due.values() for since in those.values()]
        full = [since for those in self._full.values() for since in those.values()]
        metrics.EXPERIMENTS.set(experiments)
        metrics.GENERATORS.set(self._total["generators"])
        metrics.DAMAGED.set(self._total["damaged"])
        metrics.OVERDUE.set(len(due))
        metrics.WATCHED_OVERDUE.set(self._total["watched_overdue"])
        metrics.WATCHED_DAMAGED.set(self._total["watched_damaged"])
        metrics.STALENESS.set(now - min(due, default=now))
        metrics.SNAPSHOT_AGE.set(now - min(full, default=now))
        metrics.LOG_BYTES.set(self._total["log_bytes"])
        metrics.LOG_ENTRIES.set(self._total["log_entries"])
        metrics.SET_ASIDE_ENTRIES.set(self._total["set_aside"])
        metrics.HELD.set(held)
        metrics.WARM_BYTES.set(warm_bytes)
        metrics.LAST_SWEEP.set_to_current_time()
