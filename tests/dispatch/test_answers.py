"""A decision about scores that go with the time of an answer waits for the answers on their way, for a limited time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.api.app_state import AppState
from optimist.api.redis_health import RedisHealth
from optimist.dispatch.dispatcher import Dispatcher
from optimist.estimates.estimate import Estimate
from optimist.estimates.timing import Timing
from optimist.experiments.assignment import PickLimits
from optimist.records import Contents, PickBatch, codec
from optimist.settings import Settings
from optimist.store import WANTED, Store
from optimist_client.models import AskReply, AskRequest, Pick, Report
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import append_to, claimed
from tests.support.made import create

MOST = PickLimits(1000, 1000, 1000)


class Timed:
    """The experiment "x" about latency, served by two processes."""

    def __init__(self, store: Store, **config: Any) -> None:
        given: dict[str, Any] = {"metric": "mean", "higher_is_better": False, "timed": True, "lease": 600.0}
        wanted = config_of(name="x", generators=["a", "b"], batch_size=20, max_wait=0.0, **{**given, **config})
        self.store = store
        self.experiment = experiment_of(wanted)
        self.processes = [Dispatcher(store, self.experiment, MOST) for _ in range(2)]
        self.context = AppState(store, Settings(), RedisHealth(store, Settings()))

    async def begin(self, timing: Timing | None = None) -> Pick:
        """The pick of a slow worker, while a batch of each generator was told, and `b` leads by much."""
        await create(self.store, self.experiment, self.experiment.model_dump_json())
        picks = [(await self.ask(worker)).picks[0] for worker in ("one", "two", "slow")]
        for pick in picks[:2]:
            await self.tell(pick)
        await self.score(5.0, 1.0, timing=timing)
        return picks[2]

    async def ask(self, worker: str = "fast", process: int = 0) -> AskReply:
        self.processes[process].wake()
        return await self.processes[process].ask(AskRequest(worker=worker))

    async def tell(self, pick: Pick, rows: int = 20) -> None:
        contents = Contents(f"digest {pick.number}", rows, b"body")
        await self.processes[0].tell(PickBatch(pick.number, pick.nonce, contents))

    async def score(self, *values: float, timing: Timing | None = None) -> None:
        """Publish estimates of all that was told, with these values."""
        for generator in (await self.store.state("x")).generators:
            value = values[generator.ordinal]
            ends = value - 1.0, value + 1.0, value - 1.0
            text = codec.encode(Estimate(value, value, generator.samples, *ends, 0.1, 0.1, timing=timing))
            token = await claimed(self.store, "x", generator.ordinal, "scorer", 60, "mean")
            await self.store.put_estimate("x", generator.ordinal, generator.seq, text, token, label="mean")

    async def report(self) -> Report:
        self.context.polls.changed("x")
        return Report.model_validate_json((await self.context.polls.report("x", 0)).text)


async def test_no_pick_is_opened_while_a_decision_waits_for_an_answer(store: Store):
    timed = Timed(store)
    slow = await timed.begin()
    for process in (0, 1):
        held = await timed.ask(process=process)
        assert (held.picks, held.ended, held.decision.decided) == ([], False, False)
        assert held.decision.awaited == {slow.generator: 1}
        assert held.retry_after
        assert (held.waited_for, (await timed.report()).waits_for) == ("answers", "answers")
        assert (await timed.ask("slow", process)).picks == [slow], "its own pick it gets again"
    report = await timed.report()
    assert (report.ended, report.decision.awaited) == (False, {slow.generator: 1})
    assert "waits for 1 batch (1 of " in report.decision.reason
    assert "may be slow answers" in report.decision.why(report.scale)
    assert (await store.state("x")).rounds == 3


async def test_it_looks_again_at_estimates_of_all_that_was_told(store: Store):
    timed = Timed(store, rescore_growth=1.0)
    slow = await timed.begin()
    async with store.announcements(WANTED) as wanted:
        assert await anext(wanted) is None  # it has begun
        await timed.tell(slow, rows=19)
        assert (await store.state("x")).generators[0].due_seq == 1, "no estimate is due"
        for held in (await timed.ask(), await timed.ask(process=1)):
            assert (held.picks, held.ended, held.decision.awaited) == ([], False, {})
        assert not (await timed.report()).decision.decided
        for _ in range(3):  # each of them asked for it
            heard = await anext(wanted)
            assert heard is not None
            assert (heard.wanted and heard.wanted.name) == f"estimate:{slow.generator == 'b':d}:mean"
    await timed.score(1.1, 1.0)
    following = await timed.ask(process=1)
    assert len(following.picks) == 1, "the slow answer has overturned it"
    await timed.tell(following.picks[0])
    await timed.score(1.1, -5.0)
    decided = await timed.ask()
    assert (decided.picks, decided.ended, decided.decision.best) == ([], True, "b")
    assert decided.decision.warnings == ()


async def test_reports_decide_by_the_same_rule(store: Store):
    timed = Timed(store)
    slow = await timed.begin()
    assert not (await timed.report()).ended
    await timed.tell(slow)
    await timed.score(5.0, 1.0)
    assert (await timed.report()).state == "decided"


@pytest.mark.parametrize("ending", ["lease", "given up", "pace"])
async def test_an_answer_that_never_comes_is_named(store: Store, redis: Redis, ending: str):
    """Nobody can put a decision off for ever by opening picks."""
    timed = Timed(store)
    slow = await timed.begin(Timing(1e-9, 4, 0.0) if ending == "pace" else None)
    if ending == "lease":
        await redis.zadd("optimist:{x}:leases", {str(slow.number): 1.0})
    elif ending == "given up":
        await store.give_up("x", slow.number, "too slow", nonce=slow.nonce)
    while not (decided := await timed.ask(process=1)).ended:
        assert ending == "pace", "it is waited for a second at least"
    assert decided.decision.best == "b"
    [missing] = decided.decision.warnings
    assert missing.startswith(f"answers are missing, perhaps the slowest: 1 batch (1 of {slow.generator})")
    if ending != "given up":
        await timed.tell(slow)
    told = [generator.unanswered for generator in (await store.state("x")).generators]
    assert told == [int(ending == "given up") * (slow.generator == name) for name in "ab"]


async def test_renewing_a_lease_puts_no_decision_off(store: Store):
    timed = Timed(store, lease=1.0)
    slow = await timed.begin()
    while not (reply := await timed.ask("slow")).ended:
        assert reply.picks == [slow], "asking again renews it"
    assert reply.decision.best == "b"
    assert "answers are missing" in reply.decision.warnings[0]


async def test_batches_that_no_pick_asked_for_are_not_waited_for(store: Store):
    timed = Timed(store)
    slow = await timed.begin()
    assert not (await timed.ask()).ended
    await timed.tell(slow)
    await timed.score(5.0, 1.0)
    await append_to(store, 0, 1, rows=1)
    assert (await timed.ask()).ended


async def test_a_pick_that_is_opened_while_it_is_decided_is_waited_for(store: Store, redis: Redis):
    """Another process opens a pick after the state was read, and before the decision is stored."""
    timed = Timed(store)
    slow = await timed.begin()
    await timed.tell(slow)
    await timed.score(5.0, 1.0)
    before = await store.state("x")
    await store.control("x", {"budget": "1000"})
    assert not await store.latch_decision("x", json.dumps({}), before.basis_digest, token=before.state_token)
    assert (await timed.ask()).ended


async def test_other_scores_are_decided_with_picks_open(store: Store):
    timed = Timed(store, timed=False)
    await timed.begin()
    assert (await timed.ask()).ended


@pytest.mark.parametrize(("correlation", "is_held"), [(0.6, True), (-0.6, True), (0.4, False)])
async def test_batches_that_go_with_time_need_no_setting(store: Store, correlation: float, is_held: bool):
    timed = Timed(store, timed=False)
    await timed.begin(Timing(60.0, 20, correlation))
    assert (await timed.ask()).ended != is_held
