"""Runs the Lua scripts in lua/: one file a transition, one EVALSHA a call.

A script answers {'ok', results…} or a word with a message for the caller, which becomes an exception here. redis-py
sends a script again when the reply was lost, so each one recognises what it has already done.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.commands.core import AsyncScript

from optimist.store.errors import Conflict, Gone, NotFound, StoreError, reaching_redis
from optimist.store.keys import EXPERIMENT_PARTS, experiment_keys

_REFUSALS: dict[bytes, type[StoreError]] = {b"not-found": NotFound, b"conflict": Conflict, b"gone": Gone}
# These run whether or not the experiment exists, so they go without the prelude's check.
_WITHOUT_PRELUDE = {"create_experiment", "delete_experiment"}


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def _experiment_script(name: str) -> str:
    named_keys = f"local {', '.join(EXPERIMENT_PARTS)} = unpack(KEYS)\n"
    prelude = "" if name in _WITHOUT_PRELUDE else _file("prelude")
    return named_keys + prelude + _file(name)


class Scripts:
    """The scripts of one Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._scripts: dict[str, AsyncScript] = {}

    async def on_experiment(self, name: str, experiment: str, *arguments: str | bytes | float) -> list[Any]:
        """Run an experiment's script and return what follows its 'ok'.

        Raises NotFound, Conflict or Gone as the script says, Unavailable when Redis cannot serve.
        """
        return await self._run(name, _experiment_script, experiment_keys(experiment), arguments)

    async def on_keys(self, name: str, keys: list[str], *arguments: str | bytes | float) -> list[Any]:
        """Run a script that stands by itself on keys of one slot; answers and errors as in `on_experiment`."""
        return await self._run(name, _file, keys, arguments)

    async def _run(
        self, name: str, text: Any, keys: list[str], arguments: tuple[str | bytes | float, ...]
    ) -> list[Any]:
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self._redis.register_script(text(name))
        with reaching_redis():
            word, *results = await script(keys, arguments)
        if word in _REFUSALS:
            raise _REFUSALS[word](results[0].decode())
        return results
