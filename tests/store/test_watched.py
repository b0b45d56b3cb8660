"""Watched metrics in the store: units of their own on one log, of which picks know nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from optimist.records import (
    ExperimentState,
    LogGap,
    NotRetractable,
    Snapshot,
    Superseded,
    UnitState,
)
from optimist.store import SCORED, Store, kernels_digest
from tests.support.exchanges import append_to, claimed, modes_of, put_modes, units_of

WATCHED = ["kid", "fid-dino"]
LABELS = ["", *WATCHED]


@pytest.fixture(autouse=True)
async def experiment(store: Store) -> None:
    await created(store)


async def created(store: Store, *, labels: list[str] = LABELS, keep_log: bool = False) -> None:
    await store.delete_experiment("x")
    await store.create_experiment("x", "{}", ["a", "b"], growth=0.0, labels=labels, keep_log=keep_log)


async def token(store: Store, generator: int = 0, label: str = "", owner: str = "me") -> str:
    return await claimed(store, "x", generator, owner, 60, label)


async def snapshot(store: Store, seq: int, label: str) -> None:
    mine = await token(store, label=label)
    assert await store.put_snapshot("x", 0, seq, f"{label} at {seq}".encode(), mine, label=label)


async def estimate(store: Store, seq: int, label: str, text: str = "{}", generator: int = 0) -> bool:
    mine = await token(store, generator, label)
    return await store.put_estimate("x", generator, seq, text, mine, point="[]", label=label)


async def test_no_ask_hears_of_a_watched_estimate(store: Store):
    await append_to(store, *[0] * 2)
    before = await store.state("x")
    async with store.announcements(SCORED) as announcements:
        assert await anext(announcements) is None
        assert await estimate(store, 1, "kid", "one")
        assert not await estimate(store, 1, "kid", "other")
        assert await store.state("x") == before, "not even the version"
        assert await estimate(store, 2, "")
        heard = await anext(announcements)
    assert heard is not None
    assert heard.seq == 2


async def test_estimates_are_read_once(store: Store):
    await append_to(store, *[0] * 3)
    await estimate(store, 1, "", "of the primary")
    await estimate(store, 1, "kid", '{"value": 1}')
    await estimate(store, 2, "fid-dino", '{"value": 2}')
    first = await units_of(store, "x")
    assert list(first) == [(g, label) for g in (0, 1) for label in LABELS]
    assert first[0, "kid"] == UnitState(1, '{"value": 1}', log_bytes=30)
    assert first[1, "kid"] == UnitState()
    positions = await store.state("x", all_metrics=True, estimates=False)
    found = {(g.ordinal, label): unit for g in positions.generators for label, unit in g.units.items()}
    assert found == {unit: replace(state, estimate=None) for unit, state in first.items()}
    assert await units_of(store, "x", positions) == first, "it has no estimates that could be taken from it"
    # What was read before is not read again: a text that Redis never had is the proof.
    await append_to(store, 1)  # by the version that is read now all of these are known
    known = await store.state("x", all_metrics=True)
    for generator in known.generators:
        for label, unit in generator.units.items():
            generator.units[label] = replace(unit, estimate=unit.estimate and "known")
    assert (await store.state("x", known)).generators[0].primary.estimate == "known"
    assert (await units_of(store, "x", known))[0, "kid"].estimate == "known"
    for label in ("", "kid"):
        await estimate(store, 3, label, f"the third of {label}")
    assert (await store.state("x", known)).generators[0].primary.estimate == "the third of "
    second = await units_of(store, "x", known)
    assert [second[0, label].estimate for label in LABELS] == ["the third of ", "the third of kid", "known"]


async def test_each_metric_has_its_curve_modes_kernels_and_scoring_error(store: Store):
    await append_to(store, *[0] * 4)
    for place, label in enumerate(LABELS, start=1):
        mine = await token(store, label=label)
        await store.put_scoring_error("x", 0, f"torn for {label}", mine, label)
        await store.put_estimate("x", 0, place, "{}", mine, point=f"[{place}]", label=label)
        await put_modes(store, "x", 0, place, f"by {label}", mine, label=label)
        assert await store.put_fitted("x", 0, label.encode(), mine, label=label) == label.encode()
        assert await store.put_fitted("x", 0, b"late", mine, label=label) == label.encode()
        wrong, right = kernels_digest(b"other"), kernels_digest(label.encode())
        with pytest.raises(Superseded):
            await store.put_estimate("x", 0, 4, "{}", mine, kernels=wrong, label=label)
        assert await store.put_estimate("x", 0, 4, "{}", mine, kernels=right, label=label)
    for place, label in enumerate(LABELS, start=1):
        [[point], none] = await store.curves("x", [0, 0], label)
        assert (point.seq, point.point, none) == (place, f"[{place}]", [])
        assert await modes_of(store, "x", 0, label) == (place, f"by {label}")
        assert await store.fitted("x", label) == label.encode()
    await store.put_scoring_error("x", 0, "torn", await token(store, label="kid"), "kid")
    assert (await units_of(store, "x"))[0, "kid"].scoring_error == "torn"
    assert (await units_of(store, "x"))[0, ""].scoring_error is None, "the primary metric is as well as before"


async def test_the_log_is_trimmed_up_to_the_oldest_snapshot_of_all_metrics(store: Store, redis: Redis):
    await append_to(store, *[0] * 5)
    steps = [(4, "", 5), (2, "kid", 5), (3, "fid-dino", 3), (5, "kid", 2), (5, "", 2), (5, "fid-dino", 0)]
    for seq, label, left in steps:
        await snapshot(store, seq, label)
        assert await redis.xlen("optimist:{x}:log:0") == left, (seq, label)
        known = (await units_of(store, "x"))[0, label]
        assert (known.snapshot_seq, known.log_bytes) == (seq, 10 * (5 - seq))
        assert await store.snapshot("x", 0, label) == Snapshot(seq, f"{label} at {seq}".encode())
    assert len(await redis.keys("optimist:{x}:snapshot:*")) == 3
    assert not await store.put_snapshot("x", 0, 4, b"older", await token(store, label="kid"), label="kid")
    assert len(await redis.keys("optimist:{x}:snapshot:*")) == 3


async def test_a_scorer_that_begins_at_the_snapshot_of_its_metric_notices_another_log(store: Store, redis: Redis):
    await append_to(store, *[0] * 3)
    chain = (await store.read_log("x", 0, 0))[1].chain
    for label, seq in (("", 3), ("fid-dino", 3), ("kid", 2)):
        entry = (await store.read_log("x", 0, seq - 1))[0]
        body, mine = b"statistic", await token(store, label=label)
        await store.put_snapshot("x", 0, seq, body, mine, chain=entry.chain, label=label)
    found = await store.snapshot("x", 0, "kid")
    assert found is not None
    assert found.chain == chain
    [entry] = await redis.xrange("optimist:{x}:log:0")
    await redis.delete("optimist:{x}:log:0")
    await redis.xadd("optimist:{x}:log:0", entry[1] | {b"digest": b"damaged"}, entry[0])
    # A damaged entry behind the snapshot is read, so that it can be quarantined; another log is not.
    assert [e.digest for e in await store.read_log("x", 0, 2, chain=chain, label="kid")] == ["damaged"]
    with pytest.raises(LogGap, match="changed"):
        await store.read_log("x", 0, 2, chain="another", label="kid")


async def test_a_retraction_voids_what_every_metric_made_of_the_batch(store: Store, redis: Redis):
    await created(store, keep_log=True)
    await append_to(store, *[0] * 4)
    for label in LABELS:
        for seq in (1, 3):
            await estimate(store, seq, label)
        await put_modes(store, "x", 0, 3, "{}", await token(store, label=label), label=label)
        await store.put_scoring_error("x", 0, "torn", await token(store, label=label), label)
    await snapshot(store, 3, "kid")
    await snapshot(store, 1, "fid-dino")
    await append_to(store, 1)
    await estimate(store, 1, "kid", generator=1)
    other = await token(store, 1, "kid")
    tokens = {label: await token(store, label=label) for label in LABELS}
    await store.retract("x", generator=0, position=2)
    watched = await units_of(store, "x")
    assert watched[0, "kid"] == UnitState(log_bytes=40), "its snapshot has the batch"
    assert watched[0, "fid-dino"] == UnitState(snapshot_seq=1, log_bytes=30)
    for label in LABELS:
        assert await modes_of(store, "x", 0, label) is None
        assert [point.seq for point in (await store.curves("x", [0, 0], label))[0]] == [1]
        for late in (tokens[label], await token(store, label=label)):
            for call in (
                store.put_estimate("x", 0, 3, "{}", late, label=label),
                store.put_snapshot("x", 0, 3, b"", late, label=label),
                put_modes(store, "x", 0, 3, "{}", late, label=label),
            ):
                with pytest.raises(Superseded):
                    await call
        assert await estimate(store, 5, label)
    assert await token(store, 1, "kid") == other, "the other generator goes on"
    assert (await units_of(store, "x"))[1, "kid"].estimate == "{}"
    await store.retract("x", generator=0)
    assert (await units_of(store, "x"))[0, "fid-dino"] == UnitState()
    assert await redis.keys("optimist:{x}:snapshot:0:*") == []


async def test_a_batch_in_a_snapshot_of_any_metric_stays_once_the_log_is_trimmed(store: Store):
    await append_to(store, *[0, 1] * 5)
    for label, seq in (("", 2), ("kid", 4), ("fid-dino", 2)):
        await snapshot(store, seq, label)
    for position in (1, 3):
        with pytest.raises(NotRetractable, match="from position 5 on, and all batches of the generator"):
            await store.retract("x", generator=0, position=position)
    await store.retract("x", generator=0, position=5)
    assert [state.snapshot_seq for unit, state in (await units_of(store, "x")).items() if not unit[0]] == [2, 4, 2]
    assert await store.put_snapshot("x", 1, 2, b"statistic", await token(store, 1, "kid"), label="kid")
    await store.retract("x", generator=1, position=1)
    assert await store.snapshot("x", 1, "kid") is None, "the log is whole"


async def test_only_the_kernels_that_the_batch_helped_to_fix_are_fixed_anew(store: Store):
    for generator in (0, 1, 0):
        await append_to(store, generator)
    entries = {g: await store.read_log("x", g, 0) for g in (0, 1)}
    read = {"": {0: entries[0][0], 1: entries[1][0]}, "fid-dino": {0: entries[0][1], 1: entries[1][0]}}
    for label, logs in read.items():
        await store.put_fitted("x", 0, b"sigma", await token(store, label=label), logs, label=label)
        for generator in (0, 1):
            await estimate(store, 1, label, generator=generator)
    theirs = {label: await token(store, 1, label) for label in read}
    await store.retract("x", generator=0, position=2, fits_kernels=True)
    assert [await store.fitted("x", label) for label in read] == [b"sigma", None]
    made = {unit: state.estimate for unit, state in (await units_of(store, "x")).items() if unit[1] != "kid"}
    assert made == {(0, ""): None, (0, "fid-dino"): None, (1, ""): "{}", (1, "fid-dino"): None}
    for label in read:
        with pytest.raises(Superseded):
            await store.put_fitted("x", 1, b"late", theirs[label], read[label], label=label)


async def test_picks_read_nothing_of_watched_metrics(store: Store, redis: Redis):
    """The state has the labels, and is otherwise as long as without them."""
    names = [f"g{g}" for g in range(6)]
    states: list[ExperimentState] = []
    for labels in ([""], ["", *(f"metric-{n}" for n in range(5))]):
        await store.delete_experiment("x")
        await store.create_experiment("x", "{}", names, growth=0.0, labels=labels, instance="same")
        for g in range(6):
            await append_to(store, g)
            for label in labels:
                mine = await token(store, g, label)
                await store.put_estimate("x", g, 1, "{}", mine, label=label)
                await store.put_snapshot("x", g, 1, b"statistic", mine, label=label)
                await store.put_scoring_error("x", g, "torn", mine, label)
        states.append(await store.state("x"))
    without, with_five = states
    assert replace(with_five, labels=("",), state_token=without.state_token) == without
    fields = await redis.hkeys("optimist:{x}:counts")
    assert not [field for field in fields if b"metric" in field]
