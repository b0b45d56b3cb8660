"""Turns at the event loop: who used it least begins next, and whatever a coroutine does of it is charged."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from optimist.turns import PASS, Turns, charged


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_one_who_has_many_requests_delays_another_by_no_more_than_one_of_them():
    turns, order = Turns(), list[str]()

    async def request(who: str, seconds: float) -> None:
        await turns.take(who)

        async def work() -> None:
            order.append(who)
            burn(seconds)

        await turns.metered(who, work())

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(request("noisy", 2 * PASS))
        await asyncio.sleep(0)  # the first has begun
        for _ in range(5):
            group.create_task(request("quiet", PASS / 4))
    last = max(place for place, who in enumerate(order) if who == "quiet")
    assert Counter(order) == {"noisy": 20, "quiet": 5}
    assert last <= 8, order


async def test_while_there_is_time_left_everybody_begins_at_once():
    turns = Turns()
    for who in "abc":
        taking = asyncio.ensure_future(turns.take(who))
        await asyncio.sleep(0)
        assert taking.done()


async def test_requests_that_are_given_up_while_they_wait_keep_nobody_waiting():
    turns = Turns()
    turns.charge("a", 2 * PASS)
    waiting = [asyncio.ensure_future(turns.take("b")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    async with asyncio.timeout(10.0):
        await waiting[2]


async def test_what_a_coroutine_does_is_charged_step_by_step_and_so_is_what_it_begins():
    turns, found = Turns(), Counter[str]()
    turns.charge = lambda who, seconds: found.update({who: seconds})  # type: ignore[method-assign, assignment]

    async def begun() -> str:
        burn(0.02)
        await asyncio.sleep(0.001)
        burn(0.02)
        return "done"

    async def work() -> str:
        task = asyncio.create_task(charged(begun()))
        await asyncio.sleep(0.2)
        return await task

    assert await turns.metered("a", work()) == "done"
    assert 0.04 <= found["a"] < 0.15, "not what it waited"
    assert await charged(begun()) == "done", "for nobody"
    assert set(found) == {"a"}


async def test_errors_and_cancellations_reach_the_coroutine():
    turns, seen = Turns(), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(turns.metered("a", work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        await turns.metered("a", fails())
