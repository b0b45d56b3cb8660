"""The one place where Redis is called: plain commands, and the Lua scripts in lua/, one file a transition.

A script answers {'ok', results…} or a word with a message for the caller, which becomes an exception here. redis-py
sends a script again when the reply was lost, so each one recognises what it has already done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.commands.core import AsyncScript

from optimist.store.errors import Conflict, Gone, NotFound, StoreError, Superseded, reaching_redis
from optimist.store.keys import EXPERIMENT_PARTS, experiment_key, experiment_keys, full_name, namespace_of

Argument = str | bytes | int | float

_REFUSALS: dict[bytes, type[StoreError]] = {
    b"not-found": NotFound,
    b"conflict": Conflict,
    b"gone": Gone,
    b"superseded": Superseded,
}
# These run whether or not the experiment exists, so they go without the prelude's check.
_WITHOUT_PRELUDE = {"create_experiment": ("enrol",), "delete_experiment": ("chunks",)}
# What else stands before a script, by its name.
_LIBRARIES = {
    "add_generator": ("enrol",),
    "append": ("accept",),
    "begin_snapshot": ("chunks",),
    "flip_snapshot": ("chunks",),
    "give_up": ("picks",),
    "look": ("picks",),
    "put_chunk": ("chunks",),
    "settle": ("picks", "accept"),
}


class Commands:
    """One Redis, with answers as bytes. Every method raises `Unavailable` when it cannot serve now.

    namespace: whose experiments and references are meant by their names; None: names are full, of any namespace.
    """

    def __init__(self, redis: Redis, namespace: str | None = None) -> None:
        self.redis = redis
        self.namespace = namespace
        self._scripts: dict[str, AsyncScript] = {}

    def full(self, name: str) -> str:
        """What an experiment or reference is called in keys, indices and announcements."""
        return name if self.namespace is None else full_name(self.namespace, name)

    def key(self, experiment: str, part: str) -> str:
        """Key of one part of an experiment."""
        return experiment_key(self.full(experiment), part)

    def names(self, index: Sequence[bytes]) -> list[str]:
        """The names among the members of an index, in their order: the only ones that are to be seen here."""
        members = [member.decode() for member in index]
        if self.namespace is None:
            return members
        return [member.rpartition("/")[2] for member in members if namespace_of(member) == self.namespace]

    async def call(self, *command: Argument) -> Any:
        """Run one command."""
        with reaching_redis():
            return await self.redis.execute_command(*command)

    async def call_many(self, commands: Sequence[Sequence[Argument]], *, transaction: bool = False) -> list[Any]:
        """Run commands in one round trip; as a transaction all or none happen, and their keys share one slot."""
        with reaching_redis():
            async with self.redis.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()

    async def script(self, name: str, keys: Sequence[str], *arguments: Argument) -> list[Any]:
        """Run a script that stands by itself on keys of one slot, and return what follows its 'ok'.

        Raises NotFound, Conflict, Gone or Superseded as the script says.
        """
        return await self._run(name, _file, keys, arguments)

    async def experiment_script(
        self, name: str, experiment: str, *arguments: Argument, instance: str | None = None
    ) -> list[Any]:
        """Run a script on all keys of an experiment; answers and errors as in `script`.

        instance: of the experiment that is meant; raises NotFound where it was deleted, and another made of this name.
        """
        if name not in _WITHOUT_PRELUDE:
            arguments = (*arguments, instance or "")
        return await self._run(name, _experiment_script, experiment_keys(self.full(experiment)), arguments)

    def pubsub(self) -> PubSub:
        """A connection for subscriptions; close it with `aclose`."""
        return self.redis.pubsub()

    async def _run(
        self, name: str, source: Callable[[str], str], keys: Sequence[str], arguments: Sequence[Argument]
    ) -> list[Any]:
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self.redis.register_script(source(name))
        with reaching_redis():
            word, *results = await script(keys, arguments)
        if word in _REFUSALS:
            raise _REFUSALS[word](results[0].decode())
        return results


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def _experiment_script(name: str) -> str:
    named_keys = f"local {', '.join(EXPERIMENT_PARTS)} = unpack(KEYS)\n"
    before = _WITHOUT_PRELUDE.get(name) or ("prelude", *_LIBRARIES.get(name, ()))
    return "\n".join([named_keys, *map(_file, before), _file(name)])
