"""The state of experiments in Redis: bytes and JSON in, bytes and JSON out. Every transition is one script."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redis.asyncio import Redis

from optimist.store.announcements import Announcements, announcements
from optimist.store.commands import Commands
from optimist.store.experiments import Experiments
from optimist.store.logs import Logs
from optimist.store.picks import Picks
from optimist.store.references import References
from optimist.store.restoration import Restorations
from optimist.store.scores import Scores
from optimist.store.snapshots import Snapshots


class Store(Experiments, Picks, Logs, Scores, Snapshots, Restorations):
    """Experiments and references of one Redis; holds no state, so any number may work on the same one.

    Every method raises `Unavailable` when Redis cannot serve, and may then be called again: what was committed is
    recognised inside the scripts. Those that name an experiment raise `NotFound` if there is none.

    settled_limit: how many ended picks, expired picks, and keys of batches without a pick are remembered, the newest
    of each, so that a repeat gets its answer again.
    """

    def __init__(self, redis: Redis, settled_limit: int = 65_536) -> None:
        self._commands = Commands(redis)
        self._settled_limit = settled_limit
        self.references = References(self._commands)

    async def ping(self) -> None:
        """Return when Redis answers."""
        await self._commands.call("PING")

    def announcements(self, *channels: str) -> AbstractAsyncContextManager[Announcements]:
        """Listen to channels named in `keys`; see `announcements.announcements`."""
        return announcements(self._commands, *channels)
