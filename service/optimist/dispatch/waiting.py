"""The asks and tells that wait for the dispatcher of an experiment, each with the future of its answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from optimist.experiments.goals import AskedContexts
from optimist.experiments.goals.goal import Awaited
from optimist.experiments.state import PolicyState
from optimist.records import Batch, Settled
from optimist_client.models import AskReply, AskRequest


def _pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False)
class Ask:
    """An ask that waits for its picks."""

    request: AskRequest
    key: str = ""
    """Id of the access key that asks."""
    contexts: AskedContexts | None = None
    """Those of the request."""
    came: float = field(default_factory=time.monotonic)
    answer: asyncio.Future[AskReply] = field(default_factory=_pending)
    is_planned: bool = False
    """Whether it is known what it waits for."""
    awaited: Awaited = None
    """What was due when this ask was first planned; later tells never make it wait longer."""

    def __post_init__(self) -> None:
        if self.request.request_id is None:
            self.request = self.request.model_copy(update={"request_id": uuid.uuid4().hex})

    @property
    def least(self) -> int:
        """The picks without which it is told to ask again: one, or one for each context."""
        return 1 if self.contexts is None else len(self.contexts)

    def lacks(self, state: PolicyState) -> bool:
        """Whether something that the ask waits for has not been made yet."""
        if state.can_be_scored and not self.is_planned:
            self.is_planned, self.awaited = True, state.awaited
        return state.lacks(self.awaited)

    def may_go(self, state: PolicyState) -> bool:
        """Whether the ask lacks nothing, or has waited for `max_wait`."""
        return not self.lacks(state) or self.came <= time.monotonic() - state.max_wait


@dataclass(eq=False)
class Tell:
    """A batch to be settled, and the ask sent along with it, if any."""

    batch: Batch
    then: Ask | None
    answer: asyncio.Future[Settled] = field(default_factory=_pending)


def resolve(future: asyncio.Future[Any], result: object = None, error: Exception | None = None) -> None:
    """Set the result or error of a future, unless it is done or cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
