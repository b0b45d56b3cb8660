"""A mixture as a scorer would store it, of made-up numbers."""

from __future__ import annotations

import numpy as np

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Quadratic
from optimist.records import Artefact, ChainedExtent, codec
from optimist.store import MIXTURE, Store
from tests.support.exchanges import claimed


async def put_mixture(store: Store, experiment: str, slack: float = 0.5, **weights: float) -> str:
    """Store one of the logs as they are, with these weights. Returns its name."""
    stored = await store.state(experiment)
    label = stored.labels[0]
    claim = await claimed(store, experiment, MIXTURE, "me", 60, label)
    parts = []
    for g in stored.mixable:
        [entry] = await store.read_log(experiment, g.ordinal, g.seq - 1)
        parts.append(ChainedExtent(g.ordinal, g.seq, g.samples, entry.chain))
    names = [g.name for g in stored.mixable]
    made = mixture(names, [g.samples for g in stored.mixable], [weights.get(name, 0.0) for name in names], slack)
    artefact = Artefact("mixture", label)
    assert await store.put_artefact(experiment, artefact, codec.encode(made), claim, parts)
    found = await store.artefact(experiment, artefact)
    assert found is not None
    return found.made


def mixture(names: list[str], samples: list[int], weights: list[float], slack: float) -> Mixture:
    count = len(names)
    total = sum(weights)
    return Mixture(
        generators=tuple(names),
        samples=tuple(samples),
        weights=tuple(weight / total for weight in weights),
        value=1.0,
        error=0.1,
        best=names[0],
        best_value=0.9,
        gain=0.1,
        gain_error=0.02,
        slacks=(slack,) * count,
        slack_errors=(0.0,) * count,
        contributions=(0.0,) * count,
        model=Quadratic(np.diag(np.arange(1.0, count + 1.0)), np.zeros(count)),
        deviations=(0.0,) * count,
        scale="log",
        lower_is_better=False,
    )
