"""Checks, before a process of the service starts, whether an external Redis keeps what it acknowledges."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from optimist.records import CannotStart, Unavailable
from optimist.store.clients import Cluster
from optimist.store.connect import connect
from optimist.store.reaching import reaching_redis
from optimist.store.store import check_format

_log = logging.getLogger(__name__)
_OLDEST = (6, 2)
_POLL_SECONDS = 1.0
_REMIND_SECONDS = 30.0

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


async def wait_for_server(url: str) -> None:
    """Wait until the Redis at `url` answers and is fit to serve, without a time limit.

    Raises CannotStart as `check_server` and `check_format` do, and for a URL that `connect` does not take.
    """
    try:
        redis = connect(url)
    except ValueError as error:
        raise CannotStart(str(error)) from None
    said = -_REMIND_SECONDS
    try:
        while True:
            try:
                await check_server(redis)
                return await check_format(redis)
            except Unavailable as error:
                if time.monotonic() - said >= _REMIND_SECONDS:
                    said = time.monotonic()
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
    clustered = isinstance(redis, Cluster)
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
    if tuple(map(int, re.findall(r"\d+", version))) < _OLDEST:
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
    """Why Redis cannot be reached, if the cause is the configuration and waiting does not help."""
    while error is not None:
        if isinstance(error, redis_errors.AuthenticationError | ssl.SSLCertVerificationError):
            return f"Redis cannot be reached this way: {error}"
        if "Cluster mode is not enabled" in str(error):
            return "Redis is not a cluster there: begin its URL with redis:// or rediss://"
        error = error.__cause__ or error.__context__
    return None
