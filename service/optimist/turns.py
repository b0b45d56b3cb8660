"""Turns at something that all share, by what each has used of it: start-time fair queueing, and turns at an event loop.

`FairShares` gives everybody a virtual time, to which their use is charged; whoever waits with the earliest one is next.
So of what is short everybody who waits gets the same, whatever the others want, and who wants less than that never
waits long. Who begins to wait has used at least as much as those served by then: nothing can be saved up.

`Turns` shares an event loop in this way: what the coroutines of each use of it is charged to them. Nothing takes the
loop away from a coroutine, so a turn is to begin something: a request, the next part of its body, or the next of the
steps of what takes long (`in_steps`). While a pass of the loop has time left, everybody begins at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

REMEMBERED = 256
"""Number of names that are remembered until names without a meaning are forgotten."""
_Result = TypeVar("_Result")
PASS = 0.002
"""Seconds of the loop's time, in one pass of it, after which who comes waits for the next pass."""
_thread = ThreadPoolExecutor(1, "aside")
"""One for all: several would only take the interpreter from one another, and from the loop."""
_for: ContextVar[tuple[Turns, str] | None] = ContextVar("for", default=None)
"""The name that a task works for, and the turns of that name."""


class FairShares:
    """The use of each, such as seconds of processors, by name."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._now = 0.0

    def used(self, who: str) -> float:
        """The virtual time of somebody who begins to wait, or waits, at this moment."""
        return max(self._used.get(who, 0.0), self._now)

    def wait(self, who: str) -> None:
        """Somebody begins to wait, with what others who wait have used at least."""
        self._used[who] = self.used(who)

    def first(self, waiting: Iterable[str]) -> list[str]:
        """All that wait, those first who have used least; of equal ones the earlier."""
        return sorted(waiting, key=lambda who: self._used.get(who, 0.0))

    def serve(self, who: str) -> None:
        """Somebody who waited is served: who comes from now on has used as much."""
        self._now = self.used(who)
        if len(self._used) > REMEMBERED:
            self._used = {name: used for name, used in self._used.items() if used > self._now or name == who}

    def charge(self, who: str, amount: float) -> None:
        """Somebody has used this much, or, where it is negative, that much less than was charged before."""
        self._used[who] = self._used.get(who, self._now) + amount


class Turns:
    """Lets those begin first that have used the least of the loop's time."""

    def __init__(self) -> None:
        self._shares = FairShares()
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

    async def metered(self, who: str, work: Coroutine[Any, Any, _Result]) -> _Result:
        """The result of a coroutine, whose time is charged, with the time of tasks that it begins with `charged`."""
        before = _for.set((self, who))
        try:
            return await charged(work)
        finally:
            _for.reset(before)

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        """The next pass begins. Whoever waits begins in it, so that who comes meanwhile may be before the others."""
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


async def charged(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of a coroutine, whose time is charged to whoever the calling task works for, if anybody."""
    turn = _for.get()
    return await (work if turn is None else _Charged(work, partial(turn[0].charge, turn[1])))


async def in_steps(work: Iterable[_Result]) -> list[_Result]:
    """The results of work, one after the other, by turns of the name that the calling task works for, if any: others
    begin as soon as the work has taken a pass of the loop."""
    made, begun = list[_Result](), time.thread_time()
    for result in work:
        made.append(result)
        if time.thread_time() - begun >= PASS:
            await asyncio.sleep(0)  # what was used by now is charged, and the next pass begins
            if (turn := _for.get()) is not None:
                await turn[0].take(turn[1])
            begun = time.thread_time()
    return made


async def aside(count: int, work: Callable[..., _Result], *arguments: object) -> _Result:
    """The result of a function of so many generators and open picks; in a thread of its own where it takes longer than
    a pass of the loop."""
    if count < 128:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)


@dataclass(frozen=True, slots=True, eq=False)
class _Charged(Generic[_Result]):
    """Awaits a coroutine step by step."""

    work: Coroutine[Any, Any, _Result]
    charge: Callable[[float], None]

    def __await__(self) -> Generator[Any, Any, _Result]:
        step: Callable[[Any], Any] = self.work.send
        sent: Any = None
        while True:
            begun = time.thread_time()
            try:
                waited = step(sent)
            except StopIteration as end:
                return end.value
            finally:
                self.charge(time.thread_time() - begun)
            step, sent = self.work.send, None
            try:
                sent = yield waited
            except BaseException as error:
                step, sent = self.work.throw, error
