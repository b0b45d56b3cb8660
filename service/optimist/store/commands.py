"""The only place that calls Redis: plain commands, and the Lua scripts in lua/, one script for each transition.

A script answers {'ok', results…}, or a word and a message, which become an exception here. redis-py sends a script
again if the reply was lost, so each script recognises a repeated call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import NoScriptError

from optimist.records import Conflict, Full, Gone, NotFound, NotRetractable, Refused, Retracted, StoreError, Superseded
from optimist.store.clients import Coalescer
from optimist.store.keys import experiment_key, full_name, name_of, namespace_of
from optimist.store.reaching import ServerIdentity, reaching_redis
from optimist.store.scripts import Argument, Script, Value, load

_REFUSALS: dict[bytes, type[StoreError]] = {
    b"not-found": NotFound,
    b"conflict": Conflict,
    b"full": Full,
    b"gone": Gone,
    b"retracted": Retracted,
    b"not-retractable": NotRetractable,
    b"refused": Refused,
    b"superseded": Superseded,
}
_COALESCED = frozenset({"exchange"})
"""Scripts that are called at the same time for many experiments, and are short."""


class Commands:
    """One Redis, with answers as bytes. Every method raises `Unavailable` when Redis cannot serve now.

    namespace: the namespace of all names; None: names are full names, of any namespace.
    """

    def __init__(self, redis: Redis, namespace: str | None = None, identity: ServerIdentity | None = None) -> None:
        self.redis = redis
        self.namespace = namespace
        self.identity = identity or ServerIdentity()
        self._coalesced = redis.coalesced if isinstance(redis, Coalescer) else redis.execute_command

    def full(self, name: str) -> str:
        """The full name of an experiment or reference, as in keys, indices and announcements."""
        return name if self.namespace is None else full_name(self.namespace, name)

    def key(self, experiment: str, part: str) -> str:
        """Key of one part of an experiment."""
        return experiment_key(self.full(experiment), part)

    def names(self, index: Sequence[bytes]) -> list[str]:
        """The members of an index that belong to this namespace, in their order, as names in it."""
        members = [member.decode() for member in index]
        if self.namespace is None:
            return members
        return [name_of(member) for member in members if namespace_of(member) == self.namespace]

    async def call(self, *command: Argument) -> Any:
        with reaching_redis():
            return await self.redis.execute_command(*command)

    async def call_many(self, commands: Sequence[Sequence[Argument]], *, transaction: bool = False) -> list[Any]:
        """Run commands in one round trip. In a transaction all or none take effect; their keys must share a slot."""
        with reaching_redis():
            async with self.redis.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()

    async def script(self, name: str, keys: Sequence[str], /, **arguments: Value) -> list[Any]:
        """Run a script whose head names its keys as `other keys`, and return what follows its 'ok'.

        keys: in the order of the head, all of one slot. Raises TypeError for keys or arguments other than those of its
        head; NotFound, Refused, Conflict, Full, Gone or Superseded as the script says.
        """
        prepared = load(name)
        prepared.check_keys(len(keys))
        return await self._run(prepared, keys, arguments)

    async def experiment_script(
        self, name: str, experiment: str, /, *, instance: str | None = None, **arguments: Value
    ) -> list[Any]:
        """Run a script on an experiment, with the keys that its head names; answers and errors as in `script`.

        instance: of the experiment that is meant; raises NotFound where that one was deleted and another one was
        created under its name.
        """
        prepared = load(name)
        if instance is not None or "instance" in prepared.names:
            arguments["instance"] = instance or ""
        return await self._run(prepared, _keys(self.full(experiment), prepared.head.keys), arguments)

    def pubsub(self) -> PubSub:
        """A connection for subscriptions; close it with `aclose`."""
        return self.redis.pubsub()

    async def _run(self, prepared: Script, keys: Sequence[str | bytes], arguments: Mapping[str, Value]) -> list[Any]:
        answer: Any
        sent = (len(keys), *keys, *prepared.pack(arguments))
        send = self._coalesced if prepared.name in _COALESCED else self.redis.execute_command
        with reaching_redis():
            try:
                answer = await send("EVALSHA", prepared.sha, *sent)
            except NoScriptError:  # a server that was started, or promoted, since has no scripts; EVAL loads this one
                answer = await self.redis.execute_command("EVAL", prepared.source, *sent)
        results = step(answer)
        if isinstance(results, StoreError):
            try:
                raise results
            finally:
                del results  # it refers to this frame: only the collector would free both, and the body that was sent
        return results


def step(answer: Sequence[Any]) -> list[Any] | StoreError:
    """The results after the 'ok' of a script, or of one of its steps. For another word, returns the exception."""
    word, *results = answer
    return _REFUSALS[word](results[0].decode()) if word in _REFUSALS else results


# Every tell and ask of an experiment needs the same names.
@lru_cache(4096)
def _keys(experiment: str, parts: tuple[str, ...]) -> list[bytes]:
    return [experiment_key(experiment, part).encode() for part in parts]
