"""Detects a change of server: after a failover or a start from an older file, Redis may have lost its last writes.

Correctness does not depend on this, because scripts compare marks, nonces and chained digests (architecture.md). It
makes a process drop at once what it holds in memory.
"""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import ResponseError

_IDS = re.compile(rb"^(?:run_id|master_replid):(\w+)", re.MULTILINE)


class Lineage:
    """The servers that the connections of one client have reached.

    A server has another run id after each start, and another replication id after each promotion to master.
    """

    def __init__(self) -> None:
        self._met: set[tuple[bytes, ...]] = set()

    @property
    def epoch(self) -> int:
        """Increases by one with each new server."""
        return len(self._met)

    async def greet(self, connection: Any) -> None:
        """redis-py's `redis_connect_func`: begin a new connection, and record its server."""
        await connection.on_connect()
        await connection.send_command("INFO")
        try:
            answer = await connection.read_response()
        except ResponseError:  # this user has no permission for INFO
            return
        self._met.add(tuple(_IDS.findall(answer)))
