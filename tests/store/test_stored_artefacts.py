"""Mixtures, models that route prompts, and their tables, in the store: under claims of their own, refused where a batch
in them counts no longer, read once by picks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.policies import blend_counts
from optimist.records import Artefact, ChainedExtent, LogExtent, NotFound, StoredArtefact, Superseded, is_outgrown
from optimist.store import (
    MIXTURE,
    MODEL_UNIT,
    SCORED,
    WANTED,
    Announcement,
    CachedState,
    ClaimSubject,
    Store,
    kernels_digest,
)
from tests.support.exchanges import MODEL, ROUTE_TABLE, append_to, claimed

MIXED, BY_RKE = Artefact("mixture", label=""), Artefact("mixture", label="rke")
ALL = [MIXED, BY_RKE, MODEL, ROUTE_TABLE]
BODY = b"\x00model\xff \n"

each = pytest.mark.parametrize("artefact", ALL, ids=lambda artefact: artefact.name)


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await created(store)


async def created(store: Store, mixes: float | None = 0.25, routes: float | None = 0.25) -> None:
    await store.delete_experiment("x")
    labels = ["", "rke"]
    create = store.create_experiment
    await create("x", "{}", ["a", "b"], growth=0.0, labels=labels, mixture_growth=mixes, model_growth=routes)


def place_of(artefact: Artefact) -> ClaimSubject:
    return MIXTURE if artefact.kind == "mixture" else MODEL_UNIT


async def token(store: Store, place: ClaimSubject = 0, label: str = "") -> str:
    return await claimed(store, "x", place, "me", 60, label)


async def now(store: Store, *generators: int) -> list[ChainedExtent]:
    """The logs as they are."""
    states = (await store.state("x")).generators
    log = {g: (await store.read_log("x", g, states[g].seq - 1))[0] for g in generators or range(len(states))}
    return [ChainedExtent(g, entry.seq, states[g].samples, entry.chain) for g, entry in log.items()]


async def put(
    store: Store,
    artefact: Artefact,
    payload: str | bytes = "{}",
    parts: list[ChainedExtent] | None = None,
    kernels: str = "",
) -> bool:
    parts = await now(store) if parts is None else parts
    mine = await token(store, place_of(artefact), artefact.label)
    point = "" if artefact == MODEL else f"[{payload}]"
    return await store.put_artefact("x", artefact, payload, mine, parts, point=point, kernels=kernels)


async def found(store: Store, artefact: Artefact) -> bytes | None:
    """Its payload; the model's name is that of the state."""
    one = await store.artefact("x", artefact)
    if artefact == MODEL:
        named = (await store.state("x")).model
        assert (named and named.made) == (one and one.made)
    return one and one.payload


async def estimate(store: Store, generator: int = 0) -> None:
    seq = (await store.state("x")).generators[generator].seq
    await store.put_estimate("x", generator, seq, "{}", await token(store, generator), label="")


@each
async def test_it_is_read_as_it_was_made_under_a_claim_of_its_own(store: Store, artefact: Artefact):
    place, label = place_of(artefact), artefact.label
    await append_to(store, 0, 1, 1)
    assert await found(store, artefact) is None
    parts = await now(store)
    for other in {0, MIXTURE, MODEL_UNIT} - {place}:
        with pytest.raises(Superseded):
            await store.put_artefact("x", artefact, BODY, await token(store, other), parts)
    assert await put(store, artefact, BODY)
    made = await store.artefact("x", artefact)
    assert made is not None
    extents = {0: LogExtent(1, 5), 1: LogExtent(2, 10)}
    assert (made.payload, made.parts, made.samples) == (BODY, extents, 15)
    assert [await found(store, other) for other in ALL if other != artefact] == [None] * 3
    assert await store.claim("x", place, "other", 60, label) is None
    await store.end_claim("x", place, await token(store, place, label), label)
    assert await store.claim("x", place, "other", 60, label) is not None
    with pytest.raises(NotFound, match="no such metric"):
        await store.claim("x", place, "me", 60, "none")
    with pytest.raises(ValueError, match="a payload"):
        await store.put_artefact("x", artefact, "", "", parts)


