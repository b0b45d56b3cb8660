"""The levels of the batches of one evaluation in memory, as the service keeps them in its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimist.numerics.anomalies import Anomaly, Level, Levels, keep
from optimist.numerics.plausibility import Magnitude, reference_level
from optimist.policies.reports import finding, found_among, grouped
from optimist_client.models import AnomalousBatches


class Scales:
    """Keeps levels, and says which batches are on another scale than others (`numerics.anomalies`)."""

    def __init__(self, generators: Sequence[str], references: Mapping[str, float], *, ignored: bool) -> None:
        """references: scale of the real features of arrays that have a reference. ignored: find nothing."""
        self._generators = generators
        self._references = dict(references)
        self._ignored = ignored
        self._real: dict[str, float] = {}
        """The levels of real rows by array."""
        self._kept: dict[str, dict[str, list[Level]]] = {}
        """The levels by array and generator."""
        self._batches = dict.fromkeys(generators, 0)
        self._accepted: dict[str, list[int]] = {name: [] for name in generators}
        """The positions of batches that were accepted one by one."""
        self._until = dict.fromkeys(generators, 0)
        """The positions up to which all batches were accepted."""
        self._found: dict[str, list[Anomaly]] | None = None

    def add(self, generator: str, position: int, sizes: Sequence[Magnitude], rows: int) -> None:
        """Count a batch, and keep the levels of its arrays."""
        self._batches[generator] = position
        self._found = None
        for size in sizes:
            if size.level is not None:
                known = self._kept.setdefault(size.name, {name: [] for name in self._generators})
                keep(known[generator], Level(position, rows, size.level))
                if self._references.get(size.name, 0.0) > 0:
                    self._real[size.name] = reference_level(self._references[size.name], size.width)

    def accept(self, generator: str, position: int | None, told: int) -> bool:
        """Accept a batch, or all of the `told` ones; False if that was done before."""
        if (position or told) <= self._until[generator] or position in self._accepted[generator]:
            return False
        if position is None:
            self._until[generator] = told
        else:
            self._accepted[generator].append(position)
        self._found = None
        return True

    @property
    def anomalous(self) -> tuple[AnomalousBatches, ...]:
        """All batches on another scale."""
        return grouped(self._now(), self._generators, len(self._kept))

    def findings(self, generator: str, position: int) -> list[str]:
        """Phrases that say what is anomalous about one batch; none where nothing is."""
        which = (self._generators.index(generator), position)
        return [
            finding(array, one, len(self._kept))
            for array, those in self._now().items()
            for one in those
            if (one.generator, one.position) == which
        ]

    def state(self) -> dict[str, Any]:
        """All levels and acceptances, as values for JSON."""
        kept = {
            array: {name: list(map(list, those)) for name, those in one.items()} for array, one in self._kept.items()
        }
        counts = {"batches": self._batches, "accepted": self._accepted, "until": self._until}
        return {"kept": kept, "real": self._real, **counts}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Take over a `state`."""
        self._kept = {
            array: {name: [Level(*level) for level in those] for name, those in by_name.items()}
            for array, by_name in known["kept"].items()
        }
        self._real, self._batches = dict(known["real"]), dict(known["batches"])
        self._accepted = {name: list(positions) for name, positions in known["accepted"].items()}
        self._until = dict(known["until"])
        self._found = None

    def _now(self) -> dict[str, list[Anomaly]]:
        if self._found is None:
            arrays = {
                array: [self._levels(name, known[name]) for name in self._generators]
                for array, known in (() if self._ignored else self._kept.items())
            }
            self._found = found_among(arrays, self._real)
        return self._found

    def _levels(self, generator: str, kept: Sequence[Level]) -> Levels:
        accepted = frozenset(self._accepted[generator])
        return Levels(kept, self._batches[generator], accepted, self._until[generator])
