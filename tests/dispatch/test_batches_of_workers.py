"""No worker hands in more batches than the experiment takes of one, however its picks end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict

import pytest

from optimist.dispatch.dispatcher import Dispatcher
from optimist.experiments.assignment import PickLimits
from optimist.records import Conflict, Contents, PickBatch, Refused
from optimist.store import Store
from optimist_client.models import AskRequest, Pick, WaitReason
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import settle
from tests.support.made import create

MOST = 3


@pytest.fixture
async def processes(store: Store) -> list[Dispatcher]:
    """Two that serve the experiment "x"."""
    given = {"generators": ["a", "b"], "metric": "is", "dimension": 10, "batch_size": 4, "max_wait": 0.0}
    experiment = experiment_of(config_of(name="x", max_batches_per_worker=MOST, **given))
    await create(store, experiment)
    return [Dispatcher(store, experiment, PickLimits(1000, 1000, 1000)) for _ in range(2)]


def batch(pick: Pick) -> PickBatch:
    return PickBatch(pick.number, pick.nonce, Contents(f"digest {pick.number}", 4, b"body"))


async def test_a_worker_that_has_handed_in_all_gets_no_pick(store: Store, processes: list[Dispatcher]):
    one, other = processes
    picks = (await one.ask(AskRequest(worker="w", count=5))).picks
    assert len(picks) == MOST
    await one.tell(batch(picks[0]))
    await store.give_up("x", picks[1].number, "tired")
    other.wake()
    [again] = (await other.ask(AskRequest(worker="w", count=5))).picks[1:]
    for pick in (picks[2], again):
        await other.tell(batch(pick))
    for process in processes:
        process.wake()
        for _ in range(2):  # by a state just read, and by the kept one
            reply = await process.ask(AskRequest(worker="w"))
            assert (reply.picks, reply.ended, reply.retry_after) == ([], False, None)
            assert reply.waited_for == WaitReason.WORKER_BATCHES
        assert (await process.ask(AskRequest(worker=f"{process}"[-9:-1]))).picks, "others go on"
    # What is retracted was handed in.
    await store.retract("x", pick=picks[0].number)
    one.wake()
    assert (await one.ask(AskRequest(worker="w"))).picks == []


async def test_a_late_batch_is_refused_where_it_would_be_one_too_many(store: Store, processes: list[Dispatcher]):
    one, _ = processes
    late, *others = (await one.ask(AskRequest(worker="w", count=MOST))).picks
    await store._commands.call("ZADD", store._commands.key("x", "leases"), "XX", 1.0, late.number)
    one.wake()
    new = (await one.ask(AskRequest(worker="w", count=MOST))).picks[-1]
    for pick in (*others, new):
        await one.tell(batch(pick))
    with pytest.raises(Refused, match="the worker w has handed in all batches"):
        await settle(store, "x", late.number, "digest", 4, b"body")
    stored = await store.state("x")
    assert (stored.told, stored.of_workers) == (MOST, {"w": MOST})


@pytest.mark.parametrize("seed", range(3))
async def test_no_worker_hands_in_more_through_any_process(seed: int, store: Store, processes: list[Dispatcher]):
    handed_in = defaultdict[str, set[int]](set)

    async def work(worker: str, place: int) -> None:
        drawn = random.Random(f"{seed} {worker} {place}")
        for number in range(8):
            process = drawn.choice(processes)
            reply = await process.ask(AskRequest(worker=worker, request_id=f"{worker}-{place}-{number}"))
            for pick in reply.picks:
                if drawn.random() < 0.3:
                    await store._commands.call("ZADD", store._commands.key("x", "leases"), "XX", 1.0, pick.number)
                    await store.state("x")
                with contextlib.suppress(Refused, Conflict):  # one too many, and late; or given up by the other one
                    if drawn.random() < 0.2:
                        await store.give_up("x", pick.number, "tired")
                    else:
                        await process.tell(batch(pick))
                        handed_in[worker].add(pick.number)  # also where another pick brought its samples first

    await asyncio.gather(*(work(worker, place) for worker in "uvw" for place in range(2)))
    batches = {worker: len(picks) for worker, picks in handed_in.items()}
    assert batches == (await store.state("x")).of_workers == dict.fromkeys("uvw", MOST)
