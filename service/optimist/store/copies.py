"""Copies of experiments, on which something is tried. They are in a namespace of their own, which nobody can name.

The counts of a copy expire unless it is kept, and with them it ends: every script says then that it does not exist. So
no scorer scores what a process has left behind that died, and its other keys are deleted with those of other copies.
"""

from __future__ import annotations

from collections.abc import Iterable

from optimist.store.keys import COPIES, namespace_of
from optimist.store.scripts import Commands

COPY_SECONDS = 15
"""Seconds for which a copy lasts after it was made, or kept: a few times as long as a process may hang."""


class Copies:
    """The part of `Store` about copies."""

    _commands: Commands

    async def keep_copy(self, copy: str) -> None:
        """Have a copy last from now on for `COPY_SECONDS`, if it is there."""
        await self._commands.call("EXPIRE", self._commands.key(copy, "counts"), COPY_SECONDS)

    async def ended_copies(self, names: Iterable[str], instance: str | None = None) -> list[str]:
        """Those of these experiments that are copies and were not kept, or are copies of the one of this instance."""
        copies = [name for name in names if namespace_of(self._commands.full(name)).endswith(COPIES)]
        # The config first: what is restored in between has both.
        parts = [
            command
            for copy in copies
            for command in (
                ("EXISTS", self._commands.key(copy, "config")),
                ("HGET", self._commands.key(copy, "counts"), "instance"),
            )
        ]
        found = await self._commands.call_many(parts) if copies else []
        return [
            copy
            for copy, exists, known in zip(copies, found[::2], found[1::2], strict=True)
            if (exists and known is None) or (known and known.decode().partition(COPIES)[0] == instance)
        ]
