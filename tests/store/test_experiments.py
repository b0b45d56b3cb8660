import asyncio

import pytest
from redis.asyncio import Redis

from optimist.records import (
    SLICES,
    Artefact,
    AskGroup,
    ChainedExtent,
    Conflict,
    Contents,
    Measures,
    NotFound,
    PreparedPreview,
    Returned,
    Size,
    Superseded,
    Unavailable,
    WantedAudit,
)
from optimist.store import MIXTURE, MODEL_UNIT, WANTED, Announcement, ClaimSubject, Store
from optimist.store.audits import MAX_HELD
from optimist.store.keys import EXPERIMENT_PARTS
from tests.support.exchanges import MODEL, ROUTE_TABLE, claimed, modes_of, new_pick, open_picks, put_modes, settle
from tests.support.present import experiments

CONFIG = '{"metric": "fid"}'
SIZES = [Size("features", 1.0, 0, 1.0, None, 0.5)]


async def token(store: Store, generator: ClaimSubject, owner: str = "scorer", label: str = "") -> str:
    return await claimed(store, "one", generator, owner, 60, label)


async def test_creating_is_idempotent_by_name_and_config(store: Store):
    assert await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.04, labels=[""])
    assert not await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.04, labels=[""])
    with pytest.raises(Conflict):
        await store.create_experiment("one", '{"metric": "is"}', ["a", "b"], growth=0.04, labels=[""])
    assert await experiments(store) == ["one"]
    assert await store.config("one") == CONFIG
    stored = await store.state("one")
    generators = [(g.ordinal, g.name, g.samples, g.seq, g.primary.estimate) for g in stored.generators]
    assert generators == [(0, "a", 0, 0, None), (1, "b", 0, 0, None)]
    assert (stored.rounds, stored.told, stored.open_picks, stored.decision) == (0, 0, [], None)


@pytest.mark.parametrize("mending", ["create", "read"])
async def test_a_crash_between_config_and_index_is_mended(store: Store, redis: Redis, mending: str):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    await redis.zrem("optimist:experiments", "one")
    assert await experiments(store) == []
    if mending == "create":
        assert not await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    else:
        assert await store.config("one") == CONFIG
    assert await experiments(store) == ["one"]


