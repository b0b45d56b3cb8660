"""The faults that are dealt to a running service, drawn from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .processes import Child, Deployment, RedisServer
from .proxy import Proxy

HOUR = 3600


@dataclass
class Adversary:
    """Each of `KINDS` causes one fault; most end by themselves, or because a supervisor restarts dead processes.

    `pause`: seconds for which Redis is stopped. `stop`: seconds for which a scorer is stopped, longer than its claims
    last. `kill_worker` kills the worker loop that it is given. `strike` is called with the kind at the moment of the
    fault.
    """

    random: random.Random
    redis: RedisServer
    deployment: Deployment
    front: Proxy
    back: Proxy
    workers: int
    kill_worker: Callable[[int], None]
    strike: Callable[[str], None]
    pause: float = 6.0
    stop: float = 15.0
    kinds: Sequence[str] = ()
    """The kinds that are dealt; all kinds if it is empty."""
    _mending: set[asyncio.Task[None]] = field(default_factory=set)

    def schedule(self, count: int) -> list[str]:
        """`count` kinds of faults, each equally often to within one, in an order drawn from the seed."""
        kinds = [kind for kind in self.kinds or KINDS if kind not in SHIMMED or self.redis.delay is not None]
        drawn = [kind for _ in range(count // len(kinds) + 1) for kind in self.random.sample(kinds, len(kinds))]
        return drawn[:count]

    def do(self, kind: str) -> None:
        """Cause one fault."""
        self.strike(kind)
        KINDS[kind](self)

    async def heal(self) -> None:
        """End all faults that still last."""
        for task in self._mending:
            task.cancel()
        await asyncio.gather(*self._mending, return_exceptions=True)
        for child in (*self.deployment.children, self.redis.child):
            child.resume()
        self.redis.slow_down(0.0)
        for clock in (self.redis.clock, self.deployment.clock):
            clock.set(0)
        self.front.cuts = self.back.cuts = 0

    def _kill_workers(self) -> None:
        for victim in self.random.sample(range(self.workers), 1 + self.workers // 8):
            self.kill_worker(victim)

    def _cut_replies_to_workers(self) -> None:
        self.front.cuts += self.random.randint(1, self.workers)

    def _cut_replies_of_redis(self) -> None:
        self.back.cuts += self.random.randint(1, 2 * len(self.deployment.children))

    def _slow_fsync(self) -> None:
        self.redis.slow_down(self.random.uniform(0.02, 0.2))
        self._later(self.pause, lambda: self.redis.slow_down(0.0))

    def _set_clock(self) -> None:
        """Set the clock of Redis, or of APIs and scorers, up to an hour away from the real time."""
        clock = self.random.choice((self.redis.clock, self.deployment.clock))
        clock.set(self.random.randint(-HOUR, HOUR))

    def _roll_back(self) -> None:
        """Roll back to a state of 0.2 to 4 s ago, within the retries of the services or after they have given up."""
        self.redis.roll_back(4.0 * 0.05 ** self.random.random(), self.random.choice((0.0, 3.0)))

    def _stop_for(self, child: Child, seconds: float) -> None:
        child.pause()
        self._later(seconds, child.resume)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        async def act() -> None:
            await asyncio.sleep(seconds)
            action()

        task = asyncio.create_task(act())
        self._mending.add(task)
        task.add_done_callback(self._mending.discard)

    def _one(self, children: Sequence[Child]) -> Child:
        return self.random.choice(children)


KINDS: dict[str, Callable[[Adversary], None]] = {
    "kill api": lambda it: it._one(it.deployment.apis).kill(),
    "kill scorer": lambda it: it._one(it.deployment.scorers).kill(),
    "kill redis": lambda it: it.redis.child.kill(),
    "kill workers": Adversary._kill_workers,
    "cut replies to workers": Adversary._cut_replies_to_workers,
    "cut replies of redis": Adversary._cut_replies_of_redis,
    "pause redis": lambda it: it._stop_for(it.redis.child, it.pause),
    "stop scorer": lambda it: it._stop_for(it._one(it.deployment.scorers), it.stop),
    "slow fsync": Adversary._slow_fsync,
    "roll back": Adversary._roll_back,
    "set clock": Adversary._set_clock,
}
SHIMMED = frozenset({"slow fsync", "set clock"})
"""Those that need a C compiler."""
