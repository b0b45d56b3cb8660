"""Pages of names while names come and go between them: nothing that stays is skipped, and nothing is there twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import hypothesis.strategies as st
from hypothesis import given

from optimist.api.pages import page_of, place_of
from optimist.store import EmbeddedRedis, Store, connect
from optimist.store.keys import EXPERIMENTS

NAMES = [f"e{n}" for n in range(8)]
CHANGES = st.lists(st.sampled_from([(is_made, name) for is_made in (True, False) for name in NAMES]), max_size=4)


async def put(store: Store, name: str) -> None:
    await store.create_experiment(name, "{}", ["a"], growth=0.0, labels=[""])


async def alive(store: Store, names: Sequence[str]) -> list[str | None]:
    return [name if await store.config(name) is not None else None for name in names]


@given(first=st.permutations(NAMES), limit=st.integers(1, 4), between=st.lists(CHANGES, max_size=8), tied=st.booleans())
def test_pages_have_each_that_stays_once(
    server: EmbeddedRedis, first: list[str], limit: int, between: list[list[tuple[bool, str]]], tied: bool
):
    async def listed() -> tuple[list[str], list[str], set[str]]:
        """All in the order of before the first page, those on the pages, and those that were there all the while."""
        async with connect(server.url) as redis:
            await redis.flushall()
            store, found, stayed, cursor = Store(redis), list[str](), set(first), None
            for name in first:
                await put(store, name)
            if tied:  # several replicas may make some at the same moment
                await redis.zadd(EXPERIMENTS, dict.fromkeys(first[:5], 1000000000.0 + 1 / 3))
            before = [place.name for place in await store.newest()]
            for changes in [*between, *([[]] * len(NAMES))]:
                page, cursor = await page_of(await store.newest(place_of(cursor)), limit, partial(alive, store))
                found += page
                assert len(page) <= limit
                if cursor is None:
                    return before, found, stayed
                for is_made, name in changes:
                    if is_made:
                        await put(store, name)
                    else:
                        await store.delete_experiment(name)
                        stayed.discard(name)
            raise AssertionError("there is no last page")

    before, found, stayed = asyncio.run(listed())
    assert len(found) == len(set(found))
    assert [name for name in found if name in stayed] == [name for name in before if name in stayed]
