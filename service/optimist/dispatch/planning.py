"""What the asks of one moment get: those that may go, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimist.dispatch.assignment import Assignment, MostOpen
from optimist.dispatch.state import PolicyState
from optimist.dispatch.waiting import Ask
from optimist.store import Opening
from optimist_client.models import Pick

PICKS_A_TURN = 64
"""Picks chosen in one go, unless one ask alone gets more: choosing takes processor time that others wait for."""


@dataclass(frozen=True)
class Plan:
    """What asks get: their picks, of which those of `opening` are new and `returned` were open."""

    replies: dict[Ask, list[Pick]]
    opening: Opening | None = None
    returned: Sequence[int] = ()


def planned(state: PolicyState, ready: Sequence[Ask], most_open: MostOpen, lease: float, exactly: bool) -> Plan:
    """What these asks get, in the order of asking; their picks are opened on the state, in place.

    lease: seconds for which new picks count as on their way. exactly: see `Assignment.opening`.
    """
    if state.has_ended:
        return Plan({ask: [] for ask in ready})
    assignment = Assignment(state, most_open, lease)
    replies: dict[Ask, list[Pick]] = {}
    for ask in ready:
        if assignment.opened >= PICKS_A_TURN:
            break  # the others are next
        replies[ask] = assignment.answer(ask.request, ask.lacks(state), ask.key)
    return Plan(replies, assignment.opening(exactly), assignment.returned)