async def test_deleting_leaves_no_key_behind(store: Store, redis: Redis):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0, labels=["", "kid"])
    starts = enumerate([(0, 0), (1, 0), (1, 5)])
    groups = [AskGroup(f"ask {n}", [new_pick(g, "{}"), new_pick(g, "{}", start, 5)]) for n, (g, start) in starts]
    await open_picks(store, "one", 0, groups, lease_seconds=60)
    for pick in (1, 3, 4):
        await settle(store, "one", pick, "digest", 5, b"body")
    await store.give_up("one", 2, "tired")
    await store.accept_batch("one", pick=4)
    await store.retract("one", pick=3)
    for key in ("key", "copy"):
        await store.append("one", 0, key, Contents("digest", 5, b"body", measures=Measures("ab" * 8, sizes=SIZES)))
    await open_picks(
        store, "one", 6, [AskGroup("short", [new_pick(0, "{}", nonce="aa", context=b"context")])], lease_seconds=0.001
    )
    await asyncio.sleep(0.01)
    await store.state("one")
    for label in ("", "kid"):
        first, second = await token(store, 0, label=label), await token(store, 1, label=label)
        await store.put_snapshot("one", 0, 1, b"statistic", first, label=label)
        with pytest.MonkeyPatch.context() as patch:  # an upload cut short
            patch.setattr("optimist.store.logs._sha1", lambda _: "other")
            with pytest.raises(Unavailable):
                await store.put_snapshot("one", 1, 1, b"statistic", second, label=label)
        await store.quarantine("one", 0, 1, "torn", first, label=label)
        await store.put_estimate("one", 0, 1, "{}", first, point="[]", label=label)
        await store.put_fitted("one", 0, b"sigma", first, label=label)
        await put_modes(store, "one", 0, 1, "{}", first, label=label)
        await store.put_scoring_error("one", 1, "scratched", second, label=label)
        mixing = await token(store, MIXTURE, label=label)
        await store.put_artefact("one", Artefact("mixture", label), "{}", mixing, [ChainedExtent(0, 1, 5)], point="[]")
    routing = await token(store, MODEL_UNIT)
    for artefact in (MODEL, ROUTE_TABLE):
        point = "[]" if artefact == ROUTE_TABLE else ""
        await store.put_artefact("one", artefact, b"made", routing, [ChainedExtent(0, 1, 5)], point=point)
    await store.blend("one", {0: 1.0}, 5, "request")
    instance = (await store.state("one")).instance
    await store.put_previews("one", 1, [PreparedPreview(0, 0, "{}", b"pixels")], 8, instance=instance)
    wanted = [WantedAudit(16 * digit, 0, 1.0, 1, [1]) for digit in "ab"]
    assert await store.ask_audits("one", "anna", 2, wanted, known=0, instance=instance) == ([16 * "a", 16 * "b"], False)
    await store.answer("one", 16 * "a", "anna", {1: 0.5}, "odd", batch=1, instance=instance)
    await store.put_share("one", instance, "0", "{}", 60.0, 100)
    await store.put_webhook("one", instance, "{}", ["own:decided"], 100)
    await store.claim_message("one", instance, "own:decided", "id", "token", seconds=60.0, max_attempts=6)
    await store.set_state("one", 1, "paused")
    await store.control("one", {"stopped": "yes"})
    await store.latch_decision("one", "{}")
    await store.exchange("one", wants_state=True, who="me")
    parts = {str(key, "utf-8").rsplit("}:")[1] for key in await redis.keys("optimist:{one}:*")}
    chunks = {part for part in parts if part.startswith("snapshot:")}
    of_chunks = sorted(tuple(chunk.split(":")[1:-2]) for chunk in chunks)
    assert of_chunks == [("0", ""), ("0", "kid"), ("1", ""), ("1", "kid")], "of snapshots and of uploads"
    curves = {f"curve:{unit}" for unit in ("0:", "0:kid", "mixture:", "mixture:kid", "table:")}
    kinds = {*EXPERIMENT_PARTS, *curves, "log:0", "log:1", "told:1", "fitted:", "fitted:kid"}
    kinds |= {"previews:0", "previews:0:bodies", "previews:0:places", "levels:0"}
    kinds -= {"log", "told", "levels", "curve", "snapshot", "previews", "fitted"}
    assert parts - chunks == kinds, "every kind of key"
    assert await store.delete_experiment("one")
    assert await redis.keys("*") == []
    assert not await store.delete_experiment("one")


