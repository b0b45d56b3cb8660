"""Models that route prompts, and their tables, in the store: one claim for both, refused where a batch in them counts
no longer, read by their name alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from optimist.records import (
    ChainedExtent,
    LogExtent,
    StoredArtefact,
    Superseded,
    is_outgrown,
)
from optimist.store import MIXTURE, ROUTES_UNIT, SCORED, WANTED, Announcement, Place, Store, kernels_digest
from tests.support.exchanges import MODEL, ROUTE_TABLE, append_to, claimed

BODY = b"\x00model\xff \n"


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, route_growth=0.25, labels=[""])


async def token_of(store: Store, place: Place) -> str:
    return await claimed(store, "x", place, "me")


async def token(store: Store) -> str:
    return await token_of(store, ROUTES_UNIT)


async def now(store: Store, *generators: int) -> list[ChainedExtent]:
    """The logs as they are."""
    states = (await store.state("x")).generators
    log = {g: (await store.read_log("x", g, states[g].seq - 1))[0] for g in generators or range(len(states))}
    return [ChainedExtent(g, entry.seq, states[g].samples, entry.chain) for g, entry in log.items()]


async def put(
    store: Store, model: bytes = b"", table: str = "", parts: list[ChainedExtent] | None = None, kernels: str = ""
) -> bool:
    parts = await now(store) if parts is None else parts
    mine = await token(store)
    stands = [
        await store.put_artefact("x", artefact, payload, mine, parts, point=point, kernels=kernels)
        for artefact, payload, point in ((MODEL, model, ""), (ROUTE_TABLE, table, f"[{table}]"))
        if payload
    ]
    return all(stands)


async def parts_of(store: Store) -> Mapping[int, LogExtent]:
    """Of the table."""
    table = await store.artefact("x", ROUTE_TABLE)
    return {} if table is None else table.parts


async def found(store: Store) -> tuple[bytes | None, str | None]:
    """The model and the table; the model's name is that of the state."""
    model, table = [await store.artefact("x", artefact) for artefact in (MODEL, ROUTE_TABLE)]
    named = (await store.state("x")).model
    assert (None if model is None else model.made) == (None if named is None else named.made)
    return None if model is None else model.payload, None if table is None else table.payload.decode()


async def test_model_and_table_are_read_as_they_were_made_under_one_claim(store: Store):
    await append_to(store, 0, 1, 1)
    assert await found(store) == (None, None)
    parts = await now(store)
    for place in (0, MIXTURE):
        other = await token_of(store, place)
        with pytest.raises(Superseded):
            await store.put_artefact("x", MODEL, BODY, other, parts)
    assert await put(store, BODY)
    assert await found(store) == (BODY, None)
    assert (await store.state("x")).model == StoredArtefact("any", {0: LogExtent(1, 5), 1: LogExtent(2, 10)})
    await append_to(store, 0)
    assert await put(store, table='{"gain": 1}')
    assert await found(store) == (BODY, '{"gain": 1}')
    assert await parts_of(store) == {0: LogExtent(2, 10), 1: LogExtent(2, 10)}
    assert await store.claim("x", ROUTES_UNIT, "other", 60, label="") is None
    await store.end_claim("x", ROUTES_UNIT, await token(store), label="")
    assert await store.claim("x", ROUTES_UNIT, "other", 60, label="") is not None
    with pytest.raises(ValueError, match="a payload"):
        await store.put_artefact("x", ROUTE_TABLE, "", "", parts)


async def test_a_table_alone_changes_the_fingerprint(store: Store):
    await append_to(store, 0, 1)
    before = await store.fingerprints(["x"])
    assert await store.fingerprints(["x"]) == before
    assert await put(store, table='{"gain": 1}')
    assert await store.fingerprints(["x"]) != before


