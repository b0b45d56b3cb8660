"""The dispatcher of one experiment: takes its tells, gathers the asks that wait, and opens their picks together.

One coroutine for each experiment serves all its workers in this replica. It is one loop with one store call:
gather the waiting tells and asks, plan picks, `Store.exchange`, reply or sleep. A hundred workers that tell and ask at
once cost one round trip to Redis, and each pick counts the ones before it as open.

The dispatcher keeps one state of the experiment and applies its own steps to it in place. As long as nobody else
changes anything, that is the state in the store, and picks are planned from it; the store opens them only if its
version and state token say so. Otherwise, and for every answer other than new picks, the state is read again: picks
planned from a state just read are opened unless other picks were opened meanwhile. A replica whose picks
were refused takes the opening lock along with the state. While a replica has the lock, no other opens picks.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimist.dispatch.models import Models
from optimist.dispatch.states import state_of, want_answers, with_decision_latched
from optimist.experiments.assignment import Assignment, PickLimits
from optimist.experiments.goals.asked import AskedContext
from optimist.experiments.goals.base import Pending, WithModel
from optimist.experiments.state import PolicyState
from optimist.insight.metrics import count_ask
from optimist.records import (
    Artefact,
    Exchanged,
    ExperimentState,
    Instant,
    NotFound,
    Opening,
    PickBatch,
    Settled,
    StoreError,
    Unavailable,
)
from optimist.store import CachedState, Store
from optimist.turns import charged, in_steps
from optimist_client.models import AskReply, AskRequest, Experiment, Pick, WaitReason

DRAINING = 0.5
"""Seconds after which to ask again when open picks use up the budget, or when no more picks may be open."""


@dataclass(frozen=True)
class PlannedAnswers:
    """The picks for each ask. Picks of `opening` are new; the ones numbered in `returned` were open already."""

    replies: dict[WaitingAsk, list[Pick]]
    opening: Opening | None = None
    returned: Sequence[int] = ()
    lacked: Mapping[WaitingAsk, WaitReason | None] = field(default_factory=dict)
    """The reasons why asks got fewer picks than they asked for."""
    is_fresh: bool = False
    """True if it was made from a state that was just read."""


async def planned(
    state: PolicyState, ready: Sequence[WaitingAsk], pick_limits: PickLimits, exactly: bool, max_picks: int = 64
) -> PlannedAnswers:
    """Plan the answers of these asks, in order, in steps. Their picks are opened on the state, in place.

    exactly: see `Assignment.opening`. max_picks: of one round, unless one ask alone gets more: those who asked first
    need not wait for all others.
    """
    if state.has_ended:
        return PlannedAnswers({ask: [] for ask in ready}, is_fresh=not exactly)
    assignment = Assignment(state, pick_limits)
    replies: dict[WaitingAsk, list[Pick]] = {}
    lacked: dict[WaitingAsk, WaitReason] = {}
    for ask in ready:
        if assignment.opened >= max_picks:
            break  # the others are answered in the next round
        is_stale = ask.waits_for(state) is not None or state.goal.is_stale
        replies[ask] = await in_steps(assignment.answer(ask.request, is_stale, ask.key, ask.contexts))
        if assignment.lacked is not None:
            lacked[ask] = assignment.lacked
    return PlannedAnswers(replies, assignment.opening(exactly), assignment.returned, lacked, is_fresh=not exactly)


@dataclass(eq=False)
class WaitingAsk:
    """An ask that waits for its picks."""

    request: AskRequest
    key: str = ""
    """Id of the access key that asks."""
    contexts: Sequence[AskedContext] | None = None
    """Contexts of the request."""
    came: float = field(init=False)
    answer: asyncio.Future[AskReply] = field(default_factory=asyncio.Future)
    waited_for: WaitReason | None = None
    """The last reason to wait, if there was one."""
    is_noted: bool = False
    """True if `pending` is set."""
    pending: Pending = None
    """Everything that was due when this ask was first planned; later tells never make it wait longer."""

    def __post_init__(self) -> None:
        self.came = time.monotonic()
        # With an id a script recognises a repeat of the exchange, and opens no second picks.
        if self.request.request_id is None:
            self.request = self.request.model_copy(update={"request_id": uuid.uuid4().hex})

    @property
    def min_picks(self) -> int:
        """The number of picks below which the worker is told to ask again: one, or one for each context."""
        return 1 if self.contexts is None else len(self.contexts)

    def waits_for(self, state: PolicyState) -> WaitReason | None:
        """The reason to wait for something that has not been made yet; None without one."""
        if state.can_be_scored and not self.is_noted:
            self.is_noted, self.pending = True, state.goal.pending(state.stored)
        return state.waits_for(self.pending, self.request.generators)

    def may_go(self, state: PolicyState) -> bool:
        """True if it need not wait any longer: nothing is pending, `max_wait` is over, the experiment has ended, or a
        decision waits for picks that this worker gets again."""
        reason = self.waits_for(state)
        self.waited_for = reason or self.waited_for
        if reason is None or self.came <= time.monotonic() - state.max_wait or state.has_ended:
            return True
        return state.is_held and bool(state.open_picks.owned(self.request, self.contexts is not None))


@dataclass(eq=False)
class WaitingTell:
    """A batch to be settled, and the ask sent along with it, if any."""

    batch: PickBatch
    then: WaitingAsk | None
    answer: asyncio.Future[Settled] = field(default_factory=asyncio.Future)


def resolve(future: asyncio.Future[Any], result: object = None, error: Exception | None = None) -> None:
    """Set the result or error of a future, unless it is done or cancelled."""
    if future.done():  # cancelled: its client has gone away
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Dispatcher:
    """Serves one experiment. `wake` it when its estimates may have changed."""

    def __init__(self, store: Store, experiment: Experiment, pick_limits: PickLimits) -> None:
        self.info = experiment
        self.called = 0.0
        """Time of the last call, on the clock of `time.monotonic`; kept by the caller."""
        self._store = store
        self._pick_limits = pick_limits
        self._config = experiment.config
        self._tells: list[WaitingTell] = []
        self._waiting: list[WaitingAsk] = []
        self._changed = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._who = uuid.uuid4().hex
        self._models = None if experiment.model_growth is None else Models(store)
        self._state: PolicyState | None = None
        self._instant: Instant | None = None
        """Instant at which `_state` was equal to the stored state, except for `_touched` (`CachedState.touched`)."""
        self._touched: set[int | str] = set()
        self._known_in: int | None = None
        """The incarnation of the store in which `_state` equals its state, as far as is known; None: it differs."""
        self._locked_out_since: float | None = None
        """Since when other replicas have had the opening lock; None: they do not."""
        self._refusing_until = 0.0
        """Until then, asks beyond a budget or a limit on open picks are refused by the kept state, without a read."""
        self._wanted: tuple[str | None, float] = None, 0.0
        """The mixture that the scorers were last told to make again, by its name, and when."""
        self._deciding: Pending = None
        """While the stopping rule is satisfied: what was due when it became so; None: nothing."""

    def wake(self) -> None:
        """Read the state again, because something was announced."""
        self._known_in = None
        self._changed.set()

    async def ask(self, request: AskRequest, key: str = "", contexts: Sequence[AskedContext] | None = None) -> AskReply:
        """Picks for one worker, waiting at most the experiment's `max_wait` seconds for estimates that are due.

        key: id of the access key that asks. contexts: of the request, where asks bring some.
        """
        goal = None if self._state is None else self._state.goal
        if contexts is not None and len(contexts) >= 4 and isinstance(goal, WithModel):
            # In a thread, because a hundred contexts would block the event loop for tens of milliseconds.
            await asyncio.to_thread(goal.foresee, contexts, self._pick_limits.worker)
        ask = WaitingAsk(request, key, contexts)
        self._waiting.append(ask)
        self._serve_on()
        return await ask.answer

    async def tell(
        self, batch: PickBatch, then: AskRequest | None = None, key: str = ""
    ) -> tuple[Settled, asyncio.Future[AskReply] | None]:
        """Settle a pick. Also returns the future answer to `then`, an ask sent along with the tell, or None.

        key: id of the access key that asks. Raises the error that `Store.exchange` returns for a refused batch.
        """
        following = None if then is None else WaitingAsk(then, key)
        tell = WaitingTell(batch, following)
        self._tells.append(tell)
        self._serve_on()
        return await tell.answer, following and following.answer

    def _serve_on(self) -> None:
        self._changed.set()
        # No task while nobody waits: a service may have thousands of experiments that rest.
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(charged(self._serve()))

    async def _serve(self) -> None:
        try:
            while self._tells or self._waiting:
                await self._round()
        except Exception as error:  # all waiting requests get the error; the next request starts a new coroutine
            left = [*self._tells, *self._waiting]
            self._tells, self._waiting, self._known_in = [], [], None
            for request in left:
                resolve(request.answer, error=error)

    async def _round(self) -> None:
        """Gather waiting requests, plan, exchange and reply; or sleep if there is nothing to do."""
        # Before anything is gathered: what comes from now on wakes the next round.
        self._changed.clear()
        tells, asks = self._gathered()
        if not tells and not asks:
            return
        new = [ask for ask in asks if not ask.is_noted]
        plan = await self._foreseen(tells, asks)
        if plan is None and self._is_known and not tells:
            await self._sleep()
            return
        is_read = await self._step(tells, asks, plan)
        if is_read or not self._is_known:
            for ask in new:  # they noted it from a planned state that did not come about
                ask.is_noted = False
        while is_read:
            # First the asks that the state was read for. A later ask must wait for the next state: a pick that its
            # worker has told through another replica meanwhile is still open in this one.
            asks = [ask for ask in asks if not ask.answer.done()]
            plan = await self._planned_afresh(asks)
            is_read = plan is not None and await self._step([], asks, plan)

    def _gathered(self, max_bytes: int = 4 * 2**20) -> tuple[list[WaitingTell], list[WaitingAsk]]:
        """The tells that are sent together, in order, and all asks, those that came with these tells last.

        What is answered, or was cancelled by its client, is dropped. max_bytes: of the batches of these tells, unless
        one batch alone is larger.
        """
        self._tells = [tell for tell in self._tells if not tell.answer.done()]
        self._waiting = [ask for ask in self._waiting if not ask.answer.done()]
        tells, asks, size = list[WaitingTell](), list(self._waiting), 0
        for tell in self._tells:
            size += len(tell.batch.contents.body)
            if tells and size > max_bytes:
                break
            tells.append(tell)
            if tell.then is not None:
                asks.append(tell.then)
        return tells, asks

    @property
    def _is_known(self) -> bool:
        """True if `_state` equals the state in the store, as far as the dispatcher knows."""
        return self._known_in == self._store.incarnation

    async def _foreseen(self, tells: Sequence[WaitingTell], asks: Sequence[WaitingAsk]) -> PlannedAnswers | None:
        """Apply the tells to the kept state in place, and plan the answers of the asks that need not wait any longer.

        None if all asks must wait, or if the state must be read first; it is then not known. From a state that was not
        just read only new picks are given, never an end or picks that were open before. Asks are refused as those just
        before were, so that reading the state costs no more the more of them come.
        """
        state = self._state
        if state is None or not self._is_known:
            return None
        for tell in tells:
            settled = state.settle(tell.batch.pick, tell.batch.contents.rows)
            if settled is None:
                self._known_in = None
                return None
            self._touched.add(settled.ordinal)
        if self._models is not None:
            self._models.watch(state)
        ready = [ask for ask in asks if ask.may_go(state)]
        if not ready:
            return None
        if not state.has_ended and not state.would_stop:
            if not tells and time.monotonic() < self._refusing_until:
                full = Assignment(state, self._pick_limits)
                if refused := [ask for ask in ready if full.refuses(ask.request, ask.key, ask.contexts)]:
                    lacked = {ask: full.lacking(ask.request.worker, ask.key) for ask in refused}
                    return PlannedAnswers({ask: [] for ask in refused}, lacked=lacked)
            plan = await self._planned(state, ready, exactly=True)
            if not plan.returned and all(plan.replies.values()):
                return plan
        self._known_in = None
        return None

    async def _planned_afresh(self, asks: Sequence[WaitingAsk]) -> PlannedAnswers | None:
        """Plan the answers of these asks by the state that was just read; None if all of them must wait."""
        assert self._state is not None
        state = self._state
        if self._models is not None:
            self._models.watch(state)
        if self._may_decide(state):
            state = await with_decision_latched(self._store, state)
            self._take(state)
            if state.stored.instance != self.info.instance:
                raise NotFound(f"experiment {self._config.name!r} was made again since")
        await want_answers(self._store, state)
        ready = [ask for ask in asks if ask.may_go(state)]
        return await self._planned(state, ready, exactly=False) if ready else None

    async def _planned(self, state: PolicyState, ready: Sequence[WaitingAsk], *, exactly: bool) -> PlannedAnswers:
        plan = await planned(state, ready, self._pick_limits, exactly)
        if plan.opening is not None:
            picks = [pick for group in plan.opening.groups for pick in group.picks]
            self._touched.update(pick.generator for pick in picks)
            if self._config.max_batches_per_worker is not None:
                self._touched.update(f"worker:{pick.worker}" for pick in picks if pick.worker)
        return plan

    def _take(self, state: PolicyState) -> None:
        """Go on with a state that was just read."""
        self._state, self._instant, self._touched = state, state.stored.instant, set()

    def _may_decide(self, state: PolicyState) -> bool:
        """True if the stopping rule is satisfied, and everything has been made that was due when it became so.

        Outdated estimates may lead to picks, but never to a decision. What came due later does not delay it: an
        estimate may take longer than `max_wait`, after which workers sample on, so that there is always one due.
        Where scores go with time, it waits for the answers on their way, too (`PolicyState.is_held`).
        """
        if not state.would_stop or state.is_decided:
            self._deciding = None
            return False
        if self._deciding is None:
            self._deciding = state.goal.pending(state.stored)
        return not state.is_held and not state.awaits(self._deciding)

    async def _step(
        self, tells: Sequence[WaitingTell], asks: Sequence[WaitingAsk], plan: PlannedAnswers | None
    ) -> bool:
        """Settle the tells and open the planned picks, or else read the state; answer what is settled or opened.

        Returns whether the state was read. If it was not, it is known only where everything happened as planned.
        """
        if plan is not None and plan.opening is None:
            await self._finish(plan)
            return False
        is_planned = plan is not None or self._is_known
        wants_state = bool(asks) and (plan is not None or not is_planned)
        # Until an announcement comes; what was announced before is in the answer to this call.
        incarnation = self._known_in = self._store.incarnation
        done = await self._store.exchange(
            self._config.name,
            [tell.batch for tell in tells],
            None if plan is None else plan.opening,
            wants_state=wants_state,
            # If the picks are not opened, another replica was faster: the opening lock makes the next attempt succeed.
            who=self._who if plan is not None or self._locked_out_since is not None else "",
            cached=None if self._state is None else CachedState(self._state.stored, self._instant, self._touched),
            instance=self.info.instance,
        )
        version = self._answer_tells(tells, done, is_planned)
        if done.state is not None:
            state = await state_of(self.info, done.state, self._state)
            self._take(state)
            self._locked_out_since = None
            if self._models is not None:
                await self._models.renew(state)
            return self._store.incarnation == incarnation
        if not (is_planned and self._is_as_planned(done, version)):
            self._known_in = None
        if plan is not None and done.has_opened:
            await self._finish(plan)
        elif wants_state:
            for ask in asks:
                ask.waited_for = ask.waited_for or WaitReason.PROCESSES  # what it waited for before took longer
            await self._wait_for_lock()
        return False

    def _answer_tells(self, tells: Sequence[WaitingTell], done: Exchanged, is_planned: bool) -> int | None:
        """Answer these tells. Returns the version after the last of them; None: none counts.

        is_planned: whether they were applied to the state.
        """
        version = None
        for tell, outcome in zip(tells, done.settled, strict=True):
            if isinstance(outcome, StoreError):
                resolve(tell.answer, error=outcome)
                if tell.then is not None:
                    tell.then.answer.cancel()
                continue
            resolve(tell.answer, outcome)
            version = outcome.version
            if is_planned and self._state is not None:
                self._state.note(outcome)  # only the store knows whether it repeats another batch
            if tell.then is not None:
                self._waiting.append(tell.then)
        return version

    def _is_as_planned(self, done: Exchanged, version: int | None) -> bool:
        """True if the store's state equals `_state`: all of these steps were taken, and nobody else took one."""
        assert self._state is not None
        stored = self._state.stored
        if done.before != stored.state_token or not done.is_foreseen:
            return False
        stored.state_token = done.after
        if version != stored.version and not done.has_opened:
            return False
        self._instant, self._touched = stored.instant, set()
        return True

    async def _wait_for_lock(self) -> None:
        """Pause while another replica has the opening lock. Raises Unavailable if that lasts too long."""
        self._locked_out_since = self._locked_out_since or time.monotonic()
        if time.monotonic() - self._locked_out_since > 3.0:  # each of them has it for half a second
            self._locked_out_since = None
            raise Unavailable("other replicas have kept the opening lock for too long: ask again")
        await asyncio.sleep(0.005)  # another replica has the opening lock

    async def _sleep(self) -> None:
        """Wait until something happens, or until the first ask has waited for `max_wait`."""
        assert self._state is not None
        if self._state.stored.is_mixture_due:
            await self._want_mixture(self._state.stored)
        await want_answers(self._store, self._state)
        left = min(ask.came for ask in self._waiting) + self._state.max_wait - time.monotonic()
        try:
            async with asyncio.timeout(min(left, 0.25)):  # an announcement may be lost
                await self._changed.wait()
        except TimeoutError:
            self._known_in = None

    async def _want_mixture(self, stored: ExperimentState) -> None:
        """Tell the scorers that asks wait for the mixture to be made again: once, and again each second, as one may
        have missed it."""
        name, now = "" if stored.mixture is None else stored.mixture.made, time.monotonic()
        if self._wanted[0] != name or now >= self._wanted[1] + 1.0:
            self._wanted = name, now
            await self._store.want(self._config.name, Artefact("mixture", self._config.metric.shown_label))

    async def _finish(self, plan: PlannedAnswers) -> None:
        """Answer the asks of a plan whose picks are open."""
        assert self._state is not None
        if plan.returned:
            # A worker that asks again is alive.
            await self._store.renew_leases(self._config.name, plan.returned, self._pick_limits.lease_of(self._config))
        state, ended = self._state, self._state.has_ended
        for ask, picks in plan.replies.items():
            reason = None if ended else plan.lacked.get(ask) or ask.waited_for
            # Whoever has handed in all that it may need not ask again.
            is_done = ended or (reason == WaitReason.WORKER_BATCHES and not picks)
            waits = DRAINING if len(picks) < ask.min_picks and not is_done else None
            if not picks and not ended and plan.is_fresh:
                self._refusing_until = time.monotonic() + DRAINING
            reply = AskReply(
                picks=picks,
                state=state.phase,
                ended=ended,
                decision=state.decision,
                retry_after=waits,
                waited_for=reason,
            )
            resolve(ask.answer, reply)
            count_ask(reply)
