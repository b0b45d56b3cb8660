"""The levels of batches, by which those on another scale are found, and the batches that were accepted as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from optimist.store.commands import Commands
from optimist.store.retractions import named_batch
from optimist.store.state import Acceptance, Origin

_SPAN = 10_000
"""What separates the levels of two arrays in a sorted set; also in lua/levels.lua."""
MOST = 1024
"""How many single batches of an experiment can be accepted; more of a generator can be accepted as a whole."""


class KeptLevel(NamedTuple):
    """The level of a batch in one array."""

    array: int
    """The place of the array among the `Measures.sizes`."""
    position: int
    """In its generator's log."""
    origin: Origin
    value: float

    @property
    def stored(self) -> tuple[str, str]:
        """The score and the member that the scripts store."""
        origin = f"{self.origin.pick} {self.origin.rows} {self.origin.told:.3f}"
        return f"{_SPAN * self.array + self.value:.4f}", f"{self.array} {self.position} {origin}"

    @classmethod
    def of(cls, score: str, member: str) -> KeptLevel:
        """The inverse of `stored`. Raises ValueError on other texts."""
        array, position, pick, rows, told = member.split(" ")
        value = round(float(score) - _SPAN * int(array), 4)
        return cls(int(array), int(position), Origin(int(pick), int(rows), float(told)), value)


class StoredLevels:
    """The part of `Store` about levels."""

    _commands: Commands

    async def levels(self, experiment: str, generators: Sequence[int]) -> list[list[KeptLevel]]:
        """The kept levels of these generators, those of each array from the lowest on."""
        parts = [self._commands.key(experiment, f"levels:{ordinal}") for ordinal in generators]
        found = await self._commands.call_many([("ZRANGE", part, 0, -1, "WITHSCORES") for part in parts])
        return [[KeptLevel.of(repr(float(score)), member.decode()) for member, score in one] for one in found]

    async def accept_batch(
        self,
        experiment: str,
        *,
        pick: int | None = None,
        generator: int | None = None,
        position: int | None = None,
        who: str = "",
        reason: str = "",
        instance: str | None = None,
    ) -> tuple[Acceptance, bool]:
        """Accept a batch on another scale as it is, or all batches of a generator; idempotent.

        Returns the record, and whether it was accepted before. Raises NotFound for an unknown pick, generator or
        position, Retracted for a batch that was retracted, Conflict for a pick without a batch, and beyond `MOST`.
        """
        named = named_batch(pick, generator, position)
        ordinal, record, already = await self._commands.experiment_script(
            "accept_batch",
            experiment,
            generator=named.generator,
            position=named.position,
            number=named.number,
            who=who,
            reason=reason,
            most=MOST,
            instance=instance,
        )
        return Acceptance.of(int(ordinal), record.decode()), bool(already)
