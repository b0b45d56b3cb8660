"""The dispatcher works from what it knows: that is what reading the state would show, whatever happened before."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from optimist.dispatch import dispatcher as dispatcher_module
from optimist.dispatch.dispatcher import Dispatcher
from optimist.experiments.assignment import PickLimits
from optimist.experiments.state import PolicyState
from optimist.records import (
    SLICES,
    Conflict,
    Contents,
    Exchanged,
    Measures,
    PickBatch,
    Returned,
    StoreError,
)
from optimist.store import Store, connect
from optimist_client.models import AskReply, AskRequest, Pick
from optimist_client.models.picks import MAX_PICKS
from tests.support.configs import config_of, experiment_of
from tests.support.made import create, put_estimate
from tests.support.states import comparable


async def make_dispatcher(store: Store, **config: object) -> Dispatcher:
    given = {"name": "x", "generators": ["a", "b", "c"], "metric": "is", "dimension": 10, "batch_size": 4}
    experiment = experiment_of(config_of(**{**given, "max_wait": 0.0, **config}))
    await create(store, experiment, batch_size=None)
    return Dispatcher(store, experiment, pick_limits=PickLimits(1000, 1000, 1000))


def batch(pick: Pick, rows: int = 4, body: bytes = b"body") -> PickBatch:
    return PickBatch(pick.number, pick.nonce, Contents("digest", rows, body))


async def round_(dispatcher: Dispatcher, pick: Pick) -> Pick:
    """Tell a pick, and take the one that comes with the answer."""
    _, following = await dispatcher.tell(batch(pick), AskRequest(worker=pick.worker, request_id=f"after-{pick.number}"))
    assert following is not None
    return (await following).picks[0]


async def first(dispatcher: Dispatcher, worker: str = "w") -> Pick:
    return (await dispatcher.ask(AskRequest(worker=worker))).picks[0]


async def calls(redis: Redis) -> int:
    """Scripts that Redis was asked to run."""
    stats = await redis.info("commandstats")
    return stats["cmdstat_evalsha"]["calls"]


async def test_a_round_asks_redis_once(store: Store, redis: Redis):
    dispatcher = await make_dispatcher(store)
    pick = await round_(dispatcher, await first(dispatcher))
    before = await calls(redis)
    for _ in range(5):
        pick = await round_(dispatcher, pick)
    assert await calls(redis) - before == 5
    for _ in range(5):
        await dispatcher.tell(batch(pick))
        pick = await first(dispatcher)
    assert await calls(redis) - before == 15


async def test_an_ask_for_many_picks_of_many_generators_lets_others_go_on(store: Store):
    dispatcher = await make_dispatcher(store, generators=[f"g{place}" for place in range(1000)])
    await dispatcher.ask(AskRequest(worker="first"))
    longest, over = 0.0, asyncio.Event()

    async def ticking() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not over.is_set():
            await asyncio.sleep(0)
            longest, before = max(longest, time.perf_counter() - before), time.perf_counter()

    ticks, begun = asyncio.create_task(ticking()), time.perf_counter()
    reply = await dispatcher.ask(AskRequest(worker="w", count=MAX_PICKS))
    taken = time.perf_counter() - begun
    over.set()
    await ticks
    assert len(reply.picks) == MAX_PICKS
    assert longest < taken / 3


async def test_what_others_change_is_seen(store: Store):
    dispatcher = await make_dispatcher(store)
    pick = await round_(dispatcher, await first(dispatcher))
    await store.set_state("x", 0, "paused")
    for _ in range(6):
        pick = await round_(dispatcher, pick)
        assert pick.generator != "a"
    await store.control("x", {"stopped": "1"})
    _, following = await dispatcher.tell(batch(pick), AskRequest())
    assert following is not None
    reply = await following
    assert (reply.picks, reply.ended) == ([], True)


async def test_an_estimate_that_was_put_meanwhile_is_used(store: Store):
    dispatcher = await make_dispatcher(store, rescore_growth=0.0)
    pick = await round_(dispatcher, await first(dispatcher))
    assert await put_estimate(store, 0, 1, 1.0, samples=4)
    assert (await round_(dispatcher, pick)).positions == [1, 0, 0]


async def test_what_is_due_since_the_rule_was_satisfied_puts_no_decision_off(store: Store):
    """An estimate may take longer than `max_wait`. Workers then sample on, so that there is always one that is due."""
    dispatcher = await make_dispatcher(store, generators=["a", "b"])

    async def reply(told: int, scored: int, gap: float) -> AskReply:
        """The reply after so many batches of 20 of each, when the estimates of so many have this difference."""
        for generator in (0, 1):
            await store.append("x", generator, f"key {told}", Contents(f"{generator} {told}", 20, b"body"))
            if scored:
                assert await put_estimate(store, generator, scored, 1.0 + gap * generator, 20 * scored)
        dispatcher.wake()
        return await dispatcher.ask(AskRequest())

    assert (await reply(1, 0, 0.0)).picks
    assert (await reply(2, 1, 5.0)).picks, "the second estimates are due"
    assert (await reply(3, 2, 0.1)).picks, "the rule is not satisfied any more"
    assert (await reply(4, 3, 5.0)).picks, "the fourth estimates are due"
    decided = await reply(5, 4, 5.0)
    assert (decided.picks, decided.ended, decided.decision.best) == ([], True, "b")


async def test_a_lease_that_ran_out_is_seen(store: Store, redis: Redis):
    dispatcher = await make_dispatcher(store)
    late, pick = await first(dispatcher, "u"), await first(dispatcher, "v")
    await redis.zadd("optimist:{x}:leases", {str(late.number): 1.0})
    pick = await round_(dispatcher, pick)
    assert sum(pick.pending_batches) == 0
    settled, _ = await dispatcher.tell(batch(late))
    assert settled.late


async def test_what_is_told_again_opens_nothing_again(store: Store):
    dispatcher = await make_dispatcher(store)
    pick = await first(dispatcher)
    following = await round_(dispatcher, pick)
    assert (await round_(dispatcher, pick)) == following
    with pytest.raises(Conflict):
        await dispatcher.tell(
            PickBatch(pick.number, pick.nonce, Contents("another", 4, b"body")), AskRequest(request_id="other")
        )
    assert (await store.state("x")).rounds == 2


async def test_one_conflict_among_many_is_one_answer(store: Store):
    dispatcher = await make_dispatcher(store)
    picks = [await first(dispatcher, worker) for worker in "uvw"]
    await dispatcher.tell(batch(picks[0]))
    wrong = [PickBatch(picks[0].number, picks[0].nonce, Contents("another", 4, b"")), batch(picks[1]), batch(picks[2])]

    async def one(told: PickBatch) -> AskReply:
        _, following = await dispatcher.tell(told, AskRequest(request_id=f"after-{told.pick}-{told.contents.digest}"))
        assert following is not None
        return await following

    told = await asyncio.gather(*map(one, wrong), return_exceptions=True)
    assert [type(answer) for answer in told] == [Conflict, AskReply, AskReply]
    stored = await store.state("x")
    assert (stored.told, stored.rounds) == (3, 5)


async def test_more_asks_than_one_turn_serves_are_all_answered(store: Store):
    dispatcher = await make_dispatcher(store)
    replies = await asyncio.gather(*(dispatcher.ask(AskRequest(count=30)) for _ in range(10)))
    assert sorted(pick.number for reply in replies for pick in reply.picks) == list(range(1, 301))
    assert {len(reply.picks) for reply in replies} == {30}
    assert (await store.state("x")).rounds == 300


async def test_what_has_not_changed_is_not_parsed_again(store: Store):
    dispatcher = await make_dispatcher(store)
    await dispatcher.ask(AskRequest(count=250))
    experiment = dispatcher.info
    before = PolicyState(experiment, await store.state("x"))
    told, *others = [before.open_picks[number] for number in range(1, 251)]
    await dispatcher.tell(batch(told))
    after = PolicyState(experiment, await store.state("x", before.stored), before)
    assert all(after.open_picks[pick.number] is pick for pick in others)
    assert all(one is other for one, other in zip(after.stored.open_picks, before.stored.open_picks[1:], strict=True))


class Counting(Store):
    """A store that counts the states that it answered."""

    states = 0

    async def exchange(self, *arguments: Any, **options: Any) -> Exchanged:
        done = await super().exchange(*arguments, **options)
        self.states += done.state is not None
        return done


async def test_no_ask_needs_more_than_two_states_while_replicas_compete(store: Store, redis: Redis):
    """Unless a turn is at an end before its holder comes to it, which takes half a second."""
    await make_dispatcher(store)
    one, other = Counting(redis), Counting(redis)
    ours, theirs = await make_dispatcher(one), await make_dispatcher(other)
    busy = True

    async def compete(worker: str) -> None:
        pick = await first(theirs, worker)
        while busy:
            pick = await round_(theirs, pick)

    competing = [asyncio.create_task(compete(f"w{n}")) for n in range(4)]
    needed = []
    for n in range(30):
        before = one.states
        await ours.ask(AskRequest(request_id=f"ask-{n}"))
        needed.append(one.states - before)
    busy = False
    await asyncio.gather(*competing)
    assert max(needed) <= 2
    assert other.states > 0, "they did compete"
    stored = await store.state("x")
    assert stored.rounds == stored.told + len(stored.open_picks)


@pytest.mark.parametrize("limit", ["budget", "open picks"])
async def test_asks_that_a_limit_refuses_read_the_state_once_however_many_come(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, limit: str
):
    monkeypatch.setattr(dispatcher_module, "DRAINING", math.inf)
    dispatcher = await make_dispatcher(store, budget=8 if limit == "budget" else None)
    dispatcher._pick_limits = PickLimits(1000 if limit == "budget" else 2, 1000, 1000)
    one, other = [await first(dispatcher, worker) for worker in "uv"]
    assert (await dispatcher.ask(AskRequest(worker="w"))).picks == []
    before = await calls(redis)
    replies = [await dispatcher.ask(AskRequest(worker="w")) for _ in range(20)]
    assert {(len(reply.picks), reply.retry_after, reply.ended) for reply in replies} == {(0, math.inf, False)}
    assert await calls(redis) == before
    assert await first(dispatcher, "v") == other, "a worker's own pick is given again"
    # Room is noticed at once: by a tell of fewer rows, and by what a route announces.
    await dispatcher.tell(batch(one, rows=2))
    again = (await dispatcher.ask(AskRequest(worker="w"))).picks
    assert [pick.size for pick in again] == [2 if limit == "budget" else 4]
    assert (await dispatcher.ask(AskRequest(worker="x"))).picks == []
    await store.give_up("x", other.number, "", nonce=other.nonce)
    dispatcher.wake()
    assert len((await dispatcher.ask(AskRequest(worker="x"))).picks) == 1


KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 8}
PAIRS = {
    "metric": "conditional-vendi",
    "dimension": 10,
    "kernel": KERNEL,
    "prompt_kernel": KERNEL,
    "prompt_dimension": 2,
    "prompts": [f"prompt {n}" for n in range(7)],
}
WORKERS = [None, "u", "v"]
picks = st.integers(0, 99)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(WORKERS), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.booleans(), picks),
        st.tuples(st.just("tell together"), st.lists(picks, min_size=2, max_size=4)),
        st.tuples(st.just("tell another batch"), picks),
        st.tuples(st.just("tell in part"), st.integers(1, 3), picks),
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.sampled_from(["tell elsewhere", "give up", "expire"]), picks),
        st.tuples(st.just("state"), st.integers(0, 2), st.sampled_from(["active", "active", "paused", "retired"])),
        st.tuples(st.just("cost"), st.integers(0, 2), st.sampled_from([0.5, 3.0])),
        st.tuples(st.just("control"), st.sampled_from(["budget", "max_cost"]), st.sampled_from([21, 62, 1000])),
        st.tuples(st.just("estimate"), st.integers(0, 2), st.floats(0.0, 9.0)),
        st.tuples(st.just("generator")),
    ),
    min_size=5,
    max_size=40,
)


class World:
    """A dispatcher, and everything that happens to its experiment."""

    def __init__(self, redis: Redis, config: dict[str, object]) -> None:
        fields = {"name": "x", "generators": ["a", "b", "c"], "metric": "is", "dimension": 10, "max_wait": 0.0}
        self.config = config_of(**{**fields, "batch_size": 4, "stop": False, **config})
        self.redis, self.store = redis, Store(redis)
        self.experiment = experiment_of(self.config)
        self.dispatcher = Dispatcher(self.store, self.experiment, PickLimits(20, 4, 1000))
        self.picks: dict[int, Pick] = {}

    async def check(self) -> bool:
        """Whether the dispatcher knows the state; it is then that of the store."""
        known, dispatcher = self.dispatcher._state, self.dispatcher
        if known is None or not dispatcher._is_known or known.stored.state_token != await self.state_token():
            return False
        read = PolicyState(self.experiment, await self.store.state("x"))
        if read.stored.state_token != known.stored.state_token:  # a lease that ran out was freed
            return False
        assert comparable(known) == comparable(read)
        again = PolicyState(self.experiment, await self.store.state("x", known.stored), known)
        assert comparable(again) == comparable(read), "what has not changed may be taken from another state"
        return True

    async def state_token(self) -> str:
        return (await self.redis.hget("optimist:{x}:counts", "state_token") or b"").decode()

    def took(self, reply: AskReply) -> None:
        self.picks |= {pick.number: pick for pick in reply.picks}

    def chosen(self, number: int) -> Pick | None:
        return list(self.picks.values())[number % len(self.picks)] if self.picks else None

    async def tell(self, pick: Pick, then: bool, digest: str = "digest", rows: int | None = None) -> None:
        asked = AskRequest(worker=pick.worker, request_id=f"after-{pick.nonce}") if then else None
        # Every third batch of a generator repeats an earlier one.
        measures = Measures(f"{ord(pick.generator):08x}{pick.number % 3:08x}")
        batch = PickBatch(pick.number, pick.nonce, Contents(digest, rows or pick.size, b"body", measures))
        _, following = await self.dispatcher.tell(batch, asked)
        if following is not None:
            self.took(await following)

    async def step(self, name: str, *values: Any) -> None:
        store = self.store
        if name == "ask":
            self.took(await self.dispatcher.ask(AskRequest(worker=values[0], count=values[1])))
        elif name == "state":
            await store.set_state("x", *values)
        elif name == "cost":
            await store.control("x", {f"cost:{'abc'[values[0]]}": str(values[1])})
        elif name == "control" and (values[0] == "budget" or self.config.costs):
            await store.control("x", {values[0]: str(values[1])})
        elif name == "generator":
            await store.add_generator("x", "d", cost=1.0)
        elif name == "estimate":
            await self.estimate(*values)
        elif name == "tell together":
            chosen = {pick.number: pick for pick in map(self.chosen, values[0]) if pick is not None}
            await asyncio.gather(*(self.tell(pick, then=True) for pick in chosen.values()))
        elif name == "append":
            await store.append("x", values[0], f"{values}", Contents("digest", 3, b"body"), start=values[1])
        elif (pick := self.chosen(values[-1])) is not None:
            await self.end(name, pick, *values[:-1])

    async def end(self, name: str, pick: Pick, then: bool = True) -> None:
        if name == "tell":
            await self.tell(pick, then)
        elif name == "tell in part":
            await self.tell(pick, True, rows=min(int(then), pick.size))
        elif name == "tell another batch":
            await self.tell(pick, then, "another")
        elif name == "tell elsewhere":
            await self.store.exchange("x", [PickBatch(pick.number, pick.nonce, Contents("digest", pick.size, b"body"))])
        elif name == "give up":
            await self.store.give_up("x", pick.number, "tired", nonce=pick.nonce)
        elif name == "expire":
            await self.redis.zadd("optimist:{x}:leases", {str(pick.number): 1.0}, xx=True)

    async def estimate(self, ordinal: int, value: float) -> None:
        generator = (await self.store.state("x")).generators[ordinal]
        label = self.config.metric.shown_label
        await put_estimate(self.store, ordinal, generator.seq, value, generator.samples, error=0.5, label=label)


@example(
    steps=[("state", 0, "paused"), ("estimate", 1, 0.0), ("estimate", 2, 0.0), ("ask", None, 1)],
    config={"rescore_growth": 0.0},
)
@example(  # another batch has told three of the four indices of the first pick
    steps=[("ask", None, 3), ("append", 0, 1), ("ask", None, 1), ("tell", False, 0), ("ask", None, 1)],
    config={},
)
@example(  # all of them, and the batch is told together with the next one
    steps=[("ask", None, 3), ("append", 0, 0), ("append", 0, 1), ("ask", None, 1), ("tell together", [0, 1])],
    config={},
)
@example(  # those that a batch leaves
    steps=[("ask", None, 3), ("append", 0, 2), ("ask", None, 1), ("tell in part", 1, 0), ("ask", None, 3)],
    config={},
)
@given(
    steps=STEPS,
    config=st.sampled_from(
        [
            *({"rescore_growth": 0.0}, {}, PAIRS),
            {"rescore_growth": 1.0, "costs": {"a": 1.0, "b": 2.0, "c": 0.25}, "max_cost": 200.0},
        ]
    ),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_a_dispatcher_knows_is_what_reading_shows(server: Any, steps: list[Any], config: dict[str, object]):
    async def run() -> None:
        async with connect(server.url) as redis:
            await redis.flushall()
            world = World(redis, config)
            await create(world.store, world.experiment)
            for step in steps:
                with contextlib.suppress(StoreError):  # another batch for a pick, the last active generator
                    await world.step(*step)
                await world.check()
            # However it went, it knows the state again after the next rounds by nobody else.
            await world.store.control("x", {"budget": "100000", "max_cost": ""})
            reply = await world.dispatcher.ask(AskRequest())
            for _ in range(2 if reply.picks else 0):
                await world.tell(reply.picks[0], then=True)
            assert await world.check() or not reply.picks

    asyncio.run(run())


async def test_what_a_pick_or_a_batch_leaves_is_known_without_reading(redis: Redis):
    world = World(redis, {"generators": ["a"], "policy": "uniform"})
    await create(world.store, world.experiment)

    async def given(*step: Any) -> list[tuple[int, int]]:
        """The starts and sizes of the new picks."""
        before = len(world.picks)
        await world.step(*step)
        assert await world.check()
        return [(pick.start or 0, pick.size) for pick in list(world.picks.values())[before:]]

    assert await given("ask", None, 1) == [(0, 4)]
    assert await given("tell in part", 3, 0) == [(3, 1)], "what the batch left"
    assert await given("tell", True, 1) == [(4, 4)]
    await world.step("control", "budget", 10)
    assert await given("ask", None, 1) == [(8, 2)], "the budget leaves two samples"
    await world.step("give up", 2)
    assert await given("ask", None, 1) == [(4, 4)], "returned slices go first, the lowest before the others"
    await world.step("give up", 4)
    await world.step("control", "budget", 7)
    assert await given("ask", None, 1) == [(4, 1)], "one that is larger than wanted is split"
    await world.step("control", "budget", 1000)
    assert await given("ask", None, 4) == [(5, 3), (10, 2), (12, 4), (16, 4)]
    assert await given("tell in part", 1, 7) == [(11, 1)]
    seeds = {(pick.seed - (pick.start or 0)) % 2**32 for pick in world.picks.values()}
    assert len(seeds) == 1


async def test_which_returned_runs_are_dropped_is_known_without_reading(redis: Redis):
    world = World(redis, {"generators": ["a"], "policy": "uniform"})
    await create(world.store, world.experiment)
    await world.step("ask", None, 2)
    runs = [Returned(100 + 2 * n, 1) for n in range(SLICES)]
    await redis.hset("optimist:{x}:returned", "0", " ".join(f"{start} {size}" for start, size in runs))
    await world.step("control", "budget", 1000)
    await world.step("ask", "other", 1)
    assert world.picks[3].start == 100, "the first run"
    for number in (1, 2):
        await world.tell(world.picks[number], then=False, rows=3)
    assert await world.check()
    [generator] = (await world.store.state("x")).generators
    assert generator.returned == [Returned(3, 1), Returned(7, 1), *runs[1:-1]]
