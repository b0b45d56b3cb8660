"""Order of scoring: work that asks wait for first, namespaces by shares, short quanta not behind long ones.

Also the experiments that a sweep looks at: all active and a few resting ones. No I/O.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

from optimist.records import ExperimentState
from optimist.scoring.tasks import ScoringTask
from optimist.store import namespace_of
from optimist.turns import FairShares

ACTIVE = 15.0
"""Seconds for which an experiment is looked at in each sweep after an announcement, or a change, was noticed."""
RESTING = 10
"""Number of resting experiments in a sweep. The work of an idle scorer does not depend on how many rest."""
MAX_ACTIVE = 200
"""Maximum number of active experiments in a sweep, of this scorer's and again of the others."""
OTHERS = 10.0
"""Seconds after which an active experiment that is another scorer's is looked at again."""
AnyTask = ScoringTask[Any]
SHORT = 0.1
"""Seconds up to which a quantum counts as short."""
LONG = 2.0
"""Seconds from which a quantum counts as long, such as the decomposition of a large matrix."""
REMEMBERED = 1.0
"""Seconds after a short quantum for which a thread is kept free for the next one."""
EXPECTED = 15.0
"""Seconds after a quantum that is not long for which the next one of its experiment is expected."""
PATIENCE = 1.0
"""Seconds after which a quantum that nobody waits for begins, however many short quanta are at work."""


class SweepSchedule:
    """Choice of the experiments that a sweep looks at.

    An experiment is active from an announcement, or a change seen by a sweep, until nothing is due and it has not
    changed for `ACTIVE` seconds. A new experiment is active, too.

    Announcements may be lost, as in a cluster, so a sweep looks at resting experiments in turn. Each sweep looks at the
    scorer's own active experiments, least recently seen first, and seldom at other scorers' experiments.
    """

    def __init__(self) -> None:
        self._active: dict[str, float] = {}
        """End of activity, in monotonic seconds."""
        self._tokens: dict[str, str] = {}
        """`ExperimentState.state_token` when it was last looked at."""
        self._looked: dict[str, float] = {}
        """Time of the last look."""
        self._resting: list[str] = []
        """Resting experiments that are still to be looked at, the next one last."""

    def next(self, names: Collection[str], owns: Callable[[str], bool] = lambda _: True) -> list[str]:
        """The experiments to look at now. owns: True for an experiment of this scorer."""
        now = time.monotonic()
        self._tokens = {name: token for name, token in self._tokens.items() if name in names}
        self._looked = {name: at for name, at in self._looked.items() if name in names}
        self._active = {name: end for name, end in self._active.items() if end > now and name in names}
        chosen = self._longest_ago(name for name in names if self._is_active(name) and owns(name))
        chosen += self._longest_ago(
            name
            for name in names
            if self._is_active(name) and self._looked.get(name, -math.inf) <= now - OTHERS and not owns(name)
        )
        if not self._resting:
            self._resting = [name for name in names if name not in self._active and name in self._tokens]
        active, rested = set(chosen), self._resting[-RESTING:]
        del self._resting[-RESTING:]
        return [*chosen, *(name for name in rested if name in self._tokens and name not in active)]

    def _is_active(self, name: str) -> bool:
        return name in self._active or name not in self._tokens

    def _longest_ago(self, names: Iterable[str]) -> list[str]:
        """At most `MAX_ACTIVE` of these, least recently seen first."""
        return nsmallest(MAX_ACTIVE, names, key=lambda name: self._looked.get(name, -math.inf))

    def notice(self, name: str) -> None:
        """Make an experiment active: something of it was announced."""
        self._active[name] = time.monotonic() + ACTIVE

    def seen(self, name: str, state: ExperimentState, *, is_due: bool) -> None:
        """Record a look at an experiment; is_due: True if anything has to be made."""
        before = self._tokens.get(name, state.state_token)
        self._tokens[name], self._looked[name] = state.state_token, time.monotonic()
        if is_due or state.state_token != before:
            self.notice(name)

    def forget(self) -> None:
        """Look at all experiments in the next sweep: announcements may have been missed."""
        self._tokens.clear()
        self._resting.clear()


