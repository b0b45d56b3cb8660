"""Mixtures in the store: a claim of their own, refused where a batch in them counts no longer, read once by picks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.policies import blend_counts
from optimist.records import Artefact, ChainedExtent, LogExtent, NotFound, Superseded
from optimist.store import MIXTURE, SCORED, WANTED, Announcement, Store, kernels_digest
from tests.support.exchanges import append_to, claimed

EACH = ["", "rke"]


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await created(store, growth=0.25)


MIXED = Artefact("mixture", label="")


async def created(store: Store, growth: float | None) -> None:
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=["", "rke"], mixture_growth=growth)


async def token(store: Store, label: str = "", owner: str = "me") -> str:
    return await claimed(store, "x", MIXTURE, owner, 60, label)


async def estimate(store: Store) -> None:
    claim = await claimed(store, "x", 0, "me")
    await store.put_estimate("x", 0, (await store.state("x")).generators[0].seq, "{}", claim, label="")


async def now(store: Store, *generators: int) -> list[ChainedExtent]:
    """The logs as they are."""
    states = (await store.state("x")).generators
    log = {g: (await store.read_log("x", g, states[g].seq - 1))[0] for g in generators or range(len(states))}
    return [ChainedExtent(g, entry.seq, states[g].samples, entry.chain) for g, entry in log.items()]


async def put(store: Store, payload: str = "{}", label: str = "", parts: list[ChainedExtent] | None = None) -> bool:
    parts = await now(store) if parts is None else parts
    mine = await token(store, label)
    return await store.put_artefact("x", Artefact("mixture", label), payload, mine, parts, point=f"[{payload}]")


@pytest.mark.parametrize("label", EACH)
async def test_it_is_read_as_it_was_made_under_a_claim_of_its_own(store: Store, label: str):
    await append_to(store, 0, 1, 1)
    assert await store.artefact("x", Artefact("mixture", label)) is None
    other = await store.claim("x", 0, "me", 60, label)
    assert other is not None
    parts = await now(store)
    with pytest.raises(Superseded):
        await store.put_artefact("x", Artefact("mixture", label), "{}", other.token, parts)
    assert await put(store, '{"weights": [0.5, 0.5]}', label)
    made = await store.artefact("x", Artefact("mixture", label))
    assert made is not None
    assert (made.payload, made.parts, made.samples) == (
        b'{"weights": [0.5, 0.5]}',
        {0: LogExtent(1, 5), 1: LogExtent(2, 10)},
        15,
    )
    assert await store.artefact("x", Artefact("mixture", next(other for other in EACH if other != label))) is None
    assert await store.claim("x", MIXTURE, "other", 60, label) is None
    await store.end_claim("x", MIXTURE, await token(store, label), label)
    assert await store.claim("x", MIXTURE, "other", 60, label) is not None
    with pytest.raises(NotFound, match="no such metric"):
        await store.claim("x", MIXTURE, "me", 60, "none")


async def test_an_older_one_does_not_replace_it_and_a_repeat_is_known(store: Store):
    await append_to(store, 0, 1)
    before = await now(store)
    await append_to(store, 0)
    assert await put(store, "new")
    state = await store.state("x")
    assert await put(store, "new"), "a repeat"
    assert not await put(store, "old", parts=before)
    assert await store.state("x") == state
    assert len(await store.artefact_curve("x", MIXED)) == 1
    await append_to(store, 1)
    assert await put(store, "newer")
    # Without a generator that was retired meanwhile.
    assert await put(store, "of one", parts=await now(store, 1))
    found = await store.artefact("x", MIXED)
    assert found is not None
    assert (found.payload, list(found.parts)) == (b"of one", [1])


@pytest.mark.parametrize("growth", [0.25, None])
async def test_picks_are_made_from_it_where_it_is_the_goal(store: Store, growth: float | None):
    await created(store, growth)
    await append_to(store, 0, 1)
    heard: list[Announcement] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def listen() -> None:
        async with store.announcements(SCORED, WANTED) as announcements:
            async for announcement in announcements:
                began.set()
                heard.extend([announcement] if announcement is not None else [])
                if len(heard) == (3 if growth else 2):
                    ended.set()

    listening = asyncio.create_task(listen())
    await began.wait()
    before = await store.state("x")
    assert await put(store, "watched", "rke")
    assert await store.state("x") == before, "not even the version"
    assert await put(store, "primary")
    after = await store.state("x")
    await store.want("x", MIXED)
    await store.want("x", Artefact("mixture", "rke"))
    await ended.wait()
    listening.cancel()
    made = [Announcement(SCORED, "x", 0, 10)] if growth else []
    # In a cluster they come in any order.
    assert set(heard) == {
        *made,
        Announcement(WANTED, "x", 0, 0, MIXED),
        Announcement(WANTED, "x", 0, 0, Artefact("mixture", "rke")),
    }
    assert (after.version > before.version, after.state_token != before.state_token) == (bool(growth), bool(growth))
    assert (after.mixture_growth, after.mixture and after.mixture.payload) == (growth, b"primary" if growth else None)
    assert (await store.exchange("x", wants_state=True)).state == after


async def test_states_leave_out_the_mixture_that_the_reader_has(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    await put(store, "one")
    known = await store.state("x")
    assert known.mixture is not None
    # Nothing but the name is read: the text is not there.
    await redis.hset("optimist:{x}:artefacts", "mixture", "other 0:1:5")
    again = await store.state("x", known)
    assert again.mixture == known.mixture
    exchanged = await store.exchange("x", wants_state=True, known=known)
    assert exchanged.state is not None
    assert exchanged.state.mixture == known.mixture
    await append_to(store, 0)
    await put(store, "two")
    newer = await store.state("x", known)
    assert newer.mixture is not None
    assert (newer.mixture.payload, newer.mixture.parts[0]) == (b"two", LogExtent(2, 10))


async def test_it_is_due_as_samples_grow_and_generators_change(store: Store):
    async def is_ready() -> bool:
        return (await store.state("x")).is_mixture_ready

    await append_to(store, 0)
    await estimate(store)
    await append_to(store, 1, rows=3)
    assert not await is_ready(), "three samples of one"
    await append_to(store, 1, rows=2)
    assert await is_ready()
    await put(store)
    assert not await is_ready()
    await append_to(store, 1, rows=2)
    assert not await is_ready(), "12 samples, and 10 before"
    await append_to(store, 0, rows=1)
    assert await is_ready(), "13"
    await put(store)
    await store.add_generator("x", "c")
    assert not await is_ready()
    await append_to(store, 2)
    assert await is_ready()
    await put(store)
    assert not await is_ready()
    await store.set_state("x", 0, "paused")
    assert not await is_ready()
    await store.set_state("x", 0, "retired")
    assert await is_ready()
    await put(store, parts=await now(store, 1, 2))
    assert not await is_ready()
    await created(store, 0.0)
    await append_to(store, 0, 1)
    assert not await is_ready(), "kernels may be open"
    await estimate(store)
    assert await is_ready()
    await put(store)
    assert not await is_ready()
    await append_to(store, 1, rows=1)
    assert await is_ready()
    await put(store, parts=[replace(part, samples=part.samples - 1) for part in await now(store)])
    assert not await is_ready(), "it is of all logs, but a batch of each cannot be read"
    await append_to(store, 1, rows=1)
    assert await is_ready()


async def test_a_curve_of_points_whenever_samples_have_grown_by_a_32nd(store: Store):
    await append_to(store, 0, 1, rows=50)
    await put(store, "100")
    await append_to(store, 0, rows=3)
    await put(store, "103")
    await append_to(store, 0, rows=1)
    await put(store, "104")
    points = await store.artefact_curve("x", MIXED)
    assert [(one.told, one.samples, one.point) for one in points] == [(2, 100, "[100]"), (4, 104, "[104]")]
    assert points[1].parts == {0: LogExtent(3, 54), 1: LogExtent(1, 50)}
    assert await store.artefact_curve("x", MIXED, 1) == points[1:]
    assert await store.artefact_curve("x", Artefact("mixture", "rke")) == []


@pytest.mark.parametrize("label", EACH)
async def test_one_of_a_retracted_batch_goes_and_others_stay(store: Store, label: str):
    await append_to(store, 0, 0, 1)
    await put(store, "first", label)
    await append_to(store, 0)
    await store.retract("x", generator=0, position=3)
    kept = await store.artefact("x", Artefact("mixture", label))
    assert kept is not None
    assert kept.payload == b"first"
    with pytest.raises(Superseded, match="lost"):
        await put(store, "of before", label, parts=[ChainedExtent(0, 3, 15), ChainedExtent(1, 1, 5)])
    await append_to(store, 0, rows=50)
    await put(store, "second", label)
    await store.put_scoring_error("x", MIXTURE, "torn", await token(store, label), label)
    await store.retract("x", generator=1, position=1)
    assert await store.artefact("x", Artefact("mixture", label)) is None
    assert await store.artefact_curve("x", Artefact("mixture", label)) == []
    assert await store.artefact_error("x", Artefact("mixture", label)) is None
    await append_to(store, 1)
    assert await put(store, "third", label)
    await store.retract("x", generator=0)
    assert await store.artefact("x", Artefact("mixture", label)) is None


async def test_one_of_kernels_that_are_fixed_anew_goes(store: Store):
    await append_to(store, 0, 1)
    claim = await claimed(store, "x", 0, "me")
    [first] = await store.read_log("x", 0, 0)
    await store.put_fitted("x", 0, b"sigma", claim, {0: first}, label="")
    mine = await token(store)
    with pytest.raises(Superseded, match="kernels"):
        await store.put_artefact("x", MIXED, "{}", mine, await now(store), kernels=kernels_digest(b"other"))
    assert await store.put_artefact(
        "x", MIXED, "{}", mine, await now(store), kernels=kernels_digest(b"sigma"), point="[]"
    )
    await store.retract("x", generator=0, position=1, fits_kernels=True)
    assert await store.artefact("x", MIXED) is None
    assert await store.artefact_curve("x", MIXED) == []


async def test_one_of_lost_batches_is_refused(store: Store):
    await append_to(store, 0, 1)
    parts = await now(store)
    for wrong in (ChainedExtent(0, 1, 5, "0" * 40), ChainedExtent(0, 2, 5, parts[0].chain)):
        with pytest.raises(Superseded, match="lost"):
            await put(store, parts=[wrong, parts[1]])
    await append_to(store, 0, 1)
    assert await put(store, parts=parts)


async def test_one_of_a_position_whose_log_became_a_snapshot_is_stored(store: Store):
    await append_to(store, 0, 1)
    parts = await now(store)
    for label in EACH:
        claim = await claimed(store, "x", 0, "me", 60, label)
        assert await store.put_snapshot("x", 0, 1, b"statistic", claim, chain=parts[0].chain, label=label)
    await append_to(store, 0)
    with pytest.raises(Superseded, match="lost"):
        await put(store, parts=[ChainedExtent(0, 1, 5, "0" * 40), parts[1]])
    assert await put(store, parts=parts)


async def test_damage_is_named_until_one_is_made(store: Store):
    await append_to(store, 0, 1)
    for label in EACH:
        await store.put_scoring_error("x", MIXTURE, f"torn by {label}", await token(store, label), label)
        assert await store.artefact_error("x", Artefact("mixture", label)) == f"torn by {label}"
    state = await store.state("x")
    assert (state.mixture_error, state.generators[0].primary.scoring_error) == ("torn by ", None)
    for label in EACH:
        await put(store, label=label)
        assert await store.artefact_error("x", Artefact("mixture", label)) is None
    assert (await store.state("x")).mixture_error is None


async def test_nothing_of_a_deleted_experiment_stays(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    for label in EACH:
        await put(store, label=label)
    await store.blend("x", {0: 0.5, 1: 0.5}, 5, "one")
    await store.delete_experiment("x")
    assert await redis.keys("optimist:{x}:*") == []
    await created(store, None)
    assert [await store.artefact("x", Artefact("mixture", label)) for label in EACH] == [None, None]
    assert await store.blend("x", {0: 0.5, 1: 0.5}, 5, "one") == {0: 3, 1: 2}, "not the answer of before"


async def test_an_imported_experiment_has_its_goal_and_makes_its_mixture_anew(store: Store, redis: Redis):
    await append_to(store, 0, 1)
    await put(store)
    known = await store.state("x")
    async with store.restoring("y") as restoration:
        for generator in (0, 1):
            await restoration.add_entries(generator, await store.read_log("x", generator, 0), keep_log=False)
        await restoration.commit("{}", 0.0, known, await store.history("x"), {})
    state = await store.state("y")
    assert (state.mixture_growth, state.mixture) == (0.25, None)
    assert await store.claim("y", MIXTURE, "me", 60, label="") is not None


async def test_shares_follow_the_weights_in_the_long_run(store: Store):
    weights, total = {1: 0.47, 0: 0.33}, {0: 0, 1: 0}
    weights[0] = 1.0 - weights[1]
    for number, size in enumerate([1, 1, 1, 7, 2, 100, 3, 1, 1, 999]):
        shares = await store.blend("x", weights, size, f"request-{number}")
        assert sum(shares.values()) == size
        total = {g: total[g] + shares[g] for g in total}
        drawn = sum(total.values())
        assert all(abs(total[g] - weights[g] * drawn) <= 1.0 for g in total)
    # Weights that change count from now on; a repeat gets its answer again, whatever it names.
    before = await store.blend("x", {0: 1.0, 1: 0.0}, 50, "again")
    assert before[0] >= 49
    assert await store.blend("x", {0: 0.0, 1: 1.0}, 50, "again") == before
    with pytest.raises(NotFound):
        await store.blend("x", {5: 1.0}, 5, "new")
    with pytest.raises(NotFound, match="made again"):
        await store.blend("x", weights, 5, "new", instance="another")


@pytest.mark.parametrize("seed", range(5))
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
        found = await store.blend("many", dict(enumerate(weights)), size, f"{number}")
        assert list(found.values()) == counts
        stored = await redis.hmget("optimist:{many}:blended", list(range(9)))
        assert [float(text) for text in stored] == credits


async def test_shares_stay_bounded_and_no_count_is_negative(store: Store, redis: Redis):
    for number in range(300):
        weights = {0: 0.9, 1: 0.1} if number % 2 else {0: 0.05, 1: 0.95}
        shares = await store.blend("x", weights, 1 + number % 3, f"{number}")
        assert min(shares.values()) >= 0
    assert await redis.hlen("optimist:{x}:blended") <= 256 + 4
    assert await store.blend("x", {0: 1.0}, 3, "alone") == {0: 3}
