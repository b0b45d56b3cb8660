"""Events of an experiment that somebody may want to be told of, wherever they are."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

from optimist.experiments.state import PolicyState

Kind = Literal["decided", "provisional", "out of budget", "idle"]
IDLE = 86_400.0
"""Seconds without a change after which an experiment that goes on is idle."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an experiment. `at`: its time, in Unix seconds."""

    kind: Kind
    at: float
    id: str
    """The same whenever, and by whatever process, the event is noticed."""


def event_of(state: PolicyState, changed: float, now: float) -> Event | None:
    """The newest event of an experiment; None while it runs, or where somebody stopped it.

    changed: when it was last changed, in Unix seconds, as `now`.
    """
    if state.is_decided:
        kind = "provisional" if state.decision.provisional else "decided"
        return _event(state, kind, changed, state.stored.decision)
    if state.is_stopped:
        return None
    if state.is_spent:
        return _event(state, "out of budget", changed, (state.budget, state.max_cost))
    if now >= changed + IDLE:
        return _event(state, "idle", changed + IDLE, state.stored.state_token)
    return None


def looked_at_again(state: PolicyState, changed: float, now: float) -> float:
    """When an experiment that does not change may have another event: a lease ends, or it becomes idle.

    Infinite: never. changed, now: as of `event_of`.
    """
    ends = min((leased.deadline for leased in state.stored.open_picks), default=math.inf)
    idle = changed + IDLE
    return min(ends, state.awaits_until, math.inf if state.has_ended or now >= idle else idle)


def _event(state: PolicyState, kind: Kind, at: float, basis: object) -> Event:
    """basis: what is different where the same happens once more."""
    told = "\n".join((state.stored.instance, kind, str(basis)))
    return Event(kind, at, hashlib.sha256(told.encode()).hexdigest()[:32])