@lru_cache(2**15)
def owner_of(name: str, scorers: tuple[str, ...]) -> str:
    """The scorer that an experiment is of: where one comes or goes, only what it has, or had, changes hands."""
    return max(scorers, key=lambda scorer: blake2b(f"{scorer} {name}".encode(), digest_size=8).digest())


@dataclass
class _Running:
    """A task that is at work."""

    lane: _Lane
    seconds: float
    """Expected seconds of the task."""
    begun: float


class FairQueue:
    """Tasks (generators, mixtures, models of contexts) that wait for one of `threads`, or of `behind` further threads.

    Tasks that asks wait for have the `threads`. Watched metrics, models of contexts, and mixtures made on request have
    the further threads (models as many of the usual priority). These begin only while no short task of the first kind
    is at work or may begin, or once in `PATIENCE`. Within both kinds, namespaces have equal shares of the time
    (`FairShares`), a namespace's experiments take turns, and an experiment's longest-waiting task is next. One thread
    is kept free for short quanta of the first kind while any waits, and for `REMEMBERED` seconds after one. A long
    quantum begins beside another long one only if no other experiment has had a shorter quantum for `EXPECTED` seconds.
    A quantum's length is `ScoringTask.expected_seconds`; an unknown length counts as short.
    """

    def __init__(self, threads: int, behind: int = 1) -> None:
        self._deciding = _Lane(threads)
        self._others = _Lane(behind)
        self._running: dict[AnyTask, _Running] = {}
        self._last_short = -math.inf
        self._not_long: dict[str, float] = {}
        """Time of an experiment's last quantum that was not long, the latest last."""
        self._last_behind = time.monotonic()

    def add(self, task: AnyTask) -> None:
        """Add a task, which must not be waiting yet."""
        self._lane(task).add(task)

    def next(self) -> AnyTask | None:
        """Remove and return the next task, which has a thread until `end`; None if none may begin now."""
        for lane in (self._deciding, self._others):
            running, now = self._seconds(lane), time.monotonic()
            if lane is self._others and self._is_at_work and now - self._last_behind < PATIENCE:
                return None
            if len(running) < lane.threads and (task := self._next_of(lane, running)) is not None:
                self._running[task] = _Running(lane, task.expected_seconds, now)
                # Beside its threads a quantum reads the log and publishes, in some 2 ms.
                lane.shares.charge(namespace_of(task.name), 0.002 + task.expected_seconds)
                if lane is self._others:
                    self._last_behind = now
                elif task.expected_seconds < LONG:
                    self._note_not_long(task, now)
                return task
        return None

    def is_over(self, task: AnyTask) -> bool:
        """True if a task has used up its quantum, and stops as soon as it has stored something."""
        running = self._running[task]
        # Seconds. Work that no ask waits for makes way sooner.
        limit = 0.1 if running.lane is self._others else 0.25
        # Shorter where asks of another namespace wait, too.
        if running.lane is self._deciding and running.lane.is_wanted_beside(namespace_of(task.name)):
            limit = 0.02
        return time.monotonic() - running.begun > limit

    def end(self, task: AnyTask, seconds: float | None = None) -> None:
        """Free the thread of a task that `next` returned, and charge the time that it took, where that is known."""
        running = self._running.pop(task)
        if seconds is not None:
            running.lane.shares.charge(namespace_of(task.name), seconds - running.seconds)

    def remove(self, task: AnyTask) -> None:
        """Remove a task that waits."""
        for lane in (self._deciding, self._others):
            lane.short.discard(task)
            lane.other.discard(task)

    @property
    def _is_at_work(self) -> bool:
        """True if a short task that asks wait for is at work, or waits for a thread."""
        return bool(self._deciding.short) or any(seconds < SHORT for seconds in self._seconds(self._deciding))

    def _seconds(self, lane: _Lane) -> list[float]:
        """Expected seconds of each task of a lane at work."""
        return [entry.seconds for entry in self._running.values() if entry.lane is lane]

    def _lane(self, task: AnyTask) -> _Lane:
        return self._deciding if task.decides else self._others

    def _next_of(self, lane: _Lane, running: list[float]) -> AnyTask | None:
        others = [seconds for seconds in running if seconds >= SHORT]
        task = None
        if len(others) < lane.threads - (self._kept_free() if lane is self._deciding else 0):
            has_long = max(others, default=0.0) >= LONG

            def may_begin(waiting: AnyTask) -> bool:
                return not (has_long and waiting.expected_seconds >= LONG and self._expects_another(waiting.name))

            task = lane.other.pop(may_begin)
        return lane.short.pop() if task is None else task

    def _kept_free(self) -> int:
        """The number of threads that are kept free for short tasks."""
        is_wanted = bool(self._deciding.short) or time.monotonic() - self._last_short < REMEMBERED
        return 1 if is_wanted and self._deciding.threads > 1 else 0

    def _note_not_long(self, task: AnyTask, now: float) -> None:
        if 0.0 < task.expected_seconds < SHORT:
            self._last_short = now
        self._not_long.pop(task.name, None)
        self._not_long[task.name] = now
        while now - next(iter(self._not_long.values())) > EXPECTED:
            del self._not_long[next(iter(self._not_long))]

    def _expects_another(self, name: str) -> bool:
        """True if a quantum that is not long is expected of another experiment."""
        others = (at for other, at in reversed(self._not_long.items()) if other != name)
        return time.monotonic() - next(others, -math.inf) <= EXPECTED


