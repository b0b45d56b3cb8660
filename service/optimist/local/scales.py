"""The levels of the batches of one evaluation in memory, as the service keeps them in its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimist.anomalies.levels import Level, Levels, keep
from optimist.anomalies.plausibility import Magnitude
from optimist.experiments.anomalies import NOTHING, Anomalies
from optimist.experiments.decision import anomalous_in
from optimist.experiments.state import PolicyState


class Scales:
    """Keeps levels, and says which batches are on another scale than others (`anomalies.levels`)."""

    def __init__(self, generators: int) -> None:
        self._generators = generators
        self._kept: dict[str, list[list[Level]]] = {}
        """The levels by array and ordinal."""
        self._found: Anomalies | None = None

    def add(self, ordinal: int, position: int, sizes: Sequence[Magnitude], rows: int) -> None:
        """Keep the levels of a batch's arrays."""
        self.forget()
        for size in sizes:
            if size.level is not None:
                levels = self._kept.setdefault(size.name, [[] for _ in range(self._generators)])
                keep(levels[ordinal], Level(position, rows, size.level))

    def forget(self) -> None:
        """Look anew for what is anomalous, as something was accepted."""
        self._found = None

    def anomalous(self, state: PolicyState) -> Anomalies:
        """All batches on another scale."""
        if not self._kept:
            return NOTHING
        if self._found is None:
            generators = state.stored.generators
            arrays = {
                array: [
                    Levels(levels, generator.batches, generator.accepted, generator.accepted_until)
                    for generator, levels in zip(generators, of_array, strict=True)
                ]
                for array, of_array in self._kept.items()
            }
            self._found = anomalous_in(state, arrays)
        return self._found

    def state(self) -> dict[str, list[list[Level]]]:
        """All levels, as values for JSON."""
        return self._kept

    def restore(self, state: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> None:
        """Take over a `state`."""
        self._kept = {
            array: [[Level(int(position), int(rows), value) for position, rows, value in those] for those in levels]
            for array, levels in state.items()
        }
        self.forget()