async def test_older_ones_do_not_replace_them_and_a_repeat_is_known(store: Store):
    await append_to(store, 0, 1)
    before = await now(store)
    await append_to(store, 0)
    assert await put(store, b"new", "new")
    state = await store.state("x")
    name = state.model and state.model.made
    assert await put(store, b"new", "new"), "a repeat"
    assert not await put(store, b"old", parts=before)
    assert not await put(store, b"old", "old", parts=before)
    assert await store.state("x") == state
    assert ((await store.state("x")).model or StoredArtefact("", {})).made == name
    assert len(await store.artefact_curve("x", ROUTE_TABLE)) == 1
    assert await found(store) == (b"new", "new")
    await append_to(store, 1)
    # Without a generator that was retired meanwhile.
    assert await put(store, b"of one", parts=await now(store, 1))
    assert list((await store.state("x")).model.parts) == [1]  # pyright: ignore[reportOptionalMemberAccess]


async def test_a_model_changes_what_picks_are_made_from_and_is_announced(store: Store):
    await append_to(store, 0, 1)
    heard: list[Announcement] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def listen() -> None:
        async with store.announcements(SCORED, WANTED) as announcements:
            async for announcement in announcements:
                began.set()
                heard.extend([announcement] if announcement is not None else [])
                if len(heard) == 2:
                    ended.set()

    listening = asyncio.create_task(listen())
    await began.wait()
    before = await store.state("x")
    assert await put(store, table="table")
    assert await store.state("x") == before, "not even the version"
    assert await put(store, BODY)
    after = await store.state("x")
    await store.want("x", ROUTE_TABLE)
    await ended.wait()
    listening.cancel()
    # In a cluster they come in any order.
    assert set(heard) == {Announcement(SCORED, "x", 0, 10), Announcement(WANTED, "x", 0, 0, ROUTE_TABLE)}
    assert after.version > before.version
    assert after.state_token != before.state_token
    assert (await store.exchange("x", wants_state=True)).state == after
    for known in (before, after):
        again = (await store.exchange("x", wants_state=True, known=known)).state
        assert again == after
        assert again == await store.state("x", known)


def test_a_model_is_outgrown_by_all_samples_and_by_those_of_a_newcomer():
    made = {0: LogExtent(100, 1000), 1: LogExtent(10, 10)}

    def is_due(old: int, new: int, seq: int = 1000) -> bool:
        return is_outgrown(made, {0: LogExtent(seq, old), 1: LogExtent(seq, new)}, 0.1, 0.25)

    assert [is_due(1000, 12), is_due(1000, 13), is_due(1097, 12), is_due(1099, 12)] == [False, True, False, True]
    assert not is_due(1000, 13, seq=10), "nothing was told since"
    assert not is_outgrown(made, {0: LogExtent(100, 1000), 1: LogExtent(20, 20)}, 0.1), "mixtures look at all samples"


async def test_one_is_due_as_samples_grow_and_generators_change(store: Store):
    async def needs() -> bool:
        return (await store.state("x")).is_routing_due

    await append_to(store, 0)
    await append_to(store, 1, rows=2)
    assert not await needs(), "two samples of one"
    await append_to(store, 1, rows=3)
    assert await needs()
    assert not (await store.state("x")).is_routing_ready, "the bandwidth may be open"
    await store.put_estimate("x", 0, 1, "{}", await token_of(store, 0), label="")
    assert (await store.state("x")).is_routing_ready
    await put(store, BODY)
    assert not await needs()
    await append_to(store, 1, rows=1)
    assert not await needs(), "11 samples, and 10 before"
    await append_to(store, 1, rows=1)
    assert await needs(), "7 of the second one, and 5 before"
    await put(store, BODY)
    await store.add_generator("x", "c")
    assert not await needs()
    await append_to(store, 2, rows=2)
    assert not await needs(), "the others go on without it"
    await append_to(store, 2, rows=1)
    assert await needs()
    await put(store, BODY)
    await store.put_scoring_error("x", 2, "torn", await token_of(store, 2), label="")
    assert await needs(), "one that cannot be scored is no part of it"
    await store.put_estimate("x", 2, 2, "{}", await token_of(store, 2), label="")
    assert not await needs()
    await store.set_state("x", 0, "paused")
    assert not await needs()
    await store.set_state("x", 0, "retired")
    assert await needs()
    await put(store, BODY, parts=await now(store, 1, 2))
    assert not await needs()
    await append_to(store, 1, rows=5)
    assert await needs()
    await put(store, BODY, parts=[replace(part, samples=part.samples - 1) for part in await now(store, 1, 2)])
    assert not await needs(), "it is of all logs, but a sample of each cannot be read"


