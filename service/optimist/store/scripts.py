"""Lua scripts in lua/, each with a head that declares its files, keys and arguments; and their execution.

The head is the comment lines at the top of a file:

    -- uses: prelude picks           files that come before it, in this order, each with what it uses itself
    -- keys: picks terms             parts of an experiment (`EXPERIMENT_PARTS`) that this file touches; `all` for all
    -- other keys: index             in place of these: keys that the caller passes in order; `...` for any more
    -- args: number reason names* logs*(generator seq)
                                     arguments that the caller passes by name

A line may be repeated. A script has the keys and the arguments of all the files that it consists of, as Lua locals of
these names. `name*` is a list of values, `name*(a b)` a list of tables with these fields. Every value is a string.

A script answers {'ok', results…}, or a word and a message, which become an exception here. redis-py sends a script
again if the reply was lost, so each script recognises a repeated call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import NoScriptError

from optimist.records import Conflict, Full, Gone, NotFound, NotRetractable, Refused, Retracted, StoreError, Superseded
from optimist.store.clients import Coalescer, ServerIdentity, reaching_redis
from optimist.store.keys import EXPERIMENT_PARTS, experiment_key, full_name, name_of, namespace_of

Argument = str | bytes | int | float
ScriptValue = Argument | Sequence[Argument] | Sequence[Mapping[str, Argument]]
"""Value of an argument; a mapping from field names for an item of a list of tables."""

FOLDER = Path(__file__).parent / "lua"
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
"""Short scripts that are called at the same time for many experiments."""
_HEAD = re.compile(r"-- (uses|keys|other keys|args): (.*)\n")
_ARGUMENT = re.compile(r"(\w+)(\*)?(?:\(([\w ]+)\))? ?")


@dataclass(frozen=True, slots=True)
class Head:
    """The declarations at the head of one Lua file; see the module's docstring."""

    uses: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    other_keys: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    """Arguments of one value."""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Repeated arguments with their fields; without fields they are lists of values."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script as sent: its text, its SHA-1 for Redis, and its arguments."""

    name: str
    source: str
    sha: str
    head: Head
    """The heads of all its files together."""
    names: frozenset[str]
    """Names of all its arguments."""
    _lists: tuple[tuple[str, frozenset[str], Callable[[Any], tuple[Argument, ...]] | None], ...]

    def check_keys(self, count: int) -> None:
        """Raise TypeError unless `count` is the number of keys that a caller has to pass."""
        *named, last = self.head.other_keys or ("",)
        if count < len(named) or (last != "..." and count != len(self.head.other_keys)):
            raise TypeError(f"the script {self.name}: expected the keys {' '.join(self.head.other_keys)}, got {count}")

    def pack(self, arguments: Mapping[str, Any]) -> list[Argument]:
        """The arguments in the order in which the script reads them. Raises TypeError for missing or unknown names."""
        if frozenset(arguments) != self.names:
            raise _mismatch(f"the script {self.name}", self.names, arguments)
        packed = list(map(arguments.__getitem__, self.head.scalars))
        for name, fields, values_of in self._lists:
            items = arguments[name]
            packed.append(len(items))
            if values_of is None:
                packed += items
                continue
            for item in items:
                if item.keys() != fields:
                    raise _mismatch(f"{name} of the script {self.name}", fields, item)
                packed += values_of(item)
        return packed


def head(name: str) -> Head:
    """The head of lua/<name>.lua. Raises ValueError where it cannot be read."""
    words: dict[str, list[str]] = {"uses": [], "keys": [], "other keys": []}
    scalars: list[str] = []
    lists: dict[str, tuple[str, ...]] = {}
    for kind, rest in _head_lines(name):
        if kind != "args":
            words[kind] += rest.split()
        elif re.sub(_ARGUMENT, "", rest):
            raise ValueError(f"{name}.lua: expected arguments such as `name names* logs*(generator seq)`, got {rest!r}")
        else:
            for argument, repeated, fields in _ARGUMENT.findall(rest):
                if repeated:
                    lists[argument] = tuple(fields.split())
                else:
                    scalars.append(argument)
    keys = EXPERIMENT_PARTS if words["keys"] == ["all"] else tuple(words["keys"])
    if unknown := sorted(set(keys) - set(EXPERIMENT_PARTS)):
        raise ValueError(f"{name}.lua: expected keys that are parts of an experiment, got {', '.join(unknown)}")
    return Head(tuple(words["uses"]), keys, tuple(words["other keys"]), tuple(scalars), lists)


@cache
def load(name: str) -> Script:
    """The script in lua/<name>.lua with the files that it uses, ready to be sent. Raises ValueError as `head` does."""
    files: list[str] = []
    _collect(name, files)
    heads = [head(file) for file in files]
    parts = {part for part_head in heads for part in part_head.keys}
    whole = Head(
        keys=tuple(part for part in EXPERIMENT_PARTS if part in parts),
        other_keys=heads[-1].other_keys,
        scalars=tuple(argument for part_head in heads for argument in part_head.scalars),
        lists={argument: fields for part_head in heads for argument, fields in part_head.lists.items()},
    )
    declared = [argument for part_head in heads for argument in (*part_head.scalars, *part_head.lists)]
    if len({*whole.keys, *whole.other_keys, *declared}) < len(whole.keys) + len(whole.other_keys) + len(declared):
        raise ValueError(f"{name}.lua: two of its keys and arguments, or of the files' that it uses, have one name")
    source = "\n".join((*_locals(whole), *map(text, files)))
    sha = hashlib.sha1(source.encode()).hexdigest()
    lists = tuple((argument, frozenset(fields), _values_of(fields)) for argument, fields in whole.lists.items())
    return Script(name, source, sha, whole, frozenset(declared), lists)