class _Lane:
    """Tasks that wait for some of the threads, tasks with short quanta apart; with one thread in one queue."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.shares = FairShares()
        self.short = _Waiting(self.shares)
        self.other = _Waiting(self.shares) if threads > 1 else self.short

    def add(self, task: AnyTask) -> None:
        """Put a task behind the other tasks of its experiment."""
        (self.short if task.expected_seconds < SHORT else self.other).add(task)

    def is_wanted_beside(self, namespace: str) -> bool:
        """True if a task of another namespace waits."""
        return any(self.short.namespaces - {namespace}) or any(self.other.namespaces - {namespace})


class _Waiting:
    """Tasks by namespace and experiment. Experiments, and namespaces with equal shares, are in turn."""

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._waiting: dict[str, dict[str, deque[AnyTask]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def namespaces(self) -> set[str]:
        """The namespaces with tasks here."""
        return set(self._waiting)

    def add(self, task: AnyTask) -> None:
        """Put a task behind the other tasks of its experiment."""
        namespace = namespace_of(task.name)
        if namespace not in self._waiting:
            self._shares.wait(namespace)
        self._waiting.setdefault(namespace, {}).setdefault(task.name, deque()).append(task)

    def pop(self, may_begin: Callable[[AnyTask], bool] = lambda _: True) -> AnyTask | None:
        """The next task that may begin; its experiment and its namespace go to the end of their queues."""
        for namespace in self._shares.first(self._waiting):
            for tasks in self._waiting[namespace].values():
                for task in tasks:
                    if may_begin(task):
                        self._remove(task)
                        self._shares.serve(namespace)
                        return task
        return None

    def discard(self, task: AnyTask) -> None:
        """Remove a task, if present; the order of the others does not change."""
        experiments = self._waiting.get(namespace_of(task.name), {})
        tasks = experiments.get(task.name, deque())
        if task in tasks:
            tasks.remove(task)
            if not tasks:
                del experiments[task.name]
            if not experiments:
                del self._waiting[namespace_of(task.name)]

    def _remove(self, task: AnyTask) -> None:
        namespace = namespace_of(task.name)
        experiments = self._waiting.pop(namespace)
        tasks = experiments.pop(task.name)
        tasks.remove(task)
        if tasks:
            experiments[task.name] = tasks
        if experiments:
            self._waiting[namespace] = experiments
