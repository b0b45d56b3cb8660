"""Turns at the event loop: who used it least begins next, what a coroutine does is charged, and nobody saves any up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.turns import PASS, REMEMBERED, FairShares, Turns, charged, in_steps


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


COSTS = st.dictionaries(st.sampled_from("abcde"), st.floats(0.001, 1.0), min_size=2, max_size=5)


def served(shares: FairShares, costs: dict[str, float], turns: int) -> Counter[str]:
    """What each has used after so many turns in which all of them wait."""
    found = Counter[str]()
    for _ in range(turns):
        who = shares.first(costs)[0]
        shares.serve(who)
        shares.charge(who, costs[who])
        found[who] += costs[who]
    return found


@given(COSTS, st.integers(10, 300))
def test_all_that_wait_have_used_as_much_but_for_one_turn(costs: dict[str, float], turns: int):
    shares = FairShares()
    for who in costs:
        shares.wait(who)
    found = served(shares, costs, turns)
    used = [found[who] for who in costs]
    assert max(used) - min(used) <= max(costs.values()) + 1e-9


@given(COSTS, st.floats(0.001, 1.0))
def test_who_comes_after_a_long_time_gets_no_more_than_its_share_from_then_on(costs: dict[str, float], cost: float):
    shares = FairShares()
    for who in costs:
        shares.wait(who)
    served(shares, costs, 200)
    shares.wait("late")
    found = served(shares, costs | {"late": cost}, 200)
    assert all(found["late"] - found[who] <= max(*costs.values(), cost) * 2 for who in costs)


def test_those_that_used_nothing_since_are_forgotten_and_change_nothing():
    shares = FairShares()
    for number in range(10 * REMEMBERED):
        shares.wait(f"{number}")
        shares.serve(f"{number}")
        shares.charge(f"{number}", 1.0)
    shares.wait("0")
    shares.serve("0")  # everybody has used as much
    assert len(shares._used) <= 1
    shares.wait("a")
    shares.wait("b")
    assert shares.first(["a", "b"]) == ["a", "b"]


async def test_what_is_made_in_steps_lets_others_begin_after_each_pass():
    turns, order = Turns(), list[str]()

    def made() -> Iterator[int]:
        for number in range(20):
            burn(PASS / 2)
            order.append("step")
            yield number

    async def quiet() -> None:
        for _ in range(3):
            await turns.take("quiet")
            order.append("quiet")
            await asyncio.sleep(0)

    noisy = asyncio.create_task(turns.metered("noisy", in_steps(made())))
    await asyncio.sleep(0)
    await quiet()
    assert not noisy.done()
    gaps = " ".join(order).split("quiet")
    assert max(gap.count("step") for gap in gaps) <= 6, "of the pass before, while it waits, and of the next"
    assert await noisy == [*range(20)]
