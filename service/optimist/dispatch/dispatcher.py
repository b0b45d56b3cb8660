"""The desk of one experiment: takes its tells, gathers the asks that wait, and opens their picks together.

One coroutine an experiment serves all its workers in this replica: a hundred of them telling and asking at once cost
one round trip to Redis, and each pick sees the ones before it as on their way. The desk knows what its last look and
its own steps since have made of the experiment, and picks from that as long as nobody else changes anything: the
store's version says whether somebody did. Then, and for all that opens no pick, it looks. Other replicas are kept out
by the compare-and-set on the number of picks opened.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from optimist.dispatch.assignment import Assignment, MostOpen
from optimist.dispatch.counting import count_ask
from optimist.dispatch.foresight import after_opening, after_settling
from optimist.dispatch.views import View
from optimist.store import AskGroup, Batch, Exchanged, Look, NewPick, NotFound, Settled, Store, StoreError, Unavailable
from optimist_client.models import AskReply, AskRequest, Experiment, Pick

POLL = 0.25
"""Seconds between looks while estimates are waited for, should an announcement be lost."""
TURN_POLL = 0.005
"""Seconds between looks while another replica has the turn at opening picks."""
TURN_PATIENCE = 3.0
"""Seconds for which others may have the turn before the asks are put off; each of them has it for half a second."""
DRAINING = 0.5
"""Seconds after which to ask again when the whole budget, or as many picks as may be, are on their way."""
PICKS_A_TURN = 64
"""Picks chosen in one go, unless one ask alone gets more: choosing takes processor time that others wait for."""
GATHERED_BYTES = 4 * 2**20
"""Bytes of batches that go to Redis together, unless one alone is larger."""


def _pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False)
class _Ask:
    request: AskRequest
    key: str = ""
    """Id of the access key that asks."""
    came: float = field(default_factory=time.monotonic)
    answer: asyncio.Future[AskReply] = field(default_factory=_pending)
    needed: list[int] | None = None
    """Log positions at which estimates were due when this ask first looked: later tells never make it wait longer."""

    def __post_init__(self) -> None:
        if self.request.request_id is None:
            self.request = self.request.model_copy(update={"request_id": uuid.uuid4().hex})

    def lacks(self, view: View) -> bool:
        """Whether an estimate that it waits for is still to be made."""
        if not view.can_be_scored:
            return False
        if self.needed is None:
            self.needed = [g.due_seq for g in view.look.generators]
        # Generators that were added since are the last ones; nobody waits for one that is out of the contest, nor for
        # an estimate of batches that Redis has lost.
        generators = zip(view.look.generators, self.needed, strict=False)
        return any(g.estimate_seq < min(due, g.due_seq) and g.state != "retired" for g, due in generators)

    def may_go(self, view: View) -> bool:
        """Whether it has waited enough: for its estimates, or for `max_wait`."""
        return not self.lacks(view) or self.came <= time.monotonic() - view.max_wait


@dataclass(eq=False)
class _Tell:
    batch: Batch
    then: _Ask | None
    answer: asyncio.Future[Settled] = field(default_factory=_pending)


@dataclass(frozen=True)
class _Picked:
    """What asks get of a view: their picks, of which `groups` are new and `returned` were open."""

    view: View
    replies: dict[_Ask, list[Pick]]
    groups: list[AskGroup] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)


class Desk:
    """Serves one experiment. `wake` when its estimates may have changed."""

    def __init__(self, store: Store, experiment: Experiment, most_open: MostOpen) -> None:
        self._store = store
        self._most_open = most_open
        self._experiment = experiment
        self._config = experiment.config
        self._instance = experiment.instance
        self._epoch = store.epoch
        self._tells: list[_Tell] = []
        self._waiting: list[_Ask] = []
        self._changed = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._who = uuid.uuid4().hex
        # Whether the last compare-and-set was lost: the next one waits for its turn.
        self._lost = False
        # Since when others have had the turn.
        self._refused = 0.0
        # The experiment as far as this desk knows, and how often it was told that it may not know all.
        self._known: Look | None = None
        self._wakes = 0

    def wake(self) -> None:
        """Look again: something was announced."""
        self._known = None
        self._wakes += 1
        self._changed.set()

    async def ask(self, request: AskRequest, key: str = "") -> AskReply:
        """Picks for one worker, waiting at most the experiment's `max_wait` seconds for estimates that are due.

        key: id of the access key that asks.
        """
        ask = _Ask(request, key)
        self._waiting.append(ask)
        self._serve_on()
        return await ask.answer

    async def tell(
        self, batch: Batch, then: AskRequest | None = None, key: str = ""
    ) -> tuple[Settled, asyncio.Future[AskReply] | None]:
        """Settle a pick, as `Store.settle`; with the answer to come for `then`, an ask that the tell brings along."""
        following = None if then is None else _Ask(then, key)
        tell = _Tell(batch, following)
        self._tells.append(tell)
        self._serve_on()
        return await tell.answer, following and following.answer

    def _serve_on(self) -> None:
        self._changed.set()
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            while self._tells or self._waiting:
                self._changed.clear()  # before the look: what is announced after it wakes us again
                if self._store.epoch != self._epoch:
                    self._epoch, self._known = self._store.epoch, None
                # Cancelled by their clients.
                self._tells = [tell for tell in self._tells if not tell.answer.done()]
                self._waiting = [ask for ask in self._waiting if not ask.answer.done()]
                await self._exchange()
                if self._waiting:
                    await self._attend()
        except Exception as error:  # each of them gets the error; the next one starts a new coroutine
            left = [*self._tells, *self._waiting]
            self._tells, self._waiting, self._known = [], [], None
            for one in left:
                if not one.answer.done():
                    one.answer.set_exception(error)

    async def _exchange(self) -> None:
        """Settle what was told, and open what can be opened by what is known, in one round trip."""
        tells, wakes = self._gathered(), self._wakes
        asks = [*self._waiting, *(tell.then for tell in tells if tell.then is not None)]
        new = [ask for ask in asks if ask.needed is None]
        view = self._foreseen(tells)
        picked = None if view is None else self._pick_ahead(view, asks)
        if not tells and picked is None:
            return
        done = await self._store.exchange(
            self._config.name,
            [tell.batch for tell in tells],
            None if view is None else view.look,
            [] if picked is None else picked.groups,
            self._config.lease,
            instance=self._instance,
        )
        del self._tells[: len(tells)]
        for tell, outcome in zip(tells, done.settled, strict=True):
            if isinstance(outcome, StoreError):
                _resolve(tell.answer, error=outcome)
                continue
            _resolve(tell.answer, outcome)
            if tell.then is not None:
                self._waiting.append(tell.then)
        if picked is not None and done.opened is not None and not done.opened.repeated:
            self._reply(picked)
            opened = after_opening(picked.view.look, picked.groups, time.time() + self._config.lease)
            self._remember(replace(opened, mark=done.after), wakes)
        elif picked is None and view is not None and _are_foreseen(done, view.look):
            self._remember(replace(view.look, mark=done.after), wakes)
        else:
            self._known = None
            # Most likely another replica was faster: the next try takes a turn, and is the last.
            self._lost = self._lost or picked is not None
            for ask in new:  # what they noted is not what they came to
                ask.needed = None

    def _gathered(self) -> list[_Tell]:
        """The tells that go together."""
        size = 0
        for count, tell in enumerate(self._tells):
            size += len(tell.batch.body)
            if count and size > GATHERED_BYTES:
                return self._tells[:count]
        return list(self._tells)

    def _foreseen(self, tells: Sequence[_Tell]) -> View | None:
        """The experiment after these tells, as far as this desk knows it."""
        look = self._known
        for tell in tells:
            look = look and after_settling(look, tell.batch, self._config.rescore_growth)
        return look and View(self._experiment, look)

    def _pick_ahead(self, view: View, asks: Sequence[_Ask]) -> _Picked | None:
        """New picks for those that may go; None where there is anything but new picks to answer, which takes a look."""
        ready = _going(asks, view)
        if not ready or view.has_ended or view.would_stop:
            return None
        picked = self._pick(view, ready)
        return None if picked.returned or not all(picked.replies.values()) else picked

    def _pick(self, view: View, ready: Sequence[_Ask]) -> _Picked:
        """What these asks get, in the order of asking."""
        if view.has_ended:
            return _Picked(view, {ask: [] for ask in ready})
        assignment = Assignment(view, self._most_open)
        replies: dict[_Ask, list[Pick]] = {}
        for ask in ready:
            if len(assignment.openings) >= PICKS_A_TURN:
                break  # the others are next
            replies[ask] = assignment.answer(ask.request, ask.lacks(view), ask.key)
        groups: dict[str, list[NewPick]] = {}
        for opening in assignment.openings:
            groups.setdefault(opening.pick.request_id, []).append(opening.record)
        return _Picked(
            view, replies, [AskGroup(request_id, picks) for request_id, picks in groups.items()], assignment.returned
        )

    async def _attend(self) -> None:
        """Answer the asks that may go by a look at the store; wait for something to happen where none may."""
        if self._known is not None:
            view = View(self._experiment, self._known)
            if not view.has_ended and not _going(self._waiting, view):
                await self._sleep(view)
                return
        # Asks that come during the look need a newer one: in this one, what they just told is still open.
        asks, wakes = list(self._waiting), self._wakes
        look = await self._look()
        if look is None:
            self._refused = self._refused or time.monotonic()
            if time.monotonic() - self._refused > TURN_PATIENCE:
                self._refused = 0.0
                raise Unavailable("others have had the turn at opening picks for too long: ask again")
            await asyncio.sleep(TURN_POLL)
            return
        self._refused = 0.0
        if look.instance != self._instance:
            raise NotFound(f"experiment {self._config.name!r} was made again since")
        view = View(self._experiment, look)
        lacking = [ask.lacks(view) for ask in asks]  # of every one: at its first look it notes what it needs
        if not all(lacking):
            # Never from estimates that are out of date, as an ask past its deadline may have to take them.
            view = await sealed(self._store, view)
        self._remember(view.look, wakes)
        ready = asks if view.has_ended else _going(asks, view)
        if ready:
            await self._answer(self._pick(view, ready), wakes)
        else:
            await self._sleep(view)

    async def _look(self) -> Look | None:
        """The store as it is, with the turn at opening picks where one is needed; None: others have it."""
        if self._lost:
            return await self._store.take_turn(self._config.name, self._who)
        return await self._store.look(self._config.name)

    async def _sleep(self, view: View) -> None:
        """Until something happens, or the first ask has waited long enough."""
        left = min(ask.came for ask in self._waiting) + view.max_wait - time.monotonic()
        try:
            async with asyncio.timeout(min(left, POLL)):
                await self._changed.wait()
        except TimeoutError:
            self._known = None

    async def _answer(self, picked: _Picked, wakes: int) -> None:
        """Open the new picks and answer, or do nothing when another replica was faster."""
        if picked.groups:
            look = picked.view.look
            opened = await self._store.open_picks(
                *(self._config.name, look.rounds, picked.groups, self._config.lease),
                last=look.last,
                instance=look.instance,
                who=self._who,
            )
            self._known, self._lost = None, opened is None
            # An ask that was repeated meanwhile has its picks already: the next look shows them.
            if opened is None or opened.repeated:
                return
            if opened.version == look.version + 1:
                after = after_opening(look, picked.groups, time.time() + self._config.lease)
                self._remember(replace(after, mark=opened.mark), wakes)
        if picked.returned:
            # A worker that asks again is alive.
            await self._store.renew_leases(self._config.name, picked.returned, self._config.lease)
        self._reply(picked)

    def _reply(self, picked: _Picked) -> None:
        view = picked.view
        self._waiting = [ask for ask in self._waiting if ask not in picked.replies]
        for ask, picks in picked.replies.items():
            waits = DRAINING if not picks and not view.has_ended else None
            reply = AskReply(
                picks=picks, state=view.state, ended=view.has_ended, decision=view.decision, retry_after=waits
            )
            _resolve(ask.answer, reply)
            count_ask(reply)

    def _remember(self, look: Look, wakes: int) -> None:
        """Know this look, unless something was announced since there were so many `wakes`."""
        self._known = look if wakes == self._wakes else None


def _going(asks: Sequence[_Ask], view: View) -> list[_Ask]:
    return [ask for ask in asks if ask.may_go(view)]


def _are_foreseen(done: Exchanged, look: Look) -> bool:
    """Whether batches that were settled one after the other, and nothing else, led to the version of `look`."""
    last = done.settled[-1]
    return isinstance(last, Settled) and last.version == look.version and done.before == look.mark


def _resolve(future: asyncio.Future[Any], result: object = None, error: Exception | None = None) -> None:
    """Set what a future comes to, unless nobody waits for it any longer."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


async def sealed(store: Store, view: View) -> View:
    """The view with its decision latched, if the stopping rule says stop by it; whoever latches first decides.

    A decision by estimates that no longer stand is not latched: it is made again by those that do.
    """
    name = view.config.name
    while view.would_stop and view.look.decision is None:
        decided, look = view.live_decision.model_dump_json(), view.look
        await store.latch_decision(name, decided, look.estimates_digest, instance=look.instance)
        view = View(view.experiment, await store.look(name))
        if not view.is_scored:
            break
    return view
