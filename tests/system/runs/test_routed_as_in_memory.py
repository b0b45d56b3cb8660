"""A router in the service gives every prompt the generator that an evaluation in memory gives it by the same model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimist import Evaluation
from optimist.records import LogExtent, StoredArtefact
from optimist.routing.answers.model import RouteModel
from optimist.routing.goal import ForRouting, LoadedModel
from optimist_client import Optimist
from optimist_client.metrics import Mean

NAMES = ["left", "right", "middle"]
SETTINGS = {"goal": "route", "context": 3, "context_features": 16, "seed": 4}


def model_of(evaluation: Evaluation) -> LoadedModel:
    """What a scorer would publish now."""
    state = evaluation.state
    parts = {one.ordinal: LogExtent(one.seq, one.samples) for one in state.stored.modelled}
    model = evaluation._primary.model([*parts])
    return LoadedModel.from_stored(StoredArtefact("", parts), RouteModel.unpack(model))


def test_pick_for_pick(client: Optimist, name: str):
    router = client.create_experiment(name, NAMES, metric=Mean(), **SETTINGS)
    evaluation = Evaluation(NAMES, metric=Mean(), **SETTINGS)
    rng = np.random.default_rng(0)
    models: dict[tuple[int, ...], LoadedModel] = {}  # by the log positions that they are made up to
    by_model = 0
    while by_model < 20:
        context = rng.standard_normal(3).astype(np.float32)
        pick = router.ask(context=context)
        used = None if pick.info.model is None else tuple(pick.info.positions)
        # Which model a pick is made by is a matter of time. As the scorer reads one log after the other while batches
        # come, it may be of a moment that memory has not seen.
        if used is None or used in models:
            goal, loaded = evaluation.state.goal, None if used is None else models[used]
            assert isinstance(goal, ForRouting)
            evaluation.state.put_goal(replace(goal, loaded=loaded))
            assert pick.generator == evaluation.ask(context=context)
            assert pick.info.probability == evaluation._drawn[2]
            by_model += loaded is not None
        value = [[float(context[NAMES.index(pick.generator)]) + rng.standard_normal()]]
        pick.tell(value)
        evaluation.tell(pick.generator, value, context=context)
        stored = evaluation.state.stored
        if stored.model is not None:
            models[tuple(one.seq for one in stored.generators)] = model_of(evaluation)
