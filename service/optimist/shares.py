"""Start-time fair queueing: who is next, by what each has used of something that they share. No I/O.

Everybody has a virtual time, which what they use is charged to; whoever waits with the earliest one is next. So of what
is short everybody who waits gets the same, whatever the others want, and who wants less than that never waits long.
Who begins to wait has used at least as much as those served by then: nothing can be saved up.
"""

from __future__ import annotations

from collections.abc import Iterable

REMEMBERED = 256
"""How many are remembered until those are forgotten whose use no longer says anything."""


class Shares:
    """What each has used, such as seconds of processors, by name."""

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
            self._used = {one: used for one, used in self._used.items() if used > self._now or one == who}

    def charge(self, who: str, amount: float) -> None:
        """Somebody has used this much, or, where it is negative, that much less than was charged before."""
        self._used[who] = self._used.get(who, self._now) + amount
