"""Threads that a scorer computes in: of the usual priority for work that asks depend on, and of low priority."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar, TypeVarTuple

from optimist.metrics.threads import limit_threads
from optimist.process import stay_behind

Arguments = TypeVarTuple("Arguments")
Computed = TypeVar("Computed")


class InThread(Protocol):
    """Runs numerics off the event loop."""

    def __call__(self, function: Callable[[*Arguments], Computed], *arguments: *Arguments) -> asyncio.Future[Computed]:
        """An awaitable of the function's result."""
        ...


@dataclass(slots=True)
class Work:
    """The work of one quantum."""

    is_ahead: bool
    """True if asks wait for the result or are answered by it: the threads have the usual priority."""
    seconds: float = 0.0
    """Processor time so far."""


class Threads:
    """Runs functions off the event loop, in the threads of the quantum that they belong to; each computes on one core.

    The last bits of an estimate depend on how many threads compute it together.
    """

    def __init__(self, deciding: int, behind: int) -> None:
        self.pools = {
            # Room for routes, too, which count among the others.
            True: ThreadPoolExecutor(deciding + behind, "scorer", limit_threads, (1,)),
            False: ThreadPoolExecutor(behind, "behind", _begin_behind),
        }
        self._work: ContextVar[Work] = ContextVar("work")

    @contextmanager
    def working(self, work: Work) -> Generator[None]:
        """Count this asyncio task's computations in the block towards `work`."""
        before = self._work.set(work)
        try:
            yield
        finally:
            self._work.reset(before)

    def __call__(self, function: Callable[[*Arguments], Computed], *arguments: *Arguments) -> asyncio.Future[Computed]:
        """Run a function in a thread of the quantum that the calling asyncio task works at."""
        work = self._work.get()
        return asyncio.get_running_loop().run_in_executor(
            self.pools[work.is_ahead], _returned, work, function, *arguments
        )

    def end(self) -> None:
        """Begin no further function; running functions continue."""
        for pool in self.pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_behind() -> None:
    limit_threads(1)
    stay_behind()


def _returned(work: Work, function: Callable[[*Arguments], Computed], *arguments: *Arguments) -> Computed:
    """The result of a function. A StopIteration would leave who awaits it waiting for ever: no future can have one."""
    begun = time.thread_time()
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError(f"{function} has stopped an iteration") from error
    finally:
        work.seconds += time.thread_time() - begun
