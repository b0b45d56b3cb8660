"""A model of contexts as a scorer would publish it, of made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimist.records import Artefact, ChainedExtent
from optimist.routing.answers.model import RouteModel
from optimist.store import MODEL_UNIT, Store
from tests.support.exchanges import claimed

WIDTH = 4
"""Of contexts."""
FEATURES, COMPONENTS, SAMPLED = 8, 2, 200


def model(means: Mapping[int, float], width: float = 0.1, slope: float = 1.0) -> RouteModel:
    """By ordinal, what generators score on average; what they score on one prompt differs by about `slope`."""
    rng, count = np.random.default_rng(7), len(means)
    columns, linear = COMPONENTS + FEATURES, np.random.default_rng(8)
    arrays = {
        "frequencies": rng.standard_normal((FEATURES // 2, WIDTH)),
        "origin": linear.standard_normal(WIDTH),
        "directions": 0.3 * linear.standard_normal((COMPONENTS, WIDTH)),
        "offsets": np.array(list(means.values())),
        "weights": slope
        * np.hstack([0.1 * linear.standard_normal((count, COMPONENTS)), rng.standard_normal((count, FEATURES))]),
        "factors": np.zeros((count, columns, columns)),
        "centres": np.zeros((count, columns)),
        "floors": np.ones(count),
        "scales": np.full(count, width),
        "single": np.array(list(means.values())),
        "sampled_means": np.array(list(means.values())) + slope * linear.standard_normal((SAMPLED, count)),
        "sampled_widths": np.full((SAMPLED, count), width),
    }
    singles = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
    return RouteModel(tuple(means), (1,) * count, **singles)


async def put_model(
    store: Store, experiment: str, published: RouteModel | bytes, table: str = "", point: str = ""
) -> str:
    """Publish it, and perhaps a table, as made of the logs as they are. Returns its name."""
    stored = await store.state(experiment)
    (label,) = stored.labels
    claim = await claimed(store, experiment, MODEL_UNIT, "me", 60, label)
    parts = []
    for g in stored.modelled:
        [entry] = await store.read_log(experiment, g.ordinal, g.seq - 1)
        parts.append(ChainedExtent(g.ordinal, g.seq, g.samples, entry.chain))
    packed = published if isinstance(published, bytes) else published.pack()
    assert await store.put_artefact(experiment, Artefact("model", label), packed, claim, parts)
    if table:
        assert await store.put_artefact(experiment, Artefact("table", label), table, claim, parts, point=point)
    found = await store.artefact(experiment, Artefact("model", label))
    assert found is not None
    return found.made
