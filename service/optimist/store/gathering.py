"""A client of one Redis server that sends what is asked for at the same time together, in one write."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from hiredis import pack_command
from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import ResponseError

LARGE = 2**16
"""A larger argument (bytes) is sent by itself instead of being copied into its command."""


class Gathering(Redis):
    """redis-py's client with `gathered`, which has a connection of its own; make it with `from_pool`."""

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
        """As redis-py's."""
        await super().aclose(close_connection_pool)
        await self._own.disconnect()

    async def gathered(self, *command: Any) -> Any:
        """As `execute_command`, with the same retries and errors, for commands that are safe to repeat.

        Those that come in one turn of the event loop, or while others await their answers, share a write and a sync of
        Redis's log. They need not wait longer than on connections of their own, because Redis serves one after the
        other; only those with `LARGE` arguments, which take long to arrive, do not go with others.
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
        while self._asked:
            gathered, self._asked = self._asked, []
            try:
                await self._own.retry.call_with_retry(lambda: self._exchange(gathered), self._cut)  # noqa: B023
            except Exception as error:
                for _, answer in gathered:
                    if not answer.done():
                        answer.set_exception(error)

    async def _exchange(self, gathered: list[tuple[bytes, asyncio.Future[Any]]]) -> None:
        """Send the commands that have no answer yet, and read their answers."""
        left = [one for one in gathered if not one[1].done()]
        await self._own.send_packed_command([packed for packed, _ in left])
        for _, answer in left:
            try:
                found, error = await self._own.read_response(), None
            except ResponseError as refused:  # of this command alone
                found, error = None, refused
            if answer.done():
                continue
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

    async def _cut(self, error: Exception) -> None:
        await self._own.disconnect(error=error)
