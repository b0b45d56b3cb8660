"""The dispatcher works from what it knows: how often it asks Redis, and what it notices. That what it knows is right
shows test_dispatcher_model."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from redis.asyncio import Redis

from optimist.dispatch import dispatcher as dispatcher_module
from optimist.dispatch.dispatcher import Dispatcher
from optimist.experiments.assignment import MostOpen
from optimist.experiments.state import PolicyState
from optimist.records import Batch, Conflict, Contents, Exchanged
from optimist.store import Store
from optimist_client.models import AskReply, AskRequest, Pick
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import claimed
from tests.support.made import create


async def make_dispatcher(store: Store, **config: object) -> Dispatcher:
    given = {"name": "x", "generators": ["a", "b", "c"], "metric": "is", "dimension": 10, "batch_size": 4}
    experiment = experiment_of(config_of(**{**given, "max_wait": 0.0, **config}))
    await create(store, experiment, batch_size=None)
    return Dispatcher(store, experiment, most_open=MostOpen(1000, 1000, 1000))


def batch(pick: Pick, rows: int = 4, body: bytes = b"body") -> Batch:
    return Batch(pick.number, pick.nonce, Contents("digest", rows, body))


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
    claim = await claimed(store, "x", 0, "scorer", 60, "is")
    estimate = (
        '{"value": 1, "plug_in": 1, "samples": 4, "lower": 0, "upper": 2, "optimistic": 2, "standard_error": 0.1, '
    )
    estimate += '"stopping_error": 0.1, "scale": "log", "lower_is_better": false, "warnings": []}'
    assert await store.put_estimate("x", 0, 1, estimate, claim, label="is")
    assert (await round_(dispatcher, pick)).positions == [1, 0, 0]


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
            Batch(pick.number, pick.nonce, Contents("another", 4, b"body")), AskRequest(request_id="other")
        )
    assert (await store.state("x")).rounds == 2


async def test_one_conflict_among_many_is_one_answer(store: Store):
    dispatcher = await make_dispatcher(store)
    picks = [await first(dispatcher, worker) for worker in "uvw"]
    await dispatcher.tell(batch(picks[0]))
    wrong = [Batch(picks[0].number, picks[0].nonce, Contents("another", 4, b"")), batch(picks[1]), batch(picks[2])]

    async def one(told: Batch) -> AskReply:
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
    dispatcher._most_open = MostOpen(1000 if limit == "budget" else 2, 1000, 1000)
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
