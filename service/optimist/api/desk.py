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
from dataclasses import dataclass, field, replace

import numpy as np

from optimist.api.slices import Slice, Slices
from optimist.api.views import View, make_policy
from optimist.policies import Arm
from optimist.store import AskGroup, NewPick, Store
from optimist_client.models import AskReply, AskRequest, ExperimentConfig, Pick

POLL = 0.25
"""Seconds between looks while estimates are waited for, should an announcement be lost."""
DRAINING = 0.5
"""Seconds after which to ask again when the whole budget is on its way."""


@dataclass(eq=False)
class _Ask:
    request: AskRequest
    deadline: float
    answer: asyncio.Future[AskReply] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    needed: list[int] | None = None
    """Log positions at which estimates were due when this ask first looked: later tells never make it wait longer."""

    def lacks(self, view: View) -> bool:
        if not view.can_be_scored:
            return False
        if self.needed is None:
            self.needed = [g.due_seq for g in view.look.generators]
        return any(g.estimate_seq < due for g, due in zip(view.look.generators, self.needed, strict=True))


@dataclass(frozen=True, slots=True)
class _Opening:
    """A pick, and as the store takes it."""

    pick: Pick
    record: NewPick


class Desk:
    """Answers the asks of one experiment. `wake` when its estimates may have changed."""

    def __init__(self, store: Store, config: ExperimentConfig) -> None:
        self._store = store
        self._config = config
        self._policy = make_policy(config)
        self._waiting: list[_Ask] = []
        self._changed = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Look again: something was announced."""
        self._changed.set()

    async def ask(self, request: AskRequest) -> AskReply:
        """Picks for one worker, waiting at most the experiment's `max_wait` seconds for estimates that are due."""
        named = request.model_copy(update={"request_id": request.request_id or uuid.uuid4().hex})
        ask = _Ask(named, time.monotonic() + self._config.max_wait)
        self._waiting.append(ask)
        self._changed.set()
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await ask.answer

    async def _serve(self) -> None:
        try:
            while self._waiting:
                self._changed.clear()  # before the look: what is announced after it wakes us again
                self._waiting = [ask for ask in self._waiting if not ask.answer.done()]  # cancelled by their clients
                # Asks that come during the look need a newer one: in this one, what they just told is still open.
                asks = list(self._waiting)
                view = View(self._config, await self._store.look(self._config.name))
                lacking = [ask.lacks(view) for ask in asks]  # of every one: at its first look it notes what it needs
                if not all(lacking):
                    # Never from estimates that are out of date, as an ask past its deadline may have to take them.
                    view = await sealed(self._store, view)
                now = time.monotonic()
                ready = asks if view.has_ended else [ask for ask in asks if not ask.lacks(view) or now >= ask.deadline]
                if ready:
                    await self._answer(ready, view)
                elif asks:
                    await self._sleep(min(ask.deadline for ask in asks) - now)
        except Exception as error:  # each ask gets the error; the next ask starts a new coroutine
            waiting, self._waiting = self._waiting, []
            for ask in waiting:
                if not ask.answer.done():
                    ask.answer.set_exception(error)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, POLL)):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _answer(self, ready: Sequence[_Ask], view: View) -> None:
        """Assign picks in the order of asking and open them all, or none when another replica was faster."""
        arms, ended = list(view.arms), view.has_ended
        free = None if self._config.budget is None else self._config.budget - view.samples - view.pending
        replies: dict[_Ask, list[Pick]] = {}
        opened: list[_Opening] = []
        slices = None if self._config.prompts is None else Slices(self._config, view.look.generators)
        for ask in ready:
            kept = [] if ended else _owned(ask.request, [*view.open_picks, *(opening.pick for opening in opened)])
            # A repeat gets what it had, even where that was less than it asked for.
            repeats = any(pick.request_id == ask.request.request_id for pick in kept)
            new: list[Pick] = []
            while not (ended or repeats) and len(kept) + len(new) < ask.request.count and (free is None or free > 0):
                number = view.look.rounds + len(opened) + 1
                size = self._config.batch_size if free is None else min(self._config.batch_size, free)
                chosen = self._policy.pick(arms, view.look.told, number)
                part = None if slices is None else slices.take(chosen, size)
                size = size if part is None else part.size
                free = None if free is None else free - size
                arms[chosen] = _with_pending(arms[chosen], size)
                pick = self._pick(ask, view, number, chosen, size, part)
                opened.append(_Opening(pick, NewPick(chosen, pick.model_dump_json(), *_taken(part))))
                new.append(pick)
            replies[ask] = kept + new
        if opened and not await self._open(view, opened):
            return
        for ask, picks in replies.items():
            self._waiting.remove(ask)
            if not ask.answer.done():
                waits = DRAINING if not picks and not ended else None
                ask.answer.set_result(
                    AskReply(picks=picks, state=view.state, ended=ended, decision=view.decision, retry_after=waits)
                )

    async def _open(self, view: View, openings: Sequence[_Opening]) -> bool:
        groups: dict[str, list[NewPick]] = {}
        for opening in openings:
            groups.setdefault(opening.pick.request_id, []).append(opening.record)
        asks = [AskGroup(request_id, records) for request_id, records in groups.items()]
        opened = await self._store.open_picks(self._config.name, view.look.rounds, asks, self._config.lease)
        # An ask that was repeated meanwhile has its picks already: the next look shows them.
        return opened is not None and not opened.repeated

    def _pick(self, ask: _Ask, view: View, number: int, chosen: int, size: int, part: Slice | None) -> Pick:
        return Pick(
            experiment=self._config.name,
            number=number,
            generator=self._config.generators[chosen],
            size=size,
            prompts=None if part is None else part.prompts,
            prompts_start=None if part is None else part.start,
            seed=pick_seed(self._config.seed, number),
            positions=[g.estimate_seq for g in view.look.generators],
            told=view.look.told,
            stale=ask.lacks(view),
            worker=ask.request.worker,
            request_id=ask.request.request_id or "",
            opened=time.time(),
        )


async def sealed(store: Store, view: View) -> View:
    """The view with its decision latched, if the stopping rule says stop by it; whoever latches first decides."""
    if not view.would_stop or view.look.decision is not None:
        return view
    await store.latch_decision(view.config.name, view.live_decision.model_dump_json())
    return View(view.config, await store.look(view.config.name))


def pick_seed(seed: int, number: int) -> int:
    """A 32-bit seed, distinct for each of 2³² picks of an experiment and the same whoever computes it."""
    return (int(np.random.SeedSequence(seed).generate_state(1)[0]) + number) % 2**32


def _with_pending(arm: Arm, size: int) -> Arm:
    return replace(arm, pending_samples=arm.pending_samples + size, pending_batches=arm.pending_batches + 1)


def _taken(part: Slice | None) -> tuple[int | None, int, int | None]:
    """Start, size and origin of a slice, as `NewPick` has them."""
    return (None, 0, None) if part is None else (part.start, part.size, part.again)


def _owned(request: AskRequest, picks: Sequence[Pick]) -> list[Pick]:
    """Picks that this request may have back: its worker's, or those an earlier try of the same request opened."""
    mine = [
        pick
        for pick in picks
        if pick.request_id == request.request_id or (request.worker is not None and pick.worker == request.worker)
    ]
    return mine[: request.count]
