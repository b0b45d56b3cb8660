"""The newest model of contexts of a dispatcher's experiment, and whether a newer one is overdue."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from optimist.experiments.goals.route import ForRouting, LoadedModel
from optimist.experiments.state import PolicyState
from optimist.records import Artefact, StoreError
from optimist.routing.answers.model import RouteModel
from optimist.store import Store

EVERY = 2.0
"""Least number of seconds between two models: a newer one is not due before."""
LARGE = 2**20
"""Bytes from which a thread reads a model."""
_log = logging.getLogger(__name__)


class RouteModels:
    """The models of one experiment, as its dispatcher sees them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[str, float] = "", 0.0
        """The newest model that a state named, and when it was first seen."""
        self._due: float | None = None
        """Since when one newer than the one that picks are made by is due; None: none is."""

    async def renew(self, state: PolicyState) -> None:
        """Read the model that a state names, unless it has been read. If that fails, picks go on by the earlier one."""
        goal, newest = state.goal, state.stored.model
        if not isinstance(goal, ForRouting) or newest is None:
            return
        if goal.loaded is not None and goal.loaded.stored.made == newest.made:
            return
        try:
            model = Artefact("model", state.config.metric.shown_label)
            found = await self._store.artefact(state.config.name, model)
            # A model newer than the state: the announcement of it has the state read again.
            if found is not None and found.made == newest.made:
                state.goal = replace(goal, loaded=LoadedModel.from_stored(newest, await _unpacked(found.payload)))
        except (StoreError, ValueError) as error:
            _log.warning("the model of contexts of %s cannot be read: %s", state.config.name, error)

    def watch(self, state: PolicyState) -> None:
        """Mark the goal as stale, or not, by how long a newer model has been due."""
        goal, stored, now = state.goal, state.stored, time.monotonic()
        if not isinstance(goal, ForRouting):
            return
        made = "" if stored.model is None else stored.model.made
        if made != self._seen[0]:
            self._seen, self._due = (made, now), None
        if made:
            is_due = goal.loaded is None or goal.loaded.stored.made != made or stored.is_model_due
        else:  # the warm-up needs no model
            is_due = stored.is_model_due and goal.has_begun(state.arms)
        if not is_due:
            self._due = None
        elif self._due is None:
            self._due = max(now, self._seen[1] + EVERY) if made else now
        is_stale = self._due is not None and now > self._due + state.max_wait
        if is_stale != goal.is_stale:
            state.goal = replace(goal, is_stale=is_stale)


async def _unpacked(packed: bytes) -> RouteModel:
    return RouteModel.unpack(packed) if len(packed) < LARGE else await asyncio.to_thread(RouteModel.unpack, packed)
