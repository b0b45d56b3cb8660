"""Equal references are one in a scorer, whatever they are called and however many experiments use them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from optimist.estimation import stored
from optimist.metrics import implementations
from optimist.metrics.fid.reference import Reference
from optimist.scoring.experiments import References
from optimist.store import EmbeddedRedis, Store
from optimist_client import tensors
from optimist_client.metrics import FID, KID, MMD, Gaussian, Metric
from tests.support.made import Made, scoring_at, settled, until


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


@pytest.mark.long
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

    async with scoring_at(server):
        for turn in (0, 1):
            await told([*sharing, alone], turn)
            assert await left(2)
        scores = [(await settled(made)).generators[0].primary.estimate for made in sharing]
        assert len(set(scores)) == 1
        assert (await settled(alone)).generators[0].primary.estimate not in scores
        await store.delete_experiment("d")
        await until(lambda: left(1))
        for name in ("a", "c"):
            await store.delete_experiment(name)
        await told([sharing[1]], 2)
        assert await left(1), "one that is left uses it still"
        await store.delete_experiment("b")
        await until(lambda: left(0))


async def test_metrics_share_what_they_make_of_equal_data(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Whatever they are called and read; each makes its own, once, however many ask for it at a time."""
    rows = np.random.default_rng(0).standard_normal((40, 4))
    real = {"mean": rows.mean(0), "covariance": np.cov(rows, rowvar=False), "features": rows}
    for name in ("one", "another"):
        await store.references.put(name, "{}", tensors.encode(real))
    made: list[str] = []
    make = implementations.implementation

    def noted(name: str) -> Any:
        made.append(name)
        return make(name)

    monkeypatch.setattr(implementations, "implementation", noted)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    shared = References(store, in_thread, torch.device("cpu"))
    smooth, sharp = Gaussian(2.0, features=8), Gaussian(1.0, features=8)
    wanted: list[Metric] = [
        FID(reference="one"),
        FID(reference="another", label="dino", reads="dinov2"),
        KID(reference="one"),
        KID(reference="another"),
        MMD(reference="one", kernel=smooth),
        MMD(reference="another", kernel=smooth, reads="clip"),
        MMD(reference="one", kernel=sharp),
    ]
    found = await asyncio.gather(*(shared.get("x", metric) for metric in wanted))
    assert sorted(made) == ["fid", "kid", "mmd", "mmd"]
    assert [found.index(one) for one in found] == [0, 0, 2, 2, 4, 4, 6]
    assert shared.bytes == sum(one.bytes for one in {id(one): one for one in found}.values()) > 40 * 4 * 8
    del found
    await asyncio.to_thread(gc.collect)  # the loop and its threads keep their last result until the next one
    assert shared.bytes == 0
    with pytest.raises(ValueError, match="'gone' is gone"):
        await shared.get("x", FID(reference="gone"))


async def test_a_reference_without_rows_is_refused_where_they_are_needed(store: Store):
    await store.references.put("moments", "{}", tensors.encode({"mean": np.zeros(4), "covariance": np.eye(4)}))
    found = await store.references.get("moments")
    assert found is not None
    data = stored.stored_reference(found[1])
    with pytest.raises(ValueError, match="rows"):
        implementations.make_reference(KID(reference="moments"), data)
