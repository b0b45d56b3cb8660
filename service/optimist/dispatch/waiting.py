"""The asks and tells that wait for the dispatcher of an experiment, each with the future of its answer; and the plan of
the answers of asks that are ready, one after the other.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimist.experiments.assignment import Assignment, MostOpen
from optimist.experiments.goals.asked import AskedContexts
from optimist.experiments.goals.base import Pending
from optimist.experiments.state import PolicyState
from optimist.records import Batch, Opening, Settled
from optimist.turns import in_steps
from optimist_client.models import AskReply, AskRequest, Pick, WaitReason


@dataclass(frozen=True)
class PlannedAnswers:
    """The picks for each ask. Picks of `opening` are new; the ones numbered in `returned` were open already."""

    replies: dict[Ask, list[Pick]]
    opening: Opening | None = None
    returned: Sequence[int] = ()
    lacked: Mapping[Ask, WaitReason | None] = field(default_factory=dict)
    """Why asks got fewer picks than they asked for."""
    is_fresh: bool = False
    """Whether the state was just read that it was made from."""


async def planned(
    state: PolicyState, ready: Sequence[Ask], most_open: MostOpen, exactly: bool, max_picks: int = 64
) -> PlannedAnswers:
    """Plan the answers of these asks, in order, in steps. Their picks are opened on the state, in place.

    exactly: see `Assignment.opening`. max_picks: of one round, unless one ask alone gets more: those who asked first
    need not wait for all others.
    """
    if state.has_ended:
        return PlannedAnswers({ask: [] for ask in ready}, is_fresh=not exactly)
    assignment = Assignment(state, most_open)
    replies: dict[Ask, list[Pick]] = {}
    lacked: dict[Ask, WaitReason] = {}
    for ask in ready:
        if assignment.opened >= max_picks:
            break  # the others are answered in the next round
        is_stale = ask.waits_for(state) is not None or state.goal.is_stale
        replies[ask] = await in_steps(assignment.answer(ask.request, is_stale, ask.key, ask.contexts))
        if assignment.lacked is not None:
            lacked[ask] = assignment.lacked
    return PlannedAnswers(replies, assignment.opening(exactly), assignment.returned, lacked, is_fresh=not exactly)


@dataclass(eq=False)
class Ask:
    """An ask that waits for its picks."""

    request: AskRequest
    key: str = ""
    """Id of the access key that asks."""
    contexts: AskedContexts | None = None
    """Contexts of the request."""
    came: float = field(init=False)
    answer: asyncio.Future[AskReply] = field(default_factory=asyncio.Future)
    waited_for: WaitReason | None = None
    """What it has waited for last, if for anything."""
    is_noted: bool = False
    """Whether `pending` says what it waits for."""
    pending: Pending = None
    """What was due when this ask was first planned; later tells never make it wait longer."""

    def __post_init__(self) -> None:
        self.came = time.monotonic()
        # With an id a script recognises a repeat of the exchange, and opens no second picks.
        if self.request.request_id is None:
            self.request = self.request.model_copy(update={"request_id": uuid.uuid4().hex})

    @property
    def least(self) -> int:
        """The number of picks below which the worker is told to ask again: one, or one for each context."""
        return 1 if self.contexts is None else len(self.contexts)

    def waits_for(self, state: PolicyState) -> WaitReason | None:
        """What the ask waits for that has not been made yet."""
        if state.can_be_scored and not self.is_noted:
            self.is_noted, self.pending = True, state.goal.pending(state.stored)
        return state.waits_for(self.pending, self.request.generators)

    def may_go(self, state: PolicyState) -> bool:
        """Whether it need not wait any longer: nothing is pending, `max_wait` is over, the experiment has ended, or a
        decision waits for picks that this worker gets again."""
        reason = self.waits_for(state)
        self.waited_for = reason or self.waited_for
        if reason is None or self.came <= time.monotonic() - state.max_wait or state.has_ended:
            return True
        return state.is_held and bool(state.open_picks.owned(self.request, self.contexts is not None))


@dataclass(eq=False)
class Tell:
    """A batch to be settled, and the ask sent along with it, if any."""

    batch: Batch
    then: Ask | None
    answer: asyncio.Future[Settled] = field(default_factory=asyncio.Future)


def resolve(future: asyncio.Future[Any], result: object = None, error: Exception | None = None) -> None:
    """Set the result or error of a future, unless it is done or cancelled."""
    if future.done():  # cancelled: its client has gone away
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
