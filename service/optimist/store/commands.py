"""The one place where Redis is called: plain commands, and the Lua scripts in lua/, one file a transition.

A script answers {'ok', results…} or a word with a message for the caller, which becomes an exception here. redis-py
sends a script again when the reply was lost, so each one recognises what it has already done.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import NoScriptError

from optimist.store.errors import Conflict, Full, Gone, NotFound, Refused, StoreError, Superseded, reaching_redis
from optimist.store.keys import EXPERIMENT_PARTS, experiment_key, full_name, namespace_of
from optimist.store.lineage import Lineage

Argument = str | bytes | int | float

_REFUSALS: dict[bytes, type[StoreError]] = {
    b"not-found": NotFound,
    b"conflict": Conflict,
    b"full": Full,
    b"gone": Gone,
    b"refused": Refused,
    b"superseded": Superseded,
}
# These run whether or not the experiment exists, so they go without the prelude's check.
_WITHOUT_PRELUDE = {"create_experiment": ("enrol",), "delete_experiment": ("chunks",)}
# What else stands before a script, by its name.
_LIBRARIES = {
    "add_generator": ("enrol",),
    "append": ("checking", "accept"),
    "begin_snapshot": ("chunks",),
    "exchange": ("picks", "checking", "accept", "settling", "opening"),
    "flip_snapshot": ("deriving", "chunks"),
    "give_up": ("picks",),
    "look": ("picks",),
    "open_picks": ("opening",),
    "put_chunk": ("chunks",),
    "put_estimate": ("deriving",),
    "put_fitted": ("deriving",),
    "put_modes": ("deriving",),
    "set_aside": ("deriving",),
}


@dataclass(frozen=True, slots=True)
class _Script:
    """A script's text, the SHA-1 that Redis knows it by, and the parts of an experiment that are its keys."""

    source: str
    sha: str
    parts: tuple[str, ...] = ()


class Commands:
    """One Redis, with answers as bytes. Every method raises `Unavailable` when it cannot serve now.

    namespace: whose experiments and references are meant by their names; None: names are full, of any namespace.
    """

    def __init__(self, redis: Redis, namespace: str | None = None, lineage: Lineage | None = None) -> None:
        self.redis = redis
        self.namespace = namespace
        self.lineage = lineage or Lineage()

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

        Raises NotFound, Refused, Conflict, Full, Gone or Superseded as the script says.
        """
        return _results(await self._run(_script(name), keys, arguments))

    async def experiment_script(
        self, name: str, experiment: str, *arguments: Argument, instance: str | None = None
    ) -> list[Any]:
        """Run a script on all keys of an experiment; answers and errors as in `script`.

        instance: of the experiment that is meant; raises NotFound where it was deleted, and another made of this name.
        """
        script = _experiment_script(name)
        keys = _keys(self.full(experiment), script.parts)
        return _results(await self._run(script, keys, _with_instance(name, arguments, instance)))

    def pubsub(self) -> PubSub:
        """A connection for subscriptions; close it with `aclose`."""
        return self.redis.pubsub()

    async def _run(self, script: _Script, keys: Sequence[str | bytes], arguments: Sequence[Argument]) -> Any:
        with reaching_redis():
            try:
                return await self.redis.execute_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self.redis.execute_command("EVAL", script.source, len(keys), *keys, *arguments)


def step(answer: Sequence[Any]) -> list[Any] | StoreError:
    """What follows the 'ok' of a script, or of one of its steps; the exception for another word."""
    word, *results = answer
    return _REFUSALS[word](results[0].decode()) if word in _REFUSALS else results


def _results(answer: Sequence[Any]) -> list[Any]:
    results = step(answer)
    if isinstance(results, StoreError):
        raise results
    return results


def _with_instance(name: str, arguments: Sequence[Argument], instance: str | None) -> Sequence[Argument]:
    return arguments if name in _WITHOUT_PRELUDE else (*arguments, instance or "")


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")


@cache
def _script(name: str) -> _Script:
    return _Script(_file(name), hashlib.sha1(_file(name).encode()).hexdigest())


@cache
def _experiment_script(name: str) -> _Script:
    before = _WITHOUT_PRELUDE.get(name) or ("prelude", *_LIBRARIES.get(name, ()))
    text = "\n".join(map(_file, (*before, name)))
    # Only the keys that it names, as each costs time on its way; all where it takes them as a whole.
    words = set(re.findall(r"\w+", text))
    parts = tuple(part for part in EXPERIMENT_PARTS if part in words or "KEYS" in words)
    source = f"local {', '.join(parts)} = unpack(KEYS)\n{text}"
    return _Script(source, hashlib.sha1(source.encode()).hexdigest(), parts)


@lru_cache(4096)
def _keys(experiment: str, parts: tuple[str, ...]) -> list[bytes]:
    return [experiment_key(experiment, part).encode() for part in parts]