async def test_points_of_tables_whenever_samples_have_grown_by_a_32nd(store: Store):
    await append_to(store, 0, 1, rows=50)
    await put(store, BODY, "100")
    await append_to(store, 0, rows=3)
    await put(store, BODY, "103")
    await append_to(store, 0, rows=1)
    await put(store, BODY)
    await put(store, table="104")
    points = await store.artefact_curve("x", ROUTE_TABLE)
    assert [(one.told, one.samples, one.point) for one in points] == [(2, 100, "[100]"), (4, 104, "[104]")]
    assert points[1].parts == {0: LogExtent(3, 54), 1: LogExtent(1, 50)}
    assert await store.artefact_curve("x", ROUTE_TABLE, 1) == points[1:]


async def test_what_was_made_of_a_retracted_batch_goes_and_the_rest_stays(store: Store):
    await append_to(store, 0, 0, 1)
    await put(store, b"first", "first")
    await append_to(store, 0, rows=50)
    await put(store, table="second")
    await store.put_scoring_error("x", ROUTES_UNIT, "torn", await token(store), label="")
    assert (await store.state("x")).routes_error == "torn"
    await store.retract("x", generator=0, position=3)
    assert await found(store) == (b"first", None)
    assert [one.point for one in await store.artefact_curve("x", ROUTE_TABLE)] == ["[first]"]
    assert (await store.state("x")).routes_error is None
    with pytest.raises(Superseded, match="lost"):
        await put(store, b"of before", parts=[ChainedExtent(0, 3, 60), ChainedExtent(1, 1, 5)])
    await store.retract("x", generator=1, position=1)
    assert await found(store) == (None, None)
    assert await store.artefact_curve("x", ROUTE_TABLE) == []
    await append_to(store, 1)
    assert await put(store, b"third", "third")
    await store.put_scoring_error("x", ROUTES_UNIT, "torn", await token(store), label="")
    assert await put(store, b"fourth")
    assert (await store.state("x")).routes_error is None
    await store.retract("x", generator=0)
    assert await found(store) == (None, None)


async def test_one_of_a_bandwidth_that_is_fixed_anew_goes(store: Store):
    await append_to(store, 0, 1)
    [first] = await store.read_log("x", 0, 0)
    await store.put_fitted("x", ROUTES_UNIT, b"sigma", await token(store), {0: first}, label="")
    with pytest.raises(Superseded, match="kernels"):
        await put(store, BODY, kernels=kernels_digest(b"other"))
    assert await put(store, BODY, "table", kernels=kernels_digest(b"sigma"))
    await store.retract("x", generator=0, position=1, fits_kernels=True)
    assert await found(store) == (None, None)
    assert await store.artefact_curve("x", ROUTE_TABLE) == []


async def test_one_of_lost_batches_is_refused_unless_a_snapshot_has_their_place(store: Store):
    await append_to(store, 0, 1)
    parts = await now(store)
    assert await store.put_snapshot("x", 0, 1, b"statistic", await token_of(store, 0), chain=parts[0].chain, label="")
    await append_to(store, 0)
    for wrong in (ChainedExtent(0, 1, 5, "0" * 40), ChainedExtent(0, 3, 5, parts[0].chain)):
        with pytest.raises(Superseded, match="lost"):
            await put(store, BODY, parts=[wrong, parts[1]])
    assert await put(store, BODY, parts=parts)


async def test_nothing_of_a_deleted_experiment_stays(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    await put(store, BODY, "table")
    await store.delete_experiment("x")
    assert await redis.keys("optimist:{x}:*") == []
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, route_growth=0.25, labels=[""])
    assert await found(store) == (None, None)


async def test_an_import_makes_its_model_anew(store: Store):
    await append_to(store, 0, 1)
    await put(store, BODY)
    known = await store.state("x")
    async with store.restoring("y") as restoration:
        for generator in (0, 1):
            await restoration.add_entries(generator, await store.read_log("x", generator, 0), keep_log=False)
        await restoration.commit("{}", 0.0, known, await store.history("x"), {})
    state = await store.state("y")
    assert (state.route_growth, state.model, state.is_routing_due) == (0.25, None, True)
    assert await store.claim("y", ROUTES_UNIT, "me", 60, label="") is not None
