"""The blocking and the asyncio client are one: same methods, same signatures, same words."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import optimist_client
from optimist_client.operations import Awaiting, Blocking, iteration, operation

PAIRS = [
    (optimist_client.Optimist, optimist_client.AsyncOptimist),
    (optimist_client.Experiment, optimist_client.AsyncExperiment),
    (optimist_client.Pick, optimist_client.AsyncPick),
]


def public(kind: type) -> dict[str, object]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaiting"), PAIRS)
def test_both_clients_have_the_same_methods(blocking: type, awaiting: type):
    ours, theirs = public(blocking), public(awaiting)
    assert set(ours) == set(theirs)
    assert {name for name, member in ours.items() if callable(member)}
    for name, member in ours.items():
        assert member.__doc__ == theirs[name].__doc__
        assert member.__doc__
        if callable(member):
            assert inspect.signature(member) == inspect.signature(theirs[name])
            assert not inspect.iscoroutinefunction(member)
            assert not inspect.isasyncgenfunction(member)
            assert inspect.iscoroutinefunction(theirs[name]) or inspect.isasyncgenfunction(theirs[name])
    assert inspect.signature(blocking) == inspect.signature(awaiting)


class Counting:
    def __init__(self, suspends: bool = False):
        self.closed = False
        self.suspends = suspends

    @operation
    async def double(self, number: int) -> int:
        """Twice the number."""
        await asyncio.sleep(0 if not self.suspends else 0.001)
        return 2 * number

    @operation
    async def fails(self) -> int:
        """Raises."""
        raise KeyError("lost")

    @iteration
    async def count(self, end: int):
        """From 0 on."""
        try:
            for number in range(end):
                yield number
        finally:
            self.closed = True


class Here(Counting, Blocking):
    pass


class There(Counting, Awaiting):
    pass


async def test_operations_answer_or_are_awaited():
    # A blocking client works where an event loop runs, as in notebooks.
    assert [*Here().count(3)] == [0, 1, 2] == [number async for number in There().count(3)]
    assert await There().double(4) == 8
    assert await Counting.double(There(), 4) == 8
    with pytest.raises(KeyError, match="lost"):
        Here().fails()
    with pytest.raises(KeyError, match="lost"):
        await There().fails()


def test_a_loop_that_breaks_closes_what_it_went_through():
    here = Here()
    for number in here.count(5):
        if number == 1:
            break
    assert here.closed


def test_a_blocking_operation_that_would_wait_for_an_event_loop_says_so():
    with pytest.raises(RuntimeError, match="suspended"):
        Here().double(1)
