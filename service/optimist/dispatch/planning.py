"""Plans the answers of the asks that are ready, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimist.dispatch.waiting import Ask
from optimist.experiments.assignment import Assignment, MostOpen
from optimist.experiments.state import PolicyState
from optimist.records import Opening
from optimist_client.models import Pick

PICKS_A_TURN = 64
"""Picks chosen in one round, unless one ask alone gets more: choosing blocks the event loop."""


@dataclass(frozen=True)
class Plan:
    """The picks for each ask. Those of `opening` are new; those numbered in `returned` were open already."""

    replies: dict[Ask, list[Pick]]
    opening: Opening | None = None
    returned: Sequence[int] = ()
    is_fresh: bool = False
    """Whether the state was just read that it was made from."""


def planned(state: PolicyState, ready: Sequence[Ask], most_open: MostOpen, lease: float, exactly: bool) -> Plan:
    """Plan the answers of these asks, in order. Their picks are opened on the state, in place.

    lease: seconds for which new picks count as open. exactly: see `Assignment.opening`.
    """
    if state.has_ended:
        return Plan({ask: [] for ask in ready}, is_fresh=not exactly)
    assignment = Assignment(state, most_open, lease)
    replies: dict[Ask, list[Pick]] = {}
    for ask in ready:
        if assignment.opened >= PICKS_A_TURN:
            break  # the others are answered in the next round
        is_stale = ask.lacks(state) or state.goal.is_stale
        replies[ask] = assignment.answer(ask.request, is_stale, ask.key, ask.contexts)
    return Plan(replies, assignment.opening(exactly), assignment.returned, is_fresh=not exactly)
