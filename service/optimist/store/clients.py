"""redis-py's clients as this project uses them: which errors pass, which server answers, what is sent together.

After a failover, or a start from an older file, Redis may have lost its last writes. Correctness does not depend on
noticing this, because scripts compare state tokens, nonces and chained digests (architecture.md); a process that
notices it drops its data in memory at once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Self

from hiredis import pack_command
from redis import exceptions as redis_errors
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.client import PubSub
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import RedisError, ResponseError

from optimist.records import Unavailable

SLOTS = 2**14
"""Slots of a Redis Cluster."""
PROBE_LASTS = 60
"""Seconds until a probe's key expires, so that a service that is gone leaves nothing behind."""
LARGE = 2**16
"""A larger argument (bytes) is sent by itself instead of being copied into its command."""
_PASSING = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.ClusterError,
    redis_errors.SlotNotCoveredError,
    redis_errors.TryAgainError,
)
_log = logging.getLogger(__name__)
_IDS = re.compile(rb"^(?:run_id|master_replid):(\w+)", re.MULTILINE)
_UNAVAILABLE = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterError,
    redis_errors.SlotNotCoveredError,
    # Errors of a slot that is being moved to another node, or of a master that has become a replica.
    redis_errors.AskError,
    redis_errors.TryAgainError,
)
# Redis before 7 wraps the error of a command in a script into its own text, so the class is lost.
_WORDS = ("OOM command", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY")


class Outage:
    """Watches calls that a process repeats for as long as it lives."""

    def __init__(self) -> None:
        self._since: float | None = None

    @contextmanager
    def noticed(self) -> Generator[None]:
        """Take the calls in this context as the sign of whether Redis answers. Their errors are raised on."""
        try:
            yield
        except (Unavailable, RedisError) as error:
            if self._since is None:
                self._since = time.monotonic()
                _log.warning("Redis does not answer: %s", error.__cause__ or error)
            raise
        if self._since is not None:
            _log.info("Redis answers again, after %.0f s", time.monotonic() - self._since)
            self._since = None


class ServerIdentity:
    """The servers that the connections of one client have reached.

    A server has another run id after each start, and another replication id after each promotion to master.
    """

    def __init__(self) -> None:
        self._met: set[tuple[bytes, ...]] = set()
        self.incarnation = 0
        """Increases by one with each new server."""

    async def greet(self, connection: Any) -> None:
        """redis-py's `redis_connect_func`: begin a new connection, and record its server."""
        await connection.on_connect()
        await connection.send_command("INFO")
        try:
            answer = await connection.read_response()
        except ResponseError:  # this user has no permission for INFO
            return
        self._met.add(tuple(_IDS.findall(answer)))
        self.incarnation = len(self._met)


@contextmanager
def reaching_redis() -> Generator[None]:
    """Raise `Unavailable` in place of redis-py's errors when the same call may well succeed later."""
    try:
        yield
    except _UNAVAILABLE as error:
        raise Unavailable(f"Redis cannot serve now: {error}") from error
    except redis_errors.ResponseError as error:
        if any(word in str(error) for word in _WORDS):
            raise Unavailable(f"Redis cannot serve now: {error}") from error
        raise


class Coalescer(Redis):
    """redis-py's client with `coalesced`, which has a connection of its own; make it with `from_pool`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asked: list[tuple[bytes, asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._own = self.connection_pool.make_connection()

    @classmethod
    def from_pool(cls, connection_pool: ConnectionPool) -> Self:
        """A client that closes the pool."""
        return super().from_pool(connection_pool)  # pyright: ignore[reportReturnType]  # declared as its base class

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self._own.disconnect()

    async def coalesced(self, *command: Any) -> Any:
        """Run a command that is safe to repeat, with the retries and errors of `execute_command`, beside others.

        Commands of one pass of the event loop, or sent while others await their answers, share a write and a sync of
        Redis's log. No command waits longer than on its own connection, because Redis serves one after the other.
        Commands with `LARGE` arguments, which take long to arrive, are sent alone.
        """
        for argument in command:
            if type(argument) is bytes and len(argument) > LARGE:
                return await self.execute_command(*command)
        answer = asyncio.get_running_loop().create_future()
        self._asked.append((pack_command(command), answer))  # pyright: ignore[reportArgumentType]  # declared for one
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        # Commands that come while this write waits for its answers go along with the next write.
        while self._asked:
            coalesced, self._asked = self._asked, []
            try:
                await self._own.retry.call_with_retry(partial(self._exchange, coalesced), self._cut)
            except Exception as error:
                for _, answer in coalesced:
                    if not answer.done():
                        answer.set_exception(error)

    async def _exchange(self, coalesced: list[tuple[bytes, asyncio.Future[Any]]]) -> None:
        """Send the commands that have no answer yet, and read their answers."""
        # After a lost connection answered commands are not sent again; the scripts would recognise the others.
        pending = [item for item in coalesced if not item[1].done()]
        await self._own.send_packed_command([packed for packed, _ in pending])
        for _, answer in pending:
            try:
                reply, error = await self._own.read_response(), None
            except ResponseError as refused:  # of this command alone
                reply, error = None, refused
            if answer.done():  # whoever asked has gone away; the answer had to be read all the same
                continue
            if error is None:
                answer.set_result(reply)
            else:
                answer.set_exception(error)

    async def _cut(self, error: Exception) -> None:
        await self._own.disconnect(error=error)


class MendedConnection(AbstractConnection):
    """A connection of redis-py (8.1) that knows how uvloop says that a transport is closed, and that does not swallow a
    cancellation which arrives as a write ends, as `asyncio.wait_for` does in Python 3.11."""

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        task = asyncio.current_task()
        cancelled = 0 if task is None else task.cancelling()
        try:
            await super().send_packed_command(command, check_health)
        except RuntimeError as error:
            await self.disconnect(nowait=True)
            raise redis_errors.ConnectionError(f"the connection to Redis is closed: {error}") from error
        if task is not None and task.cancelling() > cancelled:
            # Otherwise the next command on this connection would read the answer to this one.
            await self.disconnect(nowait=True)
            raise asyncio.CancelledError


class ClusterClient(RedisCluster):
    """redis-py's client (8.1.0), plus pauses between attempts, a queue for connections, and recovery.

    A command is tried as often as `attempts` says, a pipeline twice.
    """

    def __init__(
        self, *, max_connections: int, timeout: float, attempts: Retry, redis_connect_func: Any, **options: Any
    ) -> None:
        super().__init__(
            # Per node: for commands, pipelines, and redis-py's own requests.
            max_connections=2 * max_connections + 8,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            # If a master is lost permanently, the slots of the others are still served.
            require_full_coverage=False,
            # A moved slot updates the map. By default every fifth such answer closes all connections, in use or not.
            reinitialize_steps=0,
            retry=Retry(ExponentialWithJitterBackoff(base=0.1, cap=1.0), retries=1),
            **options,
        )
        # Read when a node is created; the constructor does not take this option.
        self.connection_kwargs["redis_connect_func"] = redis_connect_func
        self._timeout = timeout
        # Two, because a pipeline sends redirected commands once more, one by one.
        self._connections = asyncio.Semaphore(max_connections)
        self.pipeline_connections = asyncio.Semaphore(max_connections)
        self._attempts = attempts
        self._attempts.update_supported_errors(_PASSING)  # pyright: ignore[reportArgumentType]

    async def initialize(self, *args: Any, **options: Any) -> RedisCluster:
        """Discover the nodes. Raises ConnectionError if no node answers, or if it is not a cluster."""
        try:
            return await super().initialize(*args, **options)
        except redis_errors.RedisClusterException as error:
            # No known node is left. The given address may lead to other nodes by now.
            for seed in self.startup_nodes:
                self.nodes_manager.startup_nodes.setdefault(seed.name, seed)
            # redis-py uses the same class for errors of the caller, which must not be retried.
            raise redis_errors.ConnectionError(str(error)) from error

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command, trying again as `attempts` says. Raises TimeoutError when all connections stay in use."""

        async def attempt() -> Any:
            async with self.connection(self._connections):
                return await super(ClusterClient, self).execute_command(*args, **options)

        return await self._attempts.call_with_retry(attempt, _go_on)

    async def unserved(self, key: str) -> list[int]:
        """The slots that no node accepts a write for, ascending. It writes a key "<key>:<number>" to each master.

        Raises ConnectionError if no node answers.
        """
        await self.initialize()
        left = {slot: nodes[0].name for slot, nodes in self.nodes_manager.slots_cache.items()}
        masters, written = set(left.values()), dict[str, str]()
        for number in itertools.count() if masters else ():
            written.setdefault(left.get(self.keyslot(f"{key}:{number}"), ""), f"{key}:{number}")
            if masters <= written.keys():
                break
        accept = await asyncio.gather(*(self._accepts(written[name]) for name in masters))
        served = {name for name, accepts in zip(masters, accept, strict=True) if accepts}
        return [slot for slot in range(SLOTS) if left.get(slot) not in served]

    async def _accepts(self, key: str, seconds: float = 2.0) -> bool:
        """True if a write of this key is accepted in time: sooner than the five that Kubernetes waits for `/readyz`."""
        try:
            with reaching_redis():
                async with asyncio.timeout(seconds):
                    await self.execute_command("SET", key, "1", "EX", PROBE_LASTS)
        except (Unavailable, TimeoutError):
            return False
        return True

    def pipeline(self, transaction: bool | None = None, shard_hint: None = None) -> ClusterPipeline:
        """A pipeline whose `execute` raises TimeoutError when all connections stay in use."""
        return _Pipeline(self, transaction)  # pyright: ignore[reportAbstractUsage]

    @asynccontextmanager
    async def connection(self, free: asyncio.Semaphore) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._timeout):
                await free.acquire()
        except TimeoutError:
            raise redis_errors.TimeoutError("no connection became free") from None
        try:
            yield
        except AttributeError as error:
            # When one connection fails, redis-py closes the free ones, and some that were taken meanwhile.
            raise redis_errors.ConnectionError("the connection was closed while in use") from error
        finally:
            free.release()

    def get_node(self, host: str | None = None, port: int | None = None, node_name: str | None = None) -> Any:
        """The client's node of this address. Raises TryAgainError for a node that receives a slot and holds none
        yet."""
        # redis-py would call a method of None (its issue 4015).
        node = super().get_node(host, port, node_name)
        if node is None:
            raise redis_errors.TryAgainError(f"a slot is moving to {node_name or f'{host}:{port}'}")
        return node

    def pubsub(self) -> PubSub:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A subscription at one node, another node each time: a message published anywhere reaches every node.

        The subscription has its own connection, as a change of the cluster cuts the connections of commands. Raises
        ConnectionError while no node is known.
        """
        nodes = self.get_nodes()
        if not nodes:
            raise redis_errors.ConnectionError("no node of the cluster is known")
        node = random.choice(nodes)
        settings: dict[str, Any] = {**node.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        return PubSub(ConnectionPool(node.connection_class, **settings))


class _Pipeline(ClusterPipeline):
    cluster_client: ClusterClient

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        async with self.cluster_client.connection(self.cluster_client.pipeline_connections):
            return await super().execute(*args, **options)


async def _go_on(error: Exception) -> None:
    """Do nothing between two attempts: redis-py has already marked its map of the cluster as stale."""