@each
async def test_an_older_one_does_not_replace_it_and_a_repeat_is_known(store: Store, artefact: Artefact):
    await append_to(store, 0, 1)
    before = await now(store)
    await append_to(store, 0)
    assert await put(store, artefact, "new")
    state = await store.state("x")
    assert await put(store, artefact, "new"), "a repeat"
    assert not await put(store, artefact, "old", before)
    assert await store.state("x") == state
    assert len(await store.artefact_curve("x", artefact)) == (artefact != MODEL)
    assert await found(store, artefact) == b"new"
    await append_to(store, 1)
    # Without a generator that was retired meanwhile.
    assert await put(store, artefact, "of one", await now(store, 1))
    one = await store.artefact("x", artefact)
    assert one is not None
    assert (one.payload, list(one.parts)) == (b"of one", [1])


@pytest.mark.parametrize(
    ("unread", "read", "is_goal"), [(BY_RKE, MIXED, True), (BY_RKE, MIXED, False), (ROUTE_TABLE, MODEL, True)]
)
async def test_picks_are_made_from_what_is_the_goal(store: Store, unread: Artefact, read: Artefact, is_goal: bool):
    await created(store, mixes=0.25 if is_goal else None)
    await append_to(store, 0, 1)
    wanted = [artefact for artefact in (unread, read) if artefact != MODEL]
    expected = {Announcement(WANTED, "x", 0, 0, artefact) for artefact in wanted}
    expected |= {Announcement(SCORED, "x", 0, 10)} if is_goal else set()
    async with store.announcements(SCORED, WANTED) as announcements:
        assert [await anext(announcements) for _ in range(2)] == [None, None], "subscribed to both"
        before = await store.state("x")
        assert await put(store, unread)
        assert await store.state("x") == before, "not even the version"
        assert await put(store, read)
        after = await store.state("x")
        for artefact in wanted:
            await store.want("x", artefact)
        # In a cluster they come in any order.
        assert {await anext(announcements) for _ in expected} == expected
    assert (after.version > before.version, after.state_token != before.state_token) == (is_goal, is_goal)
    assert (after.mixture is not None) == (is_goal and read == MIXED)
    for known in (None, before, after):
        assert await store.state("x", known) == after
        before = None if known is None else CachedState(known, known.instant)
        assert (await store.exchange("x", wants_state=True, cached=before)).state == after