@cache
def text(name: str) -> str:
    """The text of lua/<name>.lua. Raises FileNotFoundError where there is none."""
    return (FOLDER / f"{name}.lua").read_text(encoding="utf-8")


def _head_lines(name: str) -> Iterator[tuple[str, str]]:
    for line in text(name).splitlines(keepends=True):
        match = _HEAD.fullmatch(line)
        if match is None:
            return
        yield match[1], match[2]


def _collect(name: str, files: list[str]) -> None:
    """Add a file, after the files that it uses, unless it is among `files`."""
    for used in head(name).uses:
        _collect(used, files)
    if name not in files:
        files.append(name)


def _locals(whole: Head) -> Iterator[str]:
    """The lines that make locals of keys and arguments."""
    keys = whole.keys or tuple(key for key in whole.other_keys if key != "...")
    if keys:
        yield f"local {', '.join(keys)} = unpack(KEYS)"
    if whole.scalars:
        yield f"local {', '.join(whole.scalars)} = unpack(ARGV, 1, {len(whole.scalars)})"
    if whole.lists:
        yield f"local {', '.join(whole.lists)} = {', '.join('{}' for _ in whole.lists)}"
        yield f"do local at = {1 + len(whole.scalars)}"
    for name, fields in whole.lists.items():
        size = len(fields) or 1
        item = ", ".join(f"{field} = ARGV[at + {offset}]" for offset, field in enumerate(fields, 1))
        yield f"for i = 1, ARGV[at] do {name}[i] = {f'{{{item}}}' if fields else 'ARGV[at + 1]'}; at = at + {size} end"
        yield "at = at + 1"
    if whole.lists:
        yield "end"


def _values_of(fields: Sequence[str]) -> Callable[[Any], tuple[Argument, ...]] | None:
    if len(fields) == 1:
        raise ValueError(f"a list of tables with the one field {fields[0]!r} is a list of values: leave the field out")
    return itemgetter(*fields) if fields else None


def _mismatch(what: str, expected: Iterable[str], arguments: Mapping[str, Any]) -> TypeError:
    missing, unknown = sorted(set(expected) - arguments.keys()), sorted(arguments.keys() - set(expected))
    return TypeError(f"{what}: missing arguments {missing}, unknown arguments {unknown}")


class Commands:
    """One Redis, with answers as bytes. Every method raises `Unavailable` when Redis cannot serve now.

    namespace: the namespace of all names; None: names are full names, of any namespace. remembered: as `settled_limit`
    of `Store`.
    """

    def __init__(
        self,
        redis: Redis,
        namespace: str | None = None,
        identity: ServerIdentity | None = None,
        remembered: int = 65_536,
    ) -> None:
        self.redis = redis
        self.namespace = namespace
        self.remembered = remembered
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

    async def text(self, *command: Argument) -> str | None:
        """The answer of a command as text; None where there is none."""
        answer = await self.call(*command)
        return None if answer is None else answer.decode()

    async def call_many(self, commands: Sequence[Sequence[Argument]], *, transaction: bool = False) -> list[Any]:
        """Run commands in one round trip. In a transaction all or none take effect; their keys must share a slot."""
        with reaching_redis():
            async with self.redis.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()

    async def script(self, name: str, keys: Sequence[str], /, **arguments: ScriptValue) -> list[Any]:
        """Run a script whose head names its keys as `other keys`, and return the items after its 'ok'.

        keys: in the order of the head, all of one slot. Raises TypeError for keys or arguments that its head does not
        name; NotFound, Refused, Conflict, Full, Gone or Superseded as the script says.
        """
        prepared = load(name)
        prepared.check_keys(len(keys))
        return await self._run(prepared, keys, arguments)

    async def experiment_script(
        self, name: str, experiment: str, /, *, instance: str | None = None, **arguments: ScriptValue
    ) -> list[Any]:
        """Run a script on an experiment, with the keys that its head names; answers and errors as in `script`.

        A script whose head names `experiment` or `remembered` gets the full name, and how much is remembered.
        instance: of the experiment that is meant; raises NotFound where that one was deleted and another one was
        created with its name.
        """
        prepared, full = load(name), self.full(experiment)
        if instance is not None or "instance" in prepared.names:
            arguments["instance"] = instance or ""
        if "experiment" in prepared.names:
            arguments["experiment"] = full
        if "remembered" in prepared.names:
            arguments.setdefault("remembered", self.remembered)
        return await self._run(prepared, _keys(full, prepared.head.keys), arguments)

    def pubsub(self) -> PubSub:
        """A connection for subscriptions; close it with `aclose`."""
        return self.redis.pubsub()

    async def _run(
        self, prepared: Script, keys: Sequence[str | bytes], arguments: Mapping[str, ScriptValue]
    ) -> list[Any]:
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
