"""The levels of batches, by which those on another scale are found, and the batches that were accepted as they are."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.records import Acceptance, KeptLevel
from optimist.store.commands import Commands
from optimist.store.retractions import named_batch

MOST = 1024
"""How many single batches of an experiment can be accepted; more of a generator can be accepted as a whole."""


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
