"""Which experiments a sweep looks at: all that are active, and a few of those that rest. No I/O."""

from __future__ import annotations

import time
from collections.abc import Collection

from optimist.records import ExperimentState

ACTIVE = 10.0
"""Seconds for which an experiment is looked at in each sweep after an announcement, or a change, was noticed."""
RESTING = 10
"""How many others a sweep looks at. The work of a scorer that has none does not depend on how many rest."""


class Rota:
    """An experiment is active from an announcement, or a change that a sweep has seen, until nothing of it is due and
    it has not changed for `ACTIVE` seconds. One that has never been seen is active, too.

    Announcements may be lost, as in a cluster, so those that rest are looked at in turn.
    """

    def __init__(self) -> None:
        self._active: dict[str, float] = {}
        """Until when, in monotonic seconds."""
        self._marks: dict[str, str] = {}
        """`ExperimentState.mark` when it was last looked at."""
        self._resting: list[str] = []
        """Those whose turn is still to come, the next one last."""

    def next(self, names: Collection[str]) -> list[str]:
        """The experiments to look at now, of all these."""
        now = time.monotonic()
        self._marks = {name: mark for name, mark in self._marks.items() if name in names}
        self._active = {name: end for name, end in self._active.items() if end > now and name in names}
        chosen = [name for name in names if name in self._active or name not in self._marks]
        if not self._resting:
            self._resting = [name for name in names if name not in self._active and name in self._marks]
        known, turn = set(chosen), self._resting[-RESTING:]
        del self._resting[-RESTING:]
        return [*chosen, *(name for name in turn if name in self._marks and name not in known)]

    def notice(self, name: str) -> None:
        """Something of an experiment was announced."""
        self._active[name] = time.monotonic() + ACTIVE

    def seen(self, name: str, state: ExperimentState, *, is_due: bool) -> None:
        """An experiment was looked at; is_due: whether anything of it has to be made."""
        known = self._marks.get(name, state.mark)
        self._marks[name] = state.mark
        if is_due or state.mark != known:
            self.notice(name)

    def forget(self) -> None:
        """Look at all experiments in the next sweep: announcements may have been missed."""
        self._marks.clear()
        self._resting.clear()
