"""The state of experiments in Redis: bytes and JSON in, bytes and JSON out. Every transition is one script."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from optimist.records import CannotStart, Unavailable
from optimist.store import keys
from optimist.store.announcements import Announcements, announcements
from optimist.store.artefacts import Artefacts
from optimist.store.audits import StoredAudits
from optimist.store.clients import PROBE_LASTS, SLOTS, ClusterClient, ServerIdentity, reaching_redis
from optimist.store.copies import CopiedExperiments
from optimist.store.experiments import Experiments
from optimist.store.index import Index
from optimist.store.keys import COPIES, EXPERIMENTS, PROBE, WEBHOOKS, experiment_key
from optimist.store.keys import FORMAT as FORMAT_KEY
from optimist.store.logs import Logs, Snapshots
from optimist.store.messages import StoredMessages
from optimist.store.picks import Picks, StoredPreviews
from optimist.store.references import References
from optimist.store.restoration import Restorations
from optimist.store.retractions import Retractions, StoredLevels
from optimist.store.scores import Scores
from optimist.store.scripts import Commands
from optimist.store.shares import StoredShares

FORMAT = 1
"""The format that this service writes, and the only format that it reads.

Until the first tag, 1.0, it stays 1: a change of the data makes the fixture of `tests/system/compatibility` anew, and
CHANGELOG.md says so. From 1.0 on every later version opens the data that are in Redis: a change that an older service
would misread counts the format on, earlier formats are still read, and the fixture of each stays as it is.
"""


async def check_format(redis: Redis) -> None:
    """Write the format into a Redis that has none yet.

    Raises CannotStart if the data have another format; Unavailable if Redis cannot be reached now.
    """
    with reaching_redis():
        # Read first: a full Redis refuses writes, but can still be used.
        stored = await redis.execute_command("GET", keys.FORMAT)
        if stored is None and await redis.set(keys.FORMAT, FORMAT, nx=True):
            return
        stored = stored or await redis.execute_command("GET", keys.FORMAT)
    text = (stored or b"").decode(errors="replace")
    if not text.isdecimal():
        raise CannotStart(f"{keys.FORMAT} in Redis is {text!r}, not a number: are these the data of another program?")
    if int(text) != FORMAT:
        raise CannotStart(
            f"Redis holds data of format {text}, and this service knows format {FORMAT}: it would misread them. "
            "Start the version that wrote them, or a newer one"
        )


class AccessKeys:
    """The keys of every namespace, in one hash: a process that checks them reads it whole, now and then."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def put(self, id_: str, record: str) -> bool:
        """Store a new key; False if the id is taken."""
        return bool(await self._commands.call("HSETNX", keys.KEYS, id_, record))

    async def get(self, id_: str) -> str | None:
        """The record of one key, None if there is none."""
        return await self._commands.text("HGET", keys.KEYS, id_)

    async def all(self) -> dict[str, str]:
        records = await self._commands.call("HGETALL", keys.KEYS)
        # redis-py gives a dict for RESP's flat list.
        return {id_.decode(): record.decode() for id_, record in records.items()}

    async def remove(self, id_: str) -> bool:
        """Forget a key; False if there was none."""
        return bool(await self._commands.call("HDEL", keys.KEYS, id_))


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory and disk use of a Redis, and their limits, in bytes; 0 if unknown or unlimited."""

    used_bytes: int = 0
    limit_bytes: int = 0
    log_bytes: int = 0
    """Size of its append-only file."""
    is_rewriting: bool = False
    """True if Redis is rewriting this file."""


class Store(
    Experiments,
    Picks,
    Logs,
    Scores,
    Artefacts,
    Snapshots,
    StoredPreviews,
    StoredAudits,
    StoredLevels,
    Retractions,
    Restorations,
    StoredShares,
    StoredMessages,
    CopiedExperiments,
):
    """Experiments and references of one Redis; holds no state, so any number may work on the same one.

    namespace: the owner's; names are then as users know them, and no other namespace can be reached. A namespace that
    ends in `COPIES` shares the references of the namespace without it, and its experiments expire (`Copies`). Without a
    namespace, as for scorers, names are full names of any namespace, as `keys.full_name` makes them. Announcements
    always have full names.

    Every method raises `Unavailable` when Redis cannot serve, and may then be called again: the scripts recognise a
    repeated call. Methods that name an experiment raise `NotFound` if it does not exist.

    settled_limit: number of ended picks, of expired picks, and of keys of batches without a pick that are remembered,
    newest first, so that a repeat gets its answer again.
    identity: as `redis` was made with; without, `incarnation` does not grow.
    """

    def __init__(
        self,
        redis: Redis,
        settled_limit: int = 65_536,
        namespace: str | None = None,
        identity: ServerIdentity | None = None,
    ) -> None:
        self._commands = Commands(redis, namespace, identity, settled_limit)
        owner = namespace and namespace.removesuffix(COPIES)
        self._index = Index(self._commands, EXPERIMENTS, lambda full: experiment_key(full, "config"))
        self._webhooks = Index(self._commands, WEBHOOKS, lambda full: experiment_key(full, "webhook"))
        self.references = References(Commands(redis, owner, self._commands.identity))
        self.access_keys = AccessKeys(self._commands)

    def in_namespace(self, namespace: str) -> Store:
        """The store of one namespace in the same Redis, on the same connections."""
        return Store(self._commands.redis, self._commands.remembered, namespace, self._commands.identity)

    @property
    def copies(self) -> Store:
        """The store of the copies of this namespace's experiments."""
        return self.in_namespace(f"{self.namespace}{COPIES}")

    @property
    def incarnation(self) -> int:
        """Increases when Redis is another server, which may have lost its last writes: drop data in memory."""
        return self._commands.identity.incarnation

    @property
    def namespace(self) -> str | None:
        """The namespace of the experiments; None: any."""
        return self._commands.namespace

    def full_name(self, name: str) -> str:
        """The name of an experiment of this namespace in announcements."""
        return self._commands.full(name)

    async def ping(self) -> None:
        """Return when Redis answers."""
        await self._commands.call("PING")

    async def probe(self) -> list[int]:
        """The slots of a cluster that no node accepts writes for; of a single server none.

        A write, because a full server, or a new replica, still answers pings. Raises Unavailable if nothing accepts
        writes.
        """
        redis = self._commands.redis
        if not isinstance(redis, ClusterClient):
            await self._commands.call("SET", PROBE, "1", "EX", PROBE_LASTS)
            return []
        with reaching_redis():
            unserved = await redis.unserved(PROBE)
        if len(unserved) == SLOTS:
            raise Unavailable("no node of the Redis Cluster accepts writes now")
        return unserved

    async def usage(self) -> Usage:
        """The memory in use, and its limit; in a cluster, of the master with the least room."""
        redis = self._commands.redis
        with reaching_redis():
            try:
                if not isinstance(redis, ClusterClient):
                    return _usage(await redis.execute_command("INFO"))
                nodes = redis.get_primaries()
                usages = [_usage(await redis.execute_command("INFO", target_nodes=node)) for node in nodes]
            except NoPermissionError:  # as on many managed servers: without limits nothing is refused for lack of room
                return Usage()
        limited = [usage for usage in usages if usage.limit_bytes]
        return min(limited, key=lambda usage: usage.limit_bytes - usage.used_bytes, default=Usage())

    async def rewrite_log(self) -> None:
        """Make Redis rewrite its append-only file, without deleted data."""
        await self._commands.call("BGREWRITEAOF")

    async def mark_format(self) -> None:
        """Write the format into Redis again if it is missing, as after FLUSHALL under a running service."""
        if await self._commands.call("GET", FORMAT_KEY) is None:
            await self._commands.call("SET", FORMAT_KEY, FORMAT, "NX")

    def announcements(self, *channels: str) -> AbstractAsyncContextManager[Announcements]:
        """Listen to channels named in `keys`; see `announcements.announcements`."""
        return announcements(self._commands, *channels)


def _usage(info: Any) -> Usage:
    return Usage(
        used_bytes=info.get("used_memory", 0),
        limit_bytes=info.get("maxmemory", 0),
        log_bytes=info.get("aof_current_size", 0),
        is_rewriting=bool(info.get("aof_rewrite_in_progress", 0) or info.get("aof_rewrite_scheduled", 0)),
    )
