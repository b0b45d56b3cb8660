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

from optimist.store.clients import LARGE, Cluster, Gathering
from optimist.store.reaching import Lineage
from optimist.store.store import Store
from optimist_client.errors import FixError

SCHEMES = ("redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")
"""The schemes of URLs that `connect` accepts."""
_CLUSTER = "+cluster://"


class _Lean(AbstractConnection):
    """A connection of redis-py (8.1) that saves processor time in every command.

    hiredis packs the commands, as in redis-py's blocking client; redis-py's asyncio client packs them in Python. A
    write that the transport accepts at once is not awaited: in Python 3.11 `asyncio.wait_for` makes a task for each
    write, and swallows a cancellation that arrives as it ends. Together with `_Pool` this saves about 8 % of the
    service's processor time for a round.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        if any(type(arg) is bytes and len(arg) > LARGE for arg in args):
            return super().pack_command(*args)
        # redis-py passes names of two words, such as CONFIG GET, as one.
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
        except RuntimeError as error:  # what uvloop raises for a closed transport
            await self.disconnect(nowait=True)
            raise ConnectionError(f"the connection to Redis is closed: {error}") from error
        if self._writer.transport.get_write_buffer_size() > LARGE:
            await super().send_packed_command((), check_health=False)


class _Pool(BlockingConnectionPool):
    """redis-py's pool (8.1) without the lock and the timer that it uses even when a connection is free."""

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
    """A URL of Redis without user, password and options, as it may be shown or logged."""
    scheme, separator, rest = url.partition("://")
    # An unescaped password may hold any of these characters, so everything before the last @ is removed first.
    return f"{scheme}{separator}{re.split('[?#]', rest.rpartition('@')[2])[0]}"


def connect(url: str, max_connections: int = 64, timeout: float = 10.0, lineage: Lineage | None = None) -> Redis:
    """Return a client for a URL of one of `SCHEMES`; it connects when first used. Close it with `aclose`.

    redis:// or rediss:// (TLS) names a server, unix:// a socket of this machine, redis+cluster:// or rediss+cluster://
    any node of a Redis Cluster. Options follow as redis-py names them, such as
    rediss://host:6380?ssl_ca_certs=/etc/ca.pem.

    timeout: seconds for connecting, for one reply, and for waiting while all connections are in use. After a lost reply
    or connection, a command is sent again, three times within about two seconds. That is safe because every script
    recognises what it has done. Answers are bytes. Raises FixError for another kind of URL, or an unknown option.

    lineage: records the servers that the client connects to.
    """
    if not url.startswith(SCHEMES):
        raise FixError(f"expected a {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]} URL of Redis")
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
            # The two classes have no common ancestor, but both have all that the store calls.
            return cast(Redis, cluster)
        pool = _Pool.from_url(url, retry=retry, socket_timeout=timeout, socket_connect_timeout=timeout, **options)
        pool.connection_class = type("Connection", (_Lean, pool.connection_class), {})
        pool.make_connection()
    except (TypeError, RedisClusterException) as error:
        raise FixError(f"the URL of Redis has an option that is not known: {error}") from None
    except ValueError:  # its message names what was parsed as the port, which may be part of a password
        raise FixError(
            "the URL of Redis cannot be read: expected scheme://user:password@host:port/database?options, where the "
            "password has %2F for /, %3F for ?, %23 for # and %40 for @, and every option has a value of its type"
        ) from None
    return Gathering.from_pool(pool)


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    """Open a `Store` on the server at `url`; its connections are closed at the end of the block."""
    lineage = Lineage()
    redis = connect(url, lineage=lineage)
    try:
        yield Store(redis, lineage=lineage)
    finally:
        await redis.aclose()
