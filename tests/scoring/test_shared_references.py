"""Equal references are one in a scorer, whatever they are called and however many experiments use them."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
from made import Made, scoring, settled, until

from optimist.numerics.fid.reference import Reference
from optimist.store import EmbeddedRedis, Store, open_store
from optimist_client import tensors


def references() -> set[int]:
    """Those that this process has."""
    gc.collect()
    return {id(found) for found in gc.get_objects() if type(found) is Reference}


async def told(experiments: Sequence[Made], turn: int) -> None:
    """Batches to all of them, and their estimates."""
    for made in experiments:
        for generator in (0, 1):
            await made.tell_many(generator, 3, seed=turn)
    for made in experiments:
        await settled(made)


async def test_experiments_share_a_reference_which_goes_with_the_last_of_them(
    make, store: Store, server: EmbeddedRedis
):
    normal = {"mean": np.zeros(4), "covariance": np.eye(4)}
    await store.references.put("same", "{}", tensors.encode(normal))
    await store.references.put("other", "{}", tensors.encode({**normal, "mean": np.ones(4)}))
    sharing = [await make("a"), await make("b"), await make("c", reference="same")]
    alone = await make("d", reference="other")
    before = references()

    async def left(count: int) -> bool:
        return len(references() - before) == count

    async with open_store(server.url) as own, scoring(own):
        for turn in (0, 1):
            await told([*sharing, alone], turn)
            assert await left(2)
        scores = [(await settled(made)).generators[0].estimate for made in sharing]
        assert len(set(scores)) == 1
        assert (await settled(alone)).generators[0].estimate not in scores
        await store.delete_experiment("d")
        await until(lambda: left(1))
        for name in ("a", "c"):
            await store.delete_experiment(name)
        await told([sharing[1]], 2)
        assert await left(1), "one that is left uses it still"
        await store.delete_experiment("b")
        await until(lambda: left(0))
