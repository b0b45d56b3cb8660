"""What waits for the dispatcher of an experiment: asks and tells, each with its answer to come."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from optimist.dispatch.state import PolicyState
from optimist.store import Batch, Settled
from optimist_client.models import AskReply, AskRequest


def _pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False)
class Ask:
    """An ask that waits for its picks."""

    request: AskRequest
    key: str = ""
    """Id of the access key that asks."""
    came: float = field(default_factory=time.monotonic)
    answer: asyncio.Future[AskReply] = field(default_factory=_pending)
    needed: list[int] | None = None
    """Log positions at which estimates were due when this ask was first planned for: later tells never make it wait
    longer."""

    def __post_init__(self) -> None:
        if self.request.request_id is None:
            self.request = self.request.model_copy(update={"request_id": uuid.uuid4().hex})

    def lacks(self, state: PolicyState) -> bool:
        """Whether an estimate that it waits for is still to be made."""
        if not state.can_be_scored:
            return False
        if self.needed is None:
            self.needed = [g.due_seq for g in state.stored.generators]
        # Generators that were added since are the last ones; nobody waits for one that is out of the contest, nor for
        # an estimate of batches that Redis has lost.
        generators = zip(state.stored.generators, self.needed, strict=False)
        return any(g.estimate_seq < min(due, g.due_seq) and g.state != "retired" for g, due in generators)

    def may_go(self, state: PolicyState) -> bool:
        """Whether it has waited enough: for its estimates, or for `max_wait`."""
        return not self.lacks(state) or self.came <= time.monotonic() - state.max_wait


@dataclass(eq=False)
class Tell:
    """A batch to be settled, and the ask that came with it."""

    batch: Batch
    then: Ask | None
    answer: asyncio.Future[Settled] = field(default_factory=_pending)


def resolve(future: asyncio.Future[Any], result: object = None, error: Exception | None = None) -> None:
    """Set what a future comes to, unless nobody waits for it any longer."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
