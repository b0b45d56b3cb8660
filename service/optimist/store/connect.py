"""How this project talks to a Redis server, or to a cluster of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from hiredis import pack_command
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError, RedisClusterException

from optimist.store.cluster import Cluster
from optimist.store.lineage import Lineage
from optimist.store.store import Store

SCHEMES = ("redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")
"""What a URL that `connect` takes begins with."""
_CLUSTER = "+cluster://"
LARGE = 2**16
"""Bytes of an argument that is sent as it is rather than copied into its command."""


class _Lean(AbstractConnection):
    """A connection of redis-py (8.1) without what takes long in every command.

    Commands are packed by hiredis, as its blocking client does: in Python it takes a tenth of a tell. And a write that
    the transport takes at once is not waited for: in Python 3.11 `asyncio.wait_for` makes a task for it, and swallows a
    cancellation that comes with its end.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        if any(type(arg) is bytes and len(arg) > LARGE for arg in args):
            return super().pack_command(*args)
        # redis-py's own commands have names of two words.
        words = args[0].split() if isinstance(args[0], str) else args[:1]
        command: tuple[Any, ...] = (*words, *args[1:])
        return [pack_command(command)]  # pyright: ignore[reportArgumentType]  # declared for one argument

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        is_checked = not check_health or asyncio.get_running_loop().time() <= self.next_health_check
        if isinstance(command, bytes | str) or self._writer is None or not is_checked:
            await super().send_packed_command(command, check_health)
            return
        try:
            self._writer.writelines(command)
        except RuntimeError as error:  # uvloop's, for one that was closed
            await self.disconnect(nowait=True)
            raise ConnectionError(f"the connection to Redis is closed: {error}") from error
        if self._writer.transport.get_write_buffer_size() > LARGE:
            await super().send_packed_command((), check_health=False)


class _Pool(BlockingConnectionPool):
    """redis-py's pool (8.1), which waits for a lock and starts a timer even where a connection is free."""

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> AbstractConnection:
        if not self.can_get_connection():
            return await super().get_connection()
        connection = self.get_available_connection()
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection


def shown(url: str) -> str:
    """A URL of Redis as it may be shown or logged: without user, password and options."""
    scheme, separator, rest = url.partition("://")
    # A password that was not escaped may hold any of these, so all before the last @ goes first.
    return f"{scheme}{separator}{re.split('[?#]', rest.rpartition('@')[2])[0]}"


def connect(url: str, max_connections: int = 64, timeout: float = 10.0, lineage: Lineage | None = None) -> Redis:
    """A client for a URL of one of `SCHEMES`; it connects when first used. Close it with `aclose`.

    redis:// or rediss:// (TLS) for a server, unix:// for a socket of this machine, redis+cluster:// or
    rediss+cluster:// for any node of a Redis Cluster. Options follow as redis-py names them, such as
    rediss://host:6380?ssl_ca_certs=/etc/ca.pem.

    timeout: seconds for connecting, for one reply, and for a free connection where all are in use. A lost reply or
    connection is met by sending again, three times within about two seconds. That is safe because every script
    recognises what it has done. Values stay bytes. Raises ValueError for another kind of URL, or an unknown option.

    lineage: notes the servers that are met.
    """
    if not url.startswith(SCHEMES):
        raise ValueError(f"expected a {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]} URL of Redis")
    options: dict[str, Any] = {
        "max_connections": max_connections,
        "timeout": timeout,
        "health_check_interval": 15,
        "redis_connect_func": (lineage or Lineage()).greet,
    }
    retry = Retry(ExponentialWithJitterBackoff(base=0.1, cap=1.0), retries=3)
    try:
        if _CLUSTER in url:
            cluster = Cluster.from_url(url.replace(_CLUSTER, "://", 1), attempts=retry, **options)
            # The two classes share no ancestor, but all that the store calls.
            return cast(Redis, cluster)
        pool = _Pool.from_url(url, retry=retry, socket_timeout=timeout, socket_connect_timeout=timeout, **options)
        pool.connection_class = type("Connection", (_Lean, pool.connection_class), {})
        pool.make_connection()
    except (TypeError, RedisClusterException) as error:
        raise ValueError(f"the URL of Redis has an option that is not known: {error}") from None
    except ValueError:  # its message names what was taken for the port, which may be part of a password
        raise ValueError(
            "the URL of Redis cannot be read: expected scheme://user:password@host:port/database?options, where the "
            "password has %2F for /, %3F for ?, %23 for # and %40 for @, and options have values of their kind"
        ) from None
    return Redis.from_pool(pool)


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    """A `Store` on the server at `url`, its connections closed in the end."""
    lineage = Lineage()
    redis = connect(url, lineage=lineage)
    try:
        yield Store(redis, lineage=lineage)
    finally:
        await redis.aclose()
