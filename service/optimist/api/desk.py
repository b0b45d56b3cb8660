"""The desk of one experiment: gathers the asks that wait and opens their picks together.

One coroutine an experiment serves all its asks in this replica: a hundred workers asking at once cost one look and one
compare-and-set, and each pick sees the ones before it as on their way. Other replicas are kept out by the
compare-and-set on the number of picks opened.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimist.api.assignment import Assignment, Opening
from optimist.api.counting import count_ask
from optimist.api.views import View
from optimist.store import AskGroup, Look, NewPick, NotFound, Store
from optimist_client.models import AskReply, AskRequest, Experiment, Pick

POLL = 0.25
"""Seconds between looks while estimates are waited for, should an announcement be lost."""
TURN_POLL = 0.005
"""Seconds between looks while another replica has the turn at opening picks."""
DRAINING = 0.5
"""Seconds after which to ask again when the whole budget, or as many picks as may be, are on their way."""


@dataclass(eq=False)
class _Ask:
    request: AskRequest
    came: float
    answer: asyncio.Future[AskReply] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    needed: list[int] | None = None
    """Log positions at which estimates were due when this ask first looked: later tells never make it wait longer."""

    def lacks(self, view: View) -> bool:
        if not view.can_be_scored:
            return False
        if self.needed is None:
            self.needed = [g.due_seq for g in view.look.generators]
        # Generators that were added since are the last ones; nobody waits for one that is out of the contest.
        generators = zip(view.look.generators, self.needed, strict=False)
        return any(g.estimate_seq < due and g.state != "retired" for g, due in generators)


class Desk:
    """Answers the asks of one experiment. `wake` when its estimates may have changed."""

    def __init__(self, store: Store, experiment: Experiment, most_open: int) -> None:
        self._store = store
        self._most_open = most_open
        self._config = experiment.config
        self._instance = experiment.instance
        self._waiting: list[_Ask] = []
        self._changed = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._who = uuid.uuid4().hex
        # Whether the last compare-and-set was lost: the next one waits for its turn.
        self._lost = False

    def wake(self) -> None:
        """Look again: something was announced."""
        self._changed.set()

    async def ask(self, request: AskRequest) -> AskReply:
        """Picks for one worker, waiting at most the experiment's `max_wait` seconds for estimates that are due."""
        named = request.model_copy(update={"request_id": request.request_id or uuid.uuid4().hex})
        ask = _Ask(named, time.monotonic())
        self._waiting.append(ask)
        self._changed.set()
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        reply = await ask.answer
        count_ask(reply)
        return reply

    async def _serve(self) -> None:
        try:
            while self._waiting:
                self._changed.clear()  # before the look: what is announced after it wakes us again
                self._waiting = [ask for ask in self._waiting if not ask.answer.done()]  # cancelled by their clients
                # Asks that come during the look need a newer one: in this one, what they just told is still open.
                asks = list(self._waiting)
                look = await self._look()
                if look is None:
                    await asyncio.sleep(TURN_POLL)
                    continue
                if look.instance != self._instance:
                    raise NotFound(f"experiment {self._config.name!r} was made again since")
                view = View(self._config, look)
                lacking = [ask.lacks(view) for ask in asks]  # of every one: at its first look it notes what it needs
                if not all(lacking):
                    # Never from estimates that are out of date, as an ask past its deadline may have to take them.
                    view = await sealed(self._store, view)
                now = time.monotonic()
                due = now - view.max_wait
                ready = asks if view.has_ended else [ask for ask in asks if not ask.lacks(view) or ask.came <= due]
                if ready:
                    await self._answer(ready, view)
                elif asks:
                    await self._sleep(min(ask.came for ask in asks) - due)
        except Exception as error:  # each ask gets the error; the next ask starts a new coroutine
            waiting, self._waiting = self._waiting, []
            for ask in waiting:
                if not ask.answer.done():
                    ask.answer.set_exception(error)

    async def _look(self) -> Look | None:
        """The store as it is, with the turn at opening picks where one is needed; None: others have it."""
        if self._lost:
            return await self._store.take_turn(self._config.name, self._who)
        return await self._store.look(self._config.name)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, POLL)):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _answer(self, ready: Sequence[_Ask], view: View) -> None:
        """Assign picks in the order of asking and open them all, or none when another replica was faster."""
        replies: dict[_Ask, list[Pick]] = {ask: [] for ask in ready}
        if not view.has_ended:
            assignment = Assignment(view, self._most_open)
            replies = {ask: assignment.answer(ask.request, ask.lacks(view)) for ask in ready}
            if assignment.openings and not await self._open(view, assignment.openings):
                return
            if assignment.returned:
                # A worker that asks again is alive.
                await self._store.renew_leases(self._config.name, assignment.returned, self._config.lease)
        for ask, picks in replies.items():
            self._waiting.remove(ask)
            if not ask.answer.done():
                waits = DRAINING if not picks and not view.has_ended else None
                ask.answer.set_result(
                    AskReply(
                        picks=picks, state=view.state, ended=view.has_ended, decision=view.decision, retry_after=waits
                    )
                )

    async def _open(self, view: View, openings: Sequence[Opening]) -> bool:
        groups: dict[str, list[NewPick]] = {}
        for opening in openings:
            groups.setdefault(opening.pick.request_id, []).append(opening.record)
        asks = [AskGroup(request_id, records) for request_id, records in groups.items()]
        opened = await self._store.open_picks(
            self._config.name, view.look.rounds, asks, self._config.lease, instance=view.look.instance, who=self._who
        )
        self._lost = opened is None
        # An ask that was repeated meanwhile has its picks already: the next look shows them.
        return opened is not None and not opened.repeated


async def sealed(store: Store, view: View) -> View:
    """The view with its decision latched, if the stopping rule says stop by it; whoever latches first decides."""
    if not view.would_stop or view.look.decision is not None:
        return view
    await store.latch_decision(view.config.name, view.live_decision.model_dump_json(), instance=view.look.instance)
    return View(view.config, await store.look(view.config.name))
