import pytest
from redis.asyncio import Redis

from optimist.store import MODES, MODES_MADE, Announcement, AskGroup, Conflict, NewPick, NotFound, Store

CONFIG = '{"metric": "fid"}'


async def test_creating_is_idempotent_by_name_and_config(store: Store):
    assert await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.04)
    assert not await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.04)
    with pytest.raises(Conflict):
        await store.create_experiment("one", '{"metric": "is"}', ["a", "b"], growth=0.04)
    assert await store.experiments() == ["one"]
    assert await store.config("one") == CONFIG
    look = await store.look("one")
    assert [(g.ordinal, g.name, g.samples, g.seq, g.estimate) for g in look.generators] == [
        (0, "a", 0, 0, None),
        (1, "b", 0, 0, None),
    ]
    assert (look.rounds, look.told, look.open_picks, look.decision) == (0, 0, [], None)


@pytest.mark.parametrize("mending", ["create", "read"])
async def test_a_crash_between_config_and_index_is_mended(store: Store, redis: Redis, mending: str):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0)
    await redis.zrem("optimist:experiments", "one")
    assert await store.experiments() == []
    if mending == "create":
        assert not await store.create_experiment("one", CONFIG, ["a"], growth=0.0)
    else:
        assert await store.config("one") == CONFIG
    assert await store.experiments() == ["one"]


async def test_deleting_leaves_no_key_behind(store: Store, redis: Redis):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0)
    groups = [AskGroup(f"ask {n}", [NewPick(g, "{}"), NewPick(g, "{}", 0, 5)]) for n, g in enumerate((0, 1, 1))]
    await store.open_picks("one", 0, groups, lease_seconds=60)
    for pick in (1, 3):
        await store.settle("one", pick, "digest", 5, b"body")
    await store.give_up("one", 2, "tired")
    await store.put_estimate("one", 0, 1, "{}", CONFIG)
    await store.put_fitted("one", b"sigma", CONFIG)
    await store.put_modes("one", 0, 1, "{}", CONFIG)
    await store.put_damage("one", 1, "scratched")
    await store.latch_decision("one", "{}")
    parts = {str(key, "utf-8").rsplit("}:")[1] async for key in redis.scan_iter("optimist:{one}:*")}
    assert parts == {
        *("config", "generators", "counts", "log:0", "log:1", "estimates", "picks", "leases", "requests"),
        *("returned", "settled", "history", "decision", "fitted", "modes", "damaged"),
    }
    assert await store.delete_experiment("one")
    assert await redis.keys("*") == []
    assert not await store.delete_experiment("one")


async def test_what_is_deleted_or_unknown_cannot_come_back_by_halves(store: Store, redis: Redis):
    calls = [
        store.look("gone"),
        store.open_picks("gone", 0, [AskGroup("ask", [NewPick(0, "{}")])], lease_seconds=60),
        store.settle("gone", 1, "digest", 5, b"body"),
        store.give_up("gone", 1, "tired"),
        store.put_estimate("gone", 0, 1, "{}", CONFIG),
        store.put_fitted("gone", b"sigma", CONFIG),
        store.put_modes("gone", 0, 1, "{}", CONFIG),
        store.put_damage("gone", 0, "scratched"),
        store.latch_decision("gone", "{}"),
        store.history("gone"),
        store.read_log("gone", 0, 0),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            await call
    assert await store.config("gone") is None
    assert await redis.keys("*") == []


async def test_a_deletion_cut_short_is_not_listed_and_can_be_finished(store: Store, redis: Redis):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0)
    await redis.delete("optimist:{one}:config")
    assert await store.experiments() == []
    await store.delete_experiment("one")
    assert await redis.keys("*") == []


@pytest.mark.parametrize("name", ["", "a b", "a}b", "{a", "a\n"])
async def test_names_that_would_break_keys_are_refused(store: Store, name: str):
    with pytest.raises(ValueError, match="cannot be a name"):
        await store.create_experiment(name, CONFIG, ["a"], growth=0.0)


async def test_an_estimate_of_a_deleted_experiment_is_refused_by_its_successor(store: Store):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0)
    await store.delete_experiment("one")
    await store.create_experiment("one", '{"metric": "is"}', ["a"], growth=0.0)
    with pytest.raises(NotFound, match="made again"):
        await store.put_estimate("one", 0, 9, "{}", CONFIG)
    assert (await store.look("one")).generators[0].estimate_seq == 0


async def test_an_estimate_mends_the_damage_noted_before(store: Store):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0)
    for generator in (0, 1):
        await store.put_damage("one", generator, "scratched")
    await store.put_estimate("one", 0, 1, "{}", CONFIG)
    assert [g.damage for g in (await store.look("one")).generators] == [None, "scratched"]


async def test_only_newer_estimates_replace(store: Store):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0)
    payload = '{"value": 0.1234567890123456789}'
    assert await store.put_estimate("one", 1, 9, payload, CONFIG)
    assert await store.put_estimate("one", 1, 9, payload, CONFIG), "sent again after a lost reply"
    assert not await store.put_estimate("one", 1, 9, "other", CONFIG)
    assert not await store.put_estimate("one", 1, 8, "older", CONFIG)
    assert await store.put_estimate("one", 1, 10, payload, CONFIG)
    first, second = (await store.look("one")).generators
    assert (first.estimate_seq, first.estimate) == (0, None)
    assert (second.estimate_seq, second.estimate) == (10, payload)


async def test_a_decision_is_latched_and_damage_noted(store: Store):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0)
    assert await store.latch_decision("one", '{"best": "a"}')
    assert await store.latch_decision("one", '{"best": "a"}'), "sent again after a lost reply"
    assert not await store.latch_decision("one", '{"best": "b"}')
    await store.put_damage("one", 1, "batch 3 does not match its digest")
    look = await store.look("one")
    assert look.decision == '{"best": "a"}'
    assert [g.damage for g in look.generators] == [None, "batch 3 does not match its digest"]


async def test_what_is_fitted_first_stands(store: Store):
    await store.create_experiment("one", CONFIG, ["a"], growth=0.0)
    assert await store.fitted("one") is None
    assert await store.put_fitted("one", b"\x00sigma\xff", CONFIG) == b"\x00sigma\xff"
    assert await store.put_fitted("one", b"other", CONFIG) == b"\x00sigma\xff"
    assert await store.fitted("one") == b"\x00sigma\xff"
    with pytest.raises(NotFound, match="made again"):
        await store.put_fitted("one", b"other", '{"metric": "is"}')


async def test_modes_are_wanted_made_and_replaced_by_newer_ones(store: Store):
    await store.create_experiment("one", CONFIG, ["a", "b"], growth=0.0)
    assert await store.modes("one", 1) is None
    async with store.announcements(MODES, MODES_MADE) as stream:
        for _ in range(2):
            assert await anext(stream) is None
        await store.want_modes("one", 1)
        assert await anext(stream) == Announcement(MODES, "one", 1, 0)
        assert await store.put_modes("one", 1, 9, "nine", CONFIG)
        assert not await store.put_modes("one", 1, 8, "older", CONFIG)
        assert await store.put_modes("one", 1, 9, "nine again", CONFIG)
        for _ in range(2):
            assert await anext(stream) == Announcement(MODES_MADE, "one", 1, 9)
    assert await store.modes("one", 1) == (9, "nine again")
    with pytest.raises(NotFound, match="made again"):
        await store.put_modes("one", 1, 10, "{}", '{"metric": "is"}')
