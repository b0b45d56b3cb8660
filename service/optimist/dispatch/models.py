"""The newest model of a dispatcher's experiment, and whether a newer one is overdue."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from optimist.experiments.goals.base import WithModel
from optimist.experiments.state import PolicyState
from optimist.records import Artefact, StoreError
from optimist.store import Store

EVERY = 2.0
"""Least number of seconds between two models: a newer one is not due before."""
_log = logging.getLogger(__name__)


class Models:
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
        if not isinstance(goal, WithModel) or newest is None or goal.model == newest.made:
            return
        try:
            artefact = await self._store.artefact(state.config.name, Artefact("model", state.config.metric.shown_label))
            # A model newer than the state: the announcement of it has the state read again.
            if artefact is not None and artefact.made == newest.made:
                stored = replace(newest, payload=artefact.payload)
                is_large = len(artefact.payload) >= 2**20
                state.goal = await asyncio.to_thread(goal.with_model, stored) if is_large else goal.with_model(stored)
        except (StoreError, ValueError) as error:
            _log.warning("the model of %s cannot be read: %s", state.config.name, error)

    def watch(self, state: PolicyState) -> None:
        """Mark the goal as stale, or not, by how long a newer model has been due."""
        goal, stored, now = state.goal, state.stored, time.monotonic()
        if not isinstance(goal, WithModel):
            return
        made = "" if stored.model is None else stored.model.made
        if made != self._seen[0]:
            self._seen, self._due = (made, now), None
        if made:
            is_due = goal.model != made or stored.is_model_due
        else:  # the warm-up needs no model
            is_due = stored.is_model_due and goal.has_begun(state.arms)
        if not is_due:
            self._due = None
        elif self._due is None:
            self._due = max(now, self._seen[1] + EVERY) if made else now
        is_stale = self._due is not None and now > self._due + state.max_wait
        if is_stale != goal.is_stale:
            state.goal = goal.marked(is_stale=is_stale)
