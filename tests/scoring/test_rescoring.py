"""Retracted batches leave the estimates as if they had never been told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate
from optimist.records import GeneratorState, codec
from tests.support.made import Made, scoring, settled, until

BIG = 40
ABSURD = 1e29


async def numbers(made: Made) -> list[dict[str, Any]]:
    """The estimates of an experiment, once all are made."""
    return [json.loads(g.primary.estimate) for g in (await settled(made)).generators if g.primary.estimate]


async def first(made: Made) -> GeneratorState:
    return (await made.store.state(made.name)).generators[0]


def absurd(made: Made, rows: int = 5) -> dict[str, Any]:
    return {"features": np.full((rows, made.experiment.columns["features"]), ABSURD)}


@pytest.mark.parametrize("keep_log", [True, False])
async def test_one_absurd_batch_does_not_poison_an_experiment_for_good(make, keep_log: bool):
    made, never = [await make(name, keep_log=keep_log, rescore_growth=0.0) for name in ("absurd", "never")]
    position = 0
    async with scoring(made.store):
        for batches in (3, 0, 4):
            for each in (made, never):
                for generator in (0, 1):
                    await each.tell_many(generator, batches, seed=batches)
            if not batches:
                position = await made.tell(0, absurd(made))
                # Its estimate cannot even be computed, or is absurd.
                await until(lambda: _gone_wrong(made))
        record, _ = await made.store.retract("absurd", generator=0, position=position)
        assert record is not None
        assert await numbers(made) == await numbers(never)
        state = await first(made)
        assert (state.primary.estimate_seq, state.primary.scoring_error, state.retracted) == (9, None, 5)
        for each in (made, never):
            await each.tell_many(0, 2, seed=9)
        assert await numbers(made) == await numbers(never)


async def _gone_wrong(made: Made) -> bool:
    state = await first(made)
    return bool(state.primary.scoring_error) or (
        state.primary.estimate is not None and codec.decode(Estimate, state.primary.estimate).score > 1e20
    )


async def test_what_was_in_a_snapshot_is_scored_again_from_the_kept_log(make):
    made, never = [await make(name, keep_log=True) for name in ("x", "never")]
    async with scoring(made.store):
        for each in (made, never):
            await each.tell_many(0, 30, BIG)
            if each is made:
                await each.tell(0, absurd(made) | {"features": np.ones((7, 4))})
            await each.tell_many(0, 30, BIG, seed=1)
        assert (await settled(made)).generators[0].primary.snapshot_seq > 31
        await made.store.retract("x", generator=0, position=31)
        ours, state = await numbers(made), await first(made)
        assert (state.primary.estimate_seq, state.samples) == (62, 60 * BIG)
        assert state.primary.snapshot_seq == 62
        # The other's estimate was due earlier: told the same until both are due, they agree to the bit.
        await never.store.retract("never", generator=0, position=(await never.tell(0, {"features": np.ones((1, 4))})))
        assert ours == await numbers(never)


async def test_a_generator_begins_anew_without_its_log(make):
    made = await make("x")
    fresh = await make("fresh")
    async with scoring(made.store):
        await made.tell_many(0, 60, BIG, seed=3)
        assert (await settled(made)).generators[0].primary.snapshot_seq > 0
        await made.store.retract("x", generator=0)
        assert (await first(made)).samples == 0
        for each in (made, fresh):
            await each.tell_many(0, 60, BIG)
        assert await numbers(made) == await numbers(fresh)
        assert (await first(made)).primary.snapshot_seq > 61
        await made.tell_many(0, 3, seed=4)
        await made.store.retract("x", generator=0, position=(await first(made)).seq)
        assert (await settled(made)).generators[0].samples == 60 * BIG + 10


async def test_a_bandwidth_that_an_absurd_batch_fixed_is_fixed_again(make):
    kernel = {"name": "gaussian", "sigma": "median", "features": 16}
    made, never = [
        await make(name, metric="rke", dimension=3, kernel=kernel, rescore_growth=0.0) for name in ("x", "never")
    ]
    async with scoring(made.store):
        position = 0
        for _ in range(8):
            position = await made.tell(0, {"features": np.random.default_rng(1).normal(0.0, 1e9, (20, 3))})
        for each in (made, never):
            for generator in (0, 1):
                await each.tell_many(generator, 30, seed=5)
        await settled(made)
        poisoned = await made.fitted()
        for bad in range(1, position + 1):
            await made.store.retract("x", generator=0, position=bad, fits_kernels=True)
        assert await numbers(made) == await numbers(never)
        assert await made.fitted() == await never.fitted() != poisoned


@pytest.mark.long
async def test_retractions_while_scorers_work(make):
    """Whenever a retraction comes, the estimate in the end is that of what is left."""
    made, never = [await make(name, keep_log=True, rescore_growth=0.0) for name in ("x", "never")]
    rng = np.random.default_rng(0)
    async with scoring(made.store), scoring(made.store):
        for seed in range(12):
            await made.tell_many(0, 3, BIG, seed=seed)
            await never.tell_many(0, 2, BIG, seed=seed)
            await asyncio.sleep(rng.uniform(0.0, 0.05))
            await made.store.retract("x", generator=0, position=4 * seed + 3)
            await asyncio.sleep(rng.uniform(0.0, 0.02))
        assert await numbers(made) == await numbers(never)