async def test_what_is_deleted_or_unknown_cannot_come_back_by_halves(store: Store, redis: Redis):
    calls = [
        store.state("gone"),
        open_picks(store, "gone", 0, [AskGroup("ask", [new_pick(0, "{}")])], lease_seconds=60),
        settle(store, "gone", 1, "digest", 5, b"body"),
        store.give_up("gone", 1, "tired"),
        store.append("gone", 0, "key", Contents("digest", 5, b"body")),
        store.renew_leases("gone", [1], 60),
        store.claim("gone", 0, "scorer", 60, label=""),
        store.end_claim("gone", 0, "token", label=""),
        store.put_estimate("gone", 0, 1, "{}", "token", label=""),
        store.put_fitted("gone", 0, b"sigma", "token", label=""),
        put_modes(store, "gone", 0, 1, "{}", "token"),
        store.put_previews("gone", 1, [PreparedPreview(0, 0, "{}", b"pixels")], 8, instance=""),
        store.put_snapshot("gone", 0, 1, b"statistic", "token", label=""),
        store.quarantine("gone", 0, 1, "torn", "token", label=""),
        store.put_scoring_error("gone", 0, "scratched", "token", label=""),
        store.add_generator("gone", "c"),
        store.set_state("gone", 0, "paused"),
        store.control("gone", {"budget": "9"}),
        store.reopen("gone", "{}"),
        store.latch_decision("gone", "{}"),
        store.history("gone"),
        store.read_log("gone", 0, 0),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            await call
    assert await store.config("gone") is None
    assert await store.snapshot("gone", 0, label="") is None
    assert await redis.keys("*") == []


async def test_a_deletion_cut_short_is_not_listed_and_can_be_finished(store: Store, redis: Redis):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    await redis.delete("optimist:{one}:config")
    assert await experiments(store) == []
    await store.delete_experiment("one")
    assert await redis.keys("*") == []


@pytest.mark.parametrize("name", ["", "a b", "a}b", "{a", "a\n"])
async def test_names_that_would_break_keys_are_refused(store: Store, name: str):
    with pytest.raises(ValueError, match="cannot be a name"):
        await store.create_experiment(name, CONFIG, ["a"], growth=0.0, labels=[""])


async def test_what_was_meant_for_a_deleted_experiment_is_refused_by_its_successor(store: Store):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    old, instance = await token(store, 0), (await store.state("one")).instance
    await store.delete_experiment("one")
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    assert await token(store, 0) != old
    with pytest.raises(Superseded):
        await store.put_estimate("one", 0, 9, "{}", old, label="")
    group = [AskGroup("ask", [new_pick(0, "{}")])]
    for call in (
        open_picks(store, "one", 0, group, 60, instance=instance),
        settle(store, "one", 1, "digest", 5, b"body", instance=instance),
        store.give_up("one", 1, "tired", instance=instance),
        store.append("one", 0, "key", Contents("digest", 5, b"body"), instance=instance),
        store.latch_decision("one", "{}", instance=instance),
    ):
        with pytest.raises(NotFound, match="made again"):
            await call
    stored = await store.state("one")
    assert (stored.rounds, stored.told, stored.decision, stored.generators[0].primary.estimate_seq) == (0, 0, None, 0)
    assert await open_picks(store, "one", 0, group, 60, instance=stored.instance)
    await settle(store, "one", 1, "digest", 5, b"body", instance=stored.instance)


@pytest.mark.parametrize("label", ["", "kid"])
async def test_modes_are_wanted_made_and_replaced_by_newer_ones(store: Store, label: str):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0, labels=["", "kid"])
    assert await modes_of(store, "one", 1, label) is None
    mine = await token(store, 1, label=label)
    async with store.announcements(WANTED) as stream:
        assert await anext(stream) is None
        await store.want("one", Artefact("modes", label, 1))
        assert await anext(stream) == Announcement(WANTED, "one", 0, 0, Artefact("modes", label, 1))
    assert await put_modes(store, "one", 1, 9, "nine", mine, label=label)
    assert not await put_modes(store, "one", 1, 8, "older", mine, label=label)
    assert await put_modes(store, "one", 1, 9, "nine again", mine, label=label)
    assert await modes_of(store, "one", 1, label) == (9, "nine again")


async def test_controls_are_kept_and_stopping_opens_nothing(store: Store):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, instance="i", keep_log=True, labels=[""])
    stored = await store.state("one")
    assert (stored.controls, stored.instance, stored.keep_log) == ({}, "i", True)
    await store.control("one", {"budget": "1e3", "stopped": "by hand", "stop": ""})
    assert (await store.state("one")).controls == {"budget": "1e3", "stopped": "by hand"}
    group = [AskGroup("ask", [new_pick(0, "{}")])]
    assert await open_picks(store, "one", 0, group, lease_seconds=60) is None
    await store.control("one", {"stopped": ""})
    assert (await store.state("one")).controls == {"budget": "1e3"}
    with pytest.raises(NotFound):
        await open_picks(store, "one", 0, [AskGroup("ask", [new_pick(1, "{}")])], lease_seconds=60)
    assert await open_picks(store, "one", 0, group, lease_seconds=60)
    with pytest.raises(ValueError, match="controls are"):
        await store.control("one", {"colour": "red"})


