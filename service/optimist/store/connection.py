"""Connections to a Redis server or cluster, and the check that an external Redis keeps acknowledged data."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisClusterException

from optimist.records import CannotStart, Unavailable
from optimist.store.clients import ClusterClient, Coalescer, MendedConnection, ServerIdentity, reaching_redis
from optimist.store.store import Store, check_format
from optimist_client.errors import FixError

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
"""Seconds between two attempts to reach a Redis that is waited for."""

_Execute = Callable[..., Awaitable[Any]]

_OF_FSYNC = {
    "everysec": "has appendfsync everysec: when its machine fails, what it acknowledged in the last seconds is lost",
    "no": "has appendfsync no: when its machine fails, what it acknowledged in the last half minute is lost",
    None: "does not allow CONFIG, so its appendfsync is not known: any but always may lose the last seconds when its "
    "machine fails",
}
_NO_DISK = "keeps nothing on disk: when it stops, every experiment is gone"
_DUMPS = "has no append-only file: when it crashes, what it acknowledged since its last dump is lost"
_ADVICE = "; appendonly yes with appendfsync always loses nothing"
SCHEMES = ("redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")
"""The schemes of URLs that `connect` accepts."""
_CLUSTER = "+cluster://"


async def wait_for_server(url: str) -> None:
    """Wait until the Redis at `url` answers and is fit to serve, without a time limit.

    Raises CannotStart as `check_server` and `check_format` do, and for a URL that `connect` does not take.
    """
    try:
        redis = connect(url)
    except ValueError as error:
        raise CannotStart(str(error)) from None
    warned = -math.inf
    try:
        while True:
            try:
                await check_server(redis)
                return await check_format(redis)
            except Unavailable as error:
                if time.monotonic() - warned >= 30.0:
                    warned = time.monotonic()
                    _log.warning("waiting for Redis: %s", error.__cause__)
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        await redis.aclose()


async def check_server(redis: Redis) -> None:
    """Check a server, or every master of a cluster, and log a warning of what it may lose in a crash.

    Raises CannotStart for one that forgets in silence (it evicts keys), is older than 6.2, is a cluster where a single
    server was named or the other way round, or refuses the password or its certificate; Unavailable when it cannot
    be reached now.
    """
    try:
        with reaching_redis():
            warnings = await _look(redis)
    except Unavailable as error:
        if reason := _lasting(error):
            raise CannotStart(reason) from None
        raise
    for text, servers in warnings.items():
        _log.warning("Redis at %s %s", ", ".join(servers), text)


async def _look(redis: Redis) -> dict[str, list[str]]:
    """The warnings, each with the servers that it is about."""
    servers: dict[str, _Execute]
    clustered = isinstance(redis, ClusterClient)
    if clustered:
        await redis.initialize()
        servers = {node.name: partial(redis.execute_command, target_nodes=node) for node in redis.get_primaries()}
    else:
        where = redis.connection_pool.connection_kwargs
        name = where.get("path") or f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
        servers = {name: redis.execute_command}
    warnings = defaultdict(list)
    for name, execute in servers.items():
        try:
            info = await execute("INFO")
        except redis_errors.NoPermissionError:
            warnings["does not allow INFO: could not check its version and maxmemory-policy"].append(name)
            continue
        if reason := _unfit(info, clustered):
            raise CannotStart(f"Redis at {name} {reason}")
        if text := await _may_lose(info, execute):
            warnings[text + _ADVICE].append(name)
    return warnings


def _unfit(info: dict[str, Any], clustered: bool) -> str | None:
    version = str(info.get("redis_version"))
    if tuple(map(int, re.findall(r"\d+", version))) < (6, 2):
        return f"is of version {version}: 6.2 or newer is needed"
    if info.get("cluster_enabled") and not clustered:
        return "is a node of a Redis Cluster: begin its URL with redis+cluster:// or rediss+cluster://"
    policy = info.get("maxmemory_policy", "that it does not name")
    if policy != "noeviction":
        return (
            f"has maxmemory-policy {policy}: when its memory is full it deletes experiments to make room. "
            "Set maxmemory-policy noeviction: the service then refuses batches until there is room"
        )
    return None


async def _may_lose(info: dict[str, Any], execute: _Execute) -> str | None:
    if info.get("aof_enabled"):
        return _OF_FSYNC.get(await _setting(execute, "appendfsync"))
    return _NO_DISK if await _setting(execute, "save") == "" else _DUMPS


async def _setting(execute: _Execute, name: str) -> str | None:
    """Value of a setting; None where CONFIG is not allowed, as on many managed servers."""
    try:
        return (await execute("CONFIG GET", name))[name]
    except redis_errors.ResponseError:
        return None


def _lasting(error: BaseException | None) -> str | None:
    """The reason why Redis cannot be reached, if the cause is the configuration and waiting does not help."""
    while error is not None:
        if isinstance(error, redis_errors.AuthenticationError | ssl.SSLCertVerificationError):
            return f"Redis cannot be reached this way: {error}"
        if "Cluster mode is not enabled" in str(error):
            return "Redis is not a cluster there: begin its URL with redis:// or rediss://"
        error = error.__cause__ or error.__context__
    return None


def format_url(url: str) -> str:
    """A URL of Redis without user, password and options, as it may be shown or logged."""
    scheme, separator, rest = url.partition("://")
    # An unescaped password may hold any of these characters, so everything before the last @ is removed first.
    return f"{scheme}{separator}{re.split('[?#]', rest.rpartition('@')[2])[0]}"


def connect(
    url: str, max_connections: int = 64, timeout: float = 10.0, identity: ServerIdentity | None = None
) -> Redis:
    """Return a client for a URL of one of `SCHEMES`; it connects when first used. Close it with `aclose`.

    redis:// or rediss:// (TLS) names a server, unix:// a socket of this machine, redis+cluster:// or rediss+cluster://
    any node of a Redis Cluster. Options follow as redis-py names them, such as
    rediss://host:6380?ssl_ca_certs=/etc/ca.pem.

    timeout: seconds for connecting, for one reply, and for waiting while all connections are in use. After a lost reply
    or connection, a command is sent again, three times within about two seconds. That is safe because every script
    recognises what it has done. Answers are bytes. Raises FixError for another kind of URL, or an unknown option.

    identity: records the servers that the client connects to.
    """
    if not url.startswith(SCHEMES):
        raise FixError(f"expected a {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]} URL of Redis")
    options: dict[str, Any] = {
        "max_connections": max_connections,
        "timeout": timeout,
        "health_check_interval": 15,
        "redis_connect_func": (identity or ServerIdentity()).greet,
    }
    retry = Retry(ExponentialWithJitterBackoff(base=0.1, cap=1.0), retries=3)
    try:
        if _CLUSTER in url:
            cluster = ClusterClient.from_url(url.replace(_CLUSTER, "://", 1), attempts=retry, **options)
            # The two classes have no common ancestor, but both have all that the store calls.
            return cast(Redis, cluster)
        timeouts = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
        pool = BlockingConnectionPool.from_url(url, retry=retry, **timeouts, **options)
        pool.connection_class = type("Connection", (MendedConnection, pool.connection_class), {})
        pool.make_connection()
    except (TypeError, RedisClusterException) as error:
        raise FixError(f"the URL of Redis has an option that is not known: {error}") from None
    except ValueError:  # its message names what was parsed as the port, which may be part of a password
        raise FixError(
            "the URL of Redis cannot be read: expected scheme://user:password@host:port/database?options, where the "
            "password has %2F for /, %3F for ?, %23 for # and %40 for @, and every option has a value of its type"
        ) from None
    return Coalescer.from_pool(pool)


@asynccontextmanager
async def open_store(url: str) -> AsyncGenerator[Store]:
    """Open a `Store` on the server at `url`; its connections are closed at the end of the block."""
    identity = ServerIdentity()
    redis = connect(url, identity=identity)
    try:
        yield Store(redis, identity=identity)
    finally:
        await redis.aclose()
