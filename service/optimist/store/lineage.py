"""Which server answers: after a failover or a start from an older file, Redis may have lost its last writes.

Nothing that is right depends on this: scripts compare marks, nonces and chained digests (architecture.md). It tells a
process at once to drop what it holds in memory.
"""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import ResponseError

_IDS = re.compile(rb"^(?:run_id|master_replid):(\w+)", re.MULTILINE)


class Lineage:
    """The servers that the connections of one client have met.

    A server has another run id after each start, and another replication id after each promotion to master.
    """

    def __init__(self) -> None:
        self._met: set[tuple[bytes, ...]] = set()

    @property
    def epoch(self) -> int:
        """Grows by one with each server that was not met before."""
        return len(self._met)

    async def greet(self, connection: Any) -> None:
        """redis-py's `redis_connect_func`: begin a new connection, and note who is at its other end."""
        await connection.on_connect()
        await connection.send_command("INFO")
        try:
            answer = await connection.read_response()
        except ResponseError:  # this user may not ask
            return
        self._met.add(tuple(_IDS.findall(answer)))