async def test_generators_join_pause_and_retire(store: Store):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0, labels=[""])
    for _ in range(2):
        assert await store.add_generator("one", "c") == 2
    await store.set_state("one", 0, "paused")
    await store.set_state("one", 2, "retired")
    with pytest.raises(Conflict, match="no active"):
        await store.set_state("one", 1, "paused")
    with pytest.raises(Conflict, match="retired"):
        await store.set_state("one", 2, "active")
    with pytest.raises(Conflict, match="retired"):
        await store.add_generator("one", "c")
    with pytest.raises(NotFound):
        await store.set_state("one", 3, "paused")
    generators = (await store.state("one")).generators
    assert [(g.name, g.state) for g in generators] == [("a", "paused"), ("b", "active"), ("c", "retired")]
    await store.set_state("one", 0, "active")
    await store.set_state("one", 1, "retired")
    assert [g.state for g in (await store.state("one")).generators] == ["active", "retired", "retired"]


async def test_runs_beyond_a_generators_share_are_not_handed_out_again(store: Store, redis: Redis):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0, batch_size=5, labels=[""])
    asked = AskGroup("ask", [new_pick(0, "{}", start, 5) for start in (0, 5, 10)])
    await open_picks(store, "one", 0, [asked], lease_seconds=60)
    share = SLICES // 2
    runs = [Returned(20 + 10 * n, 5) for n in range(share)]
    await redis.hset("optimist:{one}:returned", "0", " ".join(f"{start} {size}" for start, size in runs))
    await store.give_up("one", 1, "tired")
    slices = (await store.state("one")).generators[0].returned
    assert slices == [Returned(0, 5), *runs[:-1]], "the last run of them is dropped"
    await store.give_up("one", 2, "tired")
    slices = (await store.state("one")).generators[0].returned
    assert slices == [Returned(0, 10), *runs[:-1]], "one that touches another is no further one"
    told = await settle(store, "one", 3, "digest", 2, b"body")
    assert (told.rows, told.uncounted) == (2, 0)
    slices = (await store.state("one")).generators[0].returned
    assert slices == [Returned(0, 10), Returned(12, 3), *runs[:-2]]
    await store.append("one", 0, "inside", Contents("other", 1, b"body"), start=4)
    slices = (await store.state("one")).generators[0].returned
    assert slices == [Returned(0, 4), Returned(5, 5), Returned(12, 3), *runs[:-3]]


async def test_a_key_has_a_limited_number_of_audits_under_all_names(store: Store):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0, labels=[""])
    instance = (await store.state("one")).instance
    wanted = [WantedAudit(f"{index:016x}", index, 1.0, 1, [0]) for index in range(MAX_HELD + 100)]

    async def asked(rater: str, holder: str) -> int:
        known = len((await store.audits("one")).audits)
        given, was_late = await store.ask_audits(
            "one", rater, 50, wanted, known=known, instance=instance, holder=holder
        )
        assert not was_late
        return len(given)

    names = [f"name-{number}" for number in range(MAX_HELD // 50)]
    assert [await asked(name, "key") for name in names] == [50] * len(names)
    assert await asked("another-name", "key") == 0
    assert await asked(names[0], "key") == 50, "whoever has some keeps them"
    assert await asked("anna", "another-key") == 50
    assert await asked("ben", "") == 50
    # The other key has the name's audits from then on.
    assert await asked(names[0], "third-key") == 50
    assert await asked("another-name", "key") == 0, "all others are held"
    assert (await store.audits("one")).open == MAX_HELD + 100