async def test_states_leave_out_the_mixture_that_the_reader_has(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    await put(store, MIXED, "one")
    known = await store.state("x")
    assert known.mixture is not None
    # Nothing but the name is read: a text that nobody has put is not seen.
    assert await redis.hset("optimist:{x}:artefacts", "mixture::payload", "other") == 0, "it is there already"
    assert (await store.state("x", known)).mixture == known.mixture
    exchanged = (await store.exchange("x", wants_state=True, cached=CachedState(known, known.instant))).state
    assert exchanged is not None
    assert exchanged.mixture == known.mixture
    await append_to(store, 0)
    await put(store, MIXED, "two")
    newer = (await store.state("x", known)).mixture
    assert newer is not None
    assert (newer.payload, newer.parts[0]) == (b"two", LogExtent(2, 10))


async def test_a_table_alone_changes_the_fingerprint(store: Store):
    await append_to(store, 0, 1)
    before = await store.fingerprints(["x"])
    assert await store.fingerprints(["x"]) == before
    assert await put(store, ROUTE_TABLE, '{"gain": 1}')
    assert await store.fingerprints(["x"]) != before


async def test_so_does_an_estimate_by_a_watched_metric(store: Store):
    await append_to(store, 0, 1)
    token, known = await claimed(store, "x", 0, label="rke"), await store.state("x")
    before = await store.fingerprints(["x"])
    assert await store.put_estimate("x", 0, 1, "{}", token, label="rke")
    assert await store.fingerprints(["x"]) != before
    assert (await store.state("x")).state_token == known.state_token, "picks rest on the metric that decides"


def test_a_model_is_outgrown_by_all_samples_and_by_those_of_a_newcomer():
    made = {0: LogExtent(100, 1000), 1: LogExtent(10, 10)}

    def is_due(old: int, new: int, seq: int = 1000) -> bool:
        return is_outgrown(made, {0: LogExtent(seq, old), 1: LogExtent(seq, new)}, 0.1, 0.25)

    assert [is_due(1000, 12), is_due(1000, 13), is_due(1097, 12), is_due(1099, 12)] == [False, True, False, True]
    assert not is_due(1000, 13, seq=10), "nothing was told since"
    assert not is_outgrown(made, {0: LogExtent(100, 1000), 1: LogExtent(20, 20)}, 0.1), "mixtures look at all samples"


async def test_a_mixture_is_due_as_samples_grow_and_generators_change(store: Store):
    async def is_ready() -> bool:
        return (await store.state("x")).is_mixture_ready

    await append_to(store, 0)
    await estimate(store)
    await append_to(store, 1, rows=3)
    assert not await is_ready(), "three samples of one"
    await append_to(store, 1, rows=2)
    assert await is_ready()
    await put(store, MIXED)
    assert not await is_ready()
    await append_to(store, 1, rows=2)
    assert not await is_ready(), "12 samples, and 10 before"
    await append_to(store, 0, rows=1)
    assert await is_ready(), "13"
    await put(store, MIXED)
    await store.add_generator("x", "c")
    assert not await is_ready()
    await append_to(store, 2)
    assert await is_ready()
    await put(store, MIXED)
    assert not await is_ready()
    await store.set_state("x", 0, "paused")
    assert not await is_ready()
    await store.set_state("x", 0, "retired")
    assert await is_ready()
    await put(store, MIXED, parts=await now(store, 1, 2))
    assert not await is_ready()
    await created(store, mixes=0.0)
    await append_to(store, 0, 1)
    assert not await is_ready(), "kernels may be open"
    await estimate(store)
    assert await is_ready()
    await put(store, MIXED)
    assert not await is_ready()
    await append_to(store, 1, rows=1)
    assert await is_ready()
    await put(store, MIXED, parts=[replace(part, samples=part.samples - 1) for part in await now(store)])
    assert not await is_ready(), "it is of all logs, but a batch of each cannot be read"
    await append_to(store, 1, rows=1)
    assert await is_ready()


async def test_a_model_is_due_as_samples_grow_and_generators_change(store: Store):
    async def needs() -> bool:
        return (await store.state("x")).is_model_due

    await append_to(store, 0)
    await append_to(store, 1, rows=2)
    assert not await needs(), "two samples of one"
    await append_to(store, 1, rows=3)
    assert await needs()
    assert not (await store.state("x")).is_model_ready, "the bandwidth may be open"
    await estimate(store)
    assert (await store.state("x")).is_model_ready
    await put(store, MODEL)
    assert (await store.state("x")).model == StoredArtefact("any", {0: LogExtent(1, 5), 1: LogExtent(2, 5)})
    assert not await needs()
    await append_to(store, 1, rows=1)
    assert not await needs(), "11 samples, and 10 before"
    await append_to(store, 1, rows=1)
    assert await needs(), "7 of the second one, and 5 before"
    await put(store, MODEL)
    await store.add_generator("x", "c")
    assert not await needs()
    await append_to(store, 2, rows=2)
    assert not await needs(), "the others go on without it"
    await append_to(store, 2, rows=1)
    assert await needs()
    await put(store, MODEL)
    await store.put_scoring_error("x", 2, "torn", await token(store, 2), label="")
    assert await needs(), "one that cannot be scored is no part of it"
    await estimate(store, 2)
    assert not await needs()
    await store.set_state("x", 0, "paused")
    assert not await needs()
    await store.set_state("x", 0, "retired")
    assert await needs()
    await put(store, MODEL, parts=await now(store, 1, 2))
    assert not await needs()
    await append_to(store, 1, rows=5)
    assert await needs()
    await put(store, MODEL, parts=[replace(part, samples=part.samples - 1) for part in await now(store, 1, 2)])
    assert not await needs(), "it is of all logs, but a sample of each cannot be read"


@pytest.mark.parametrize("artefact", [MIXED, ROUTE_TABLE])
async def test_a_curve_of_points_whenever_samples_have_grown_by_a_32nd(store: Store, artefact: Artefact):
    await append_to(store, 0, 1, rows=50)
    await put(store, artefact, "100")
    await append_to(store, 0, rows=3)
    await put(store, artefact, "103")
    await append_to(store, 0, rows=1)
    await put(store, MODEL)
    await put(store, artefact, "104")
    points = await store.artefact_curve("x", artefact)
    assert [(one.told, one.samples, one.point) for one in points] == [(2, 100, "[100]"), (4, 104, "[104]")]
    assert points[1].parts == {0: LogExtent(3, 54), 1: LogExtent(1, 50)}
    assert await store.artefact_curve("x", artefact, 1) == points[1:]
    assert await store.artefact_curve("x", BY_RKE) == []


@each
async def test_one_of_a_retracted_batch_goes_and_others_stay(store: Store, artefact: Artefact):
    place, label, has_points = place_of(artefact), artefact.label, artefact != MODEL
    await append_to(store, 0, 0, 1)
    await put(store, artefact, "first")
    await append_to(store, 0)
    await store.retract("x", generator=0, position=3)
    assert await found(store, artefact) == b"first"
    with pytest.raises(Superseded, match="lost"):
        await put(store, artefact, "of before", parts=[ChainedExtent(0, 3, 15), ChainedExtent(1, 1, 5)])
    await append_to(store, 0, rows=50)
    await put(store, artefact, "second")
    assert len(await store.artefact_curve("x", artefact)) == 2 * has_points
    await store.put_scoring_error("x", place, "torn", await token(store, place, label), label)
    await store.retract("x", generator=0, position=5)
    assert await found(store, artefact) is None
    assert [one.point for one in await store.artefact_curve("x", artefact)] == ["[first]"] * has_points
    assert await store.artefact_error("x", artefact) is None
    await store.retract("x", generator=1, position=1)
    assert await store.artefact_curve("x", artefact) == []
    await append_to(store, 1)
    assert await put(store, artefact, "third")
    await store.retract("x", generator=0)
    assert await found(store, artefact) is None


@pytest.mark.parametrize("artefact", [MIXED, MODEL, ROUTE_TABLE])
async def test_one_of_kernels_that_are_fixed_anew_goes(store: Store, artefact: Artefact):
    await append_to(store, 0, 1)
    [first] = await store.read_log("x", 0, 0)
    place = MODEL_UNIT if artefact == MODEL else 0
    await store.put_fitted("x", place, b"sigma", await token(store, place), {0: first}, label="")
    with pytest.raises(Superseded, match="kernels"):
        await put(store, artefact, kernels=kernels_digest(b"other"))
    assert await put(store, artefact, kernels=kernels_digest(b"sigma"))
    await store.retract("x", generator=0, position=1, fits_kernels=True)
    assert await found(store, artefact) is None
    assert await store.artefact_curve("x", artefact) == []


@each
@pytest.mark.parametrize("is_trimmed", [False, True])
async def test_one_of_lost_batches_is_refused(store: Store, artefact: Artefact, is_trimmed: bool):
    """Also where a snapshot has their place."""
    await append_to(store, 0, 1)
    parts = await now(store)
    for label in ("", "rke") if is_trimmed else ():
        claim, chain = await token(store, 0, label), parts[0].chain
        assert await store.put_snapshot("x", 0, 1, b"statistic", claim, chain=chain, label=label)
    await append_to(store, 0)
    for wrong in (ChainedExtent(0, 1, 5, "0" * 40), ChainedExtent(0, 3, 5, parts[0].chain)):
        with pytest.raises(Superseded, match="lost"):
            await put(store, artefact, parts=[wrong, parts[1]])
    assert await put(store, artefact, parts=parts)


async def test_damage_is_named_until_one_is_made(store: Store):
    await append_to(store, 0, 1)
    for artefact in (MIXED, BY_RKE, MODEL):
        place, label = place_of(artefact), artefact.label
        await store.put_scoring_error("x", place, f"torn: {artefact.name}", await token(store, place, label), label)
        assert await store.artefact_error("x", artefact) == f"torn: {artefact.name}"
    state = await store.state("x")
    assert (state.mixture_error, state.model_error) == (f"torn: {MIXED.name}", f"torn: {MODEL.name}")
    assert state.generators[0].primary.scoring_error is None
    for artefact in (MIXED, BY_RKE, MODEL):
        await put(store, artefact)
        assert await store.artefact_error("x", artefact) is None
    state = await store.state("x")
    assert (state.mixture_error, state.model_error) == (None, None)


async def test_an_imported_experiment_has_its_goal_and_makes_all_anew(store: Store):
    await append_to(store, 0, 1)
    for artefact in (MIXED, MODEL):
        await put(store, artefact)
    known = await store.state("x")
    async with store.restoring("y") as restoration:
        for generator in (0, 1):
            await restoration.add_entries(generator, await store.read_log("x", generator, 0), keep_log=False)
        await restoration.commit("{}", 0.0, known, await store.history("x"), {})
    state = await store.state("y")
    assert (state.mixture_growth, state.mixture) == (0.25, None)
    assert (state.model_growth, state.model, state.is_model_due) == (0.25, None, True)
    for place in (MIXTURE, MODEL_UNIT):
        assert await store.claim("y", place, "me", 60, label="") is not None


async def test_a_repeated_blend_gets_its_answer_again(store: Store):
    before = await store.blend("x", {0: 1.0, 1: 0.0}, 50, "again")
    assert before == {0: 50, 1: 0}
    assert await store.blend("x", {0: 0.0, 1: 1.0}, 50, "again") == before
    with pytest.raises(NotFound):
        await store.blend("x", {5: 1.0}, 5, "new")
    with pytest.raises(NotFound, match="made again"):
        await store.blend("x", {0: 1.0}, 5, "new", instance="another")


@pytest.mark.parametrize("seed", range(3))
async def test_shares_are_those_of_the_policy_to_the_last_bit(store: Store, redis: Redis, seed: int):
    rng = np.random.default_rng(seed)
    await store.create_experiment("many", "{}", [f"g{number}" for number in range(9)], growth=0.0, labels=[""])
    credits = [0.0] * 9
    for number in range(40):
        if number % 8 == 0:  # weights change, some are 0, and they do not sum to 1
            weights = (rng.dirichlet(np.full(9, 0.3)) * (rng.random(9) < 0.7) + 1e-3).tolist()
            weights[int(rng.integers(9))] = 0.0
        size = int(rng.integers(1, 4 if number % 3 else 300))
        counts, credits = blend_counts(weights, credits, size)
        shares = await store.blend("many", dict(enumerate(weights)), size, f"{number}")
        assert list(shares.values()) == counts
        stored = await redis.hmget("optimist:{many}:blended", list(range(9)))
        assert [float(text) for text in stored] == credits


async def test_what_is_remembered_of_shares_is_bounded(store: Store, redis: Redis):
    await asyncio.gather(*(store.blend("x", {0: 0.9, 1: 0.1}, 1, f"{number}") for number in range(300)))
    assert await redis.hlen("optimist:{x}:blended") <= 256 + 4
    assert await store.blend("x", {0: 1.0}, 3, "alone") == {0: 3}
