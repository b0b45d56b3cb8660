"""What a real Redis holds of an experiment of tables, in the form of the store in memory."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from optimist.records.commits import Head
from optimist.store.keys import experiment_key
from tests.support.memory_store import Contents


async def contents_of(redis: Redis, experiment: str) -> Contents:
    """Everything but the journal. What was trimmed of logs is not there."""
    prefix = experiment_key(experiment, "")
    contents = Contents()
    for key in sorted(key.decode() for key in await redis.keys(f"{prefix}*")):
        part = key.removeprefix(prefix)
        if part == "tail":
            continue
        if part == "head":
            found = {name: text.decode() for name, text in _texts(await redis.hgetall(key)).items()}
            contents.head, contents.before = Head(int(found["seq"]), found["chain"]), found["before"]
        elif part == "config":
            contents.texts[part] = (await redis.get(key)).decode()
        elif part == "labels":
            contents.lists[part] = [label.decode() for label in await redis.lrange(key, 0, -1)]
        elif part == "history":
            contents.history = await redis.get(key)
        elif part.endswith(":order"):
            contents.orders[part.removesuffix(":order")] = [name.decode() for name in await redis.lrange(key, 0, -1)]
        elif part.startswith("log:"):
            entries = await redis.xrange(key)
            contents.logs[part] = {int(id_.partition(b"-")[0]): _entry(entry) for id_, entry in entries}
        else:
            found = _texts(await redis.hgetall(key))
            is_raw = part.endswith(":bodies")
            contents.hashes[part] = {name: body if is_raw else body.decode() for name, body in found.items()}
    contents.untrimmed = {part: dict(entries) for part, entries in contents.logs.items()}
    return contents


def _texts(found: dict[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in found.items()}


def _entry(fields: dict[bytes, bytes]) -> dict[str, Any]:
    """The fields of an entry of a log, numbers as numbers."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        text = name.decode()
        if text in ("body", "context"):
            found[text] = value
        elif text in ("pick", "rows", "bytes", "told", "retracts"):
            found[text] = int(value)
        else:
            found[text] = value.decode()
    return found


def plain(contents: Contents) -> dict[str, Any]:
    """What two stores must have in common, with the texts of numbers."""
    logs = {part: {p: _plain(e) for p, e in entries.items()} for part, entries in contents.logs.items() if entries}
    hashes = {part: rows for part, rows in contents.hashes.items() if rows}
    beside = {"lists": contents.lists, "texts": contents.texts, "history": contents.history}
    return {"hashes": hashes, "orders": contents.orders, "logs": logs, **beside}


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, bytes) else str(value) for name, value in entry.items()}
