"""Estimates of all that was told, which somebody waits for though none is due; and how long batches took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question
from optimist.records import Artefact, ExperimentState, codec
from optimist.scoring.cached import CachedStatistic
from optimist.store import Store
from optimist_client.metrics import Mean
from tests.support.exchanges import new_pick, open_one, settle
from tests.support.logs import entry
from tests.support.made import Made, scored, scoring, until

BOUND = Question(Mean()).bound_for({"values": 1})
RNG = np.random.default_rng(0)
LOG = [
    entry(seq, {"values": seconds[:, None]}, seconds=float(seconds.sum()))
    for seq, seconds in enumerate(RNG.lognormal(size=(30, 5)), start=1)
]


async def test_a_scorer_makes_them_and_the_due_ones_stay(store: Store, make: Callable[..., Awaitable[Made]]):
    made = await make(metric="mean", timed=True, rescore_growth=1.0)

    async def told(batches: int) -> None:
        for one in LOG[:batches]:
            pick = await open_one(store, "x", new_pick(0))
            assert pick is not None
            await settle(store, "x", pick, one.digest, one.rows, one.body)

    async def estimate_at(seq: int) -> Estimate:
        async def is_made() -> ExperimentState | None:
            state = await store.state("x")
            return state if state.generators[0].primary.estimate_seq == seq else None

        text = (await until(is_made)).generators[0].primary.estimate
        return codec.decode(Estimate, text)

    async with scoring(store):
        await told(3)
        assert (await scored(made)).generators[0].due_seq == 2
        await store.want("x", Artefact("estimate", "mean", 0))
        wanted = await estimate_at(3)
        assert wanted.samples == 15
        assert wanted.timing is not None
        assert wanted.timing.batches == 3
    async with scoring(store):
        await told(1)
        due = await estimate_at(4)
    whole = CachedStatistic(BOUND, 1.0)
    step = whole.apply([*LOG[:3], LOG[0]])
    assert step.scored is not None
    assert due == step.scored.estimate


def test_how_long_batches_took_is_part_of_a_snapshot():
    whole = CachedStatistic(BOUND, 0.0)
    whole.apply(LOG[:20])
    thawed = CachedStatistic.thaw(whole.freeze(), 20, BOUND, 0.0)
    whole.apply(LOG[20:])
    thawed.apply(LOG[20:])
    timing = thawed.estimator.estimate().timing
    assert timing == whole.estimator.estimate().timing
    assert timing is not None
    assert (timing.batches, timing.is_related) == (30, True)
    assert timing.pace == np.median([one.seconds for one in LOG]) / 5
