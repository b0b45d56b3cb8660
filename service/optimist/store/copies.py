"""Copies of experiments, to try something on. Their namespace has a name that no user can have.

The counts of a copy expire unless it is kept; every script then says that the copy does not exist. So no scorer scores
a dead process's copy, and its other keys are deleted with the keys of other copies.
"""

from __future__ import annotations

from collections.abc import Iterable

from optimist.store.keys import COPIES, namespace_of
from optimist.store.scripts import Commands

COPY_SECONDS = 15
"""Seconds for which a copy lasts after it was made, or kept: a few times as long as a process may hang."""


class CopiedExperiments:
    """The part of `Store` about copies."""

    _commands: Commands

    async def keep_copy(self, copy: str) -> None:
        """Have a copy last from now on for `COPY_SECONDS`, if it is there."""
        await self._commands.call("EXPIRE", self._commands.key(copy, "counts"), COPY_SECONDS)

    async def ended_copies(self, names: Iterable[str], instance: str | None = None) -> list[str]:
        """Copies among these experiments that were not kept, or that copy the experiment of this instance."""
        copies = [name for name in names if namespace_of(self._commands.full(name)).endswith(COPIES)]
        # The config first: an experiment restored in between has both.
        parts = [
            command
            for copy in copies
            for command in (
                ("EXISTS", self._commands.key(copy, "config")),
                ("HGET", self._commands.key(copy, "counts"), "instance"),
            )
        ]
        answers = await self._commands.call_many(parts) if copies else []
        return [
            copy
            for copy, exists, origin in zip(copies, answers[::2], answers[1::2], strict=True)
            if (exists and origin is None) or (origin and origin.decode().partition(COPIES)[0] == instance)
        ]
