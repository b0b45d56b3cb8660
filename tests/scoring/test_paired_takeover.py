"""Scorers of paired generators: whoever takes over, and whatever came late, publishes the estimates of the log."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.numerics.estimate import Estimate
from optimist.records import codec
from optimist.scoring.cached import CachedStatistic
from optimist.store import EmbeddedRedis, open_store
from tests.support.logs import moments_bound
from tests.support.made import Made, scoring, settled

ROWS = 100
"""Rows of a batch of which some twenty outgrow a snapshot in 4 dimensions."""


async def tell(made: Made, places: list[int]) -> None:
    for place in places:
        rows = np.random.default_rng(place).standard_normal((ROWS, 4))
        await made.tell(0, {"features": rows}, start=ROWS * place)


@pytest.mark.parametrize("warm_bytes", [0, None])
async def test_scorers_that_follow_each_other_publish_the_same_history(make, server: EmbeddedRedis, warm_bytes):
    made = await make(generators=1, rescore_growth=0.05, keep_log=True, batch_size=ROWS)
    published: dict[int, str] = {}
    # Two batches change places; of the third turn some are late, and one is told again in the last.
    for places in ([0, 2, 1], [*range(3, 25)], [27, 26, 25, *range(28, 45)], [50, 44]):
        async with open_store(server.url) as store, scoring(store, warm_bytes):
            await tell(made, places)
            state = (await settled(made)).generators[0]
        published[state.primary.estimate_seq] = state.primary.estimate or ""
    assert state.primary.snapshot_seq > 0
    whole, expected = CachedStatistic(moments_bound(), 0.05, paired=True), {}
    for entry in await made.store.read_log(made.name, 0, 0, max_entries=1000):
        step = whole.apply([entry])
        if step.scored is not None:
            expected[entry.seq] = codec.encode(step.scored.estimate)
    assert published.items() <= expected.items()
    pairing = codec.decode(Estimate, published[max(published)]).pairing
    assert pairing is not None
    assert [past.samples // ROWS for past in pairing.history][:3] == [1, 3, 4]
    assert len(pairing.history) > 15
    assert np.isfinite(pairing.influence).all()
