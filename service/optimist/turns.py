"""Turns at an event loop, by start-time fair queueing: what the coroutines of each use of it is charged to them.

Nothing takes the loop away from a coroutine, so a turn is to begin something: a request, or to read the next part of
its body. While a pass of the loop has time left, everybody begins at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from optimist.shares import Shares

Result = TypeVar("Result")
PASS = 0.002
"""Seconds of the loop's time, in one pass of it, after which who comes waits for the next pass."""
_charge: ContextVar[Callable[[float], None] | None] = ContextVar("charge", default=None)


class Turns:
    """Lets those begin first that have used the least of the loop's time."""

    def __init__(self) -> None:
        self._shares = Shares()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._spent = 0.0
        self._is_counting = False

    def charge(self, who: str, seconds: float) -> None:
        """Somebody has used the loop for this long."""
        self._shares.charge(who, seconds)
        self._spent += seconds
        self._count()

    async def take(self, who: str) -> None:
        """Wait until it is somebody's turn: at once while there is time left, and nobody waits."""
        if not self._waiting and self._spent < PASS:
            self._shares.serve(who)
            return
        if who not in self._waiting:
            self._shares.wait(who)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._count()
        await turn

    async def metered(self, who: str, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine, whose time, and that of tasks which it begins with `charged`, is charged."""
        before = _charge.set(lambda seconds: self.charge(who, seconds))
        try:
            return await charged(work)
        finally:
            _charge.reset(before)

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        """The next pass begins. One that waits begins in it, so that who comes meanwhile may be before the others."""
        self._spent, self._is_counting = 0.0, False
        if self._waiting:
            self._begin(self._shares.first(self._waiting)[0])
            self._count()

    def _begin(self, who: str) -> None:
        # Behind the others with an equal share.
        turns = self._waiting.pop(who)
        turn = turns.popleft()
        if turns:
            self._waiting[who] = turns
        if not turn.done():  # not cancelled
            self._shares.serve(who)
            turn.set_result(None)


async def charged(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, whose time is charged to whoever the calling task works for, if anybody."""
    charge = _charge.get()
    return await (work if charge is None else _Charged(work, charge))


class _Charged(Generic[Result]):
    """Awaits a coroutine step by step."""

    def __init__(self, work: Coroutine[Any, Any, Result], charge: Callable[[float], None]) -> None:
        self._work = work
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, Result]:
        step: Callable[[Any], Any] = self._work.send
        sent: Any = None
        while True:
            begun = time.thread_time()
            try:
                waited = step(sent)
            except StopIteration as end:
                return end.value
            finally:
                self._charge(time.thread_time() - begun)
            step, sent = self._work.send, None
            try:
                sent = yield waited
            except BaseException as error:
                step, sent = self._work.throw, error
