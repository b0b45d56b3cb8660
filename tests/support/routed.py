"""Routed picks told straight to the store, and what must be made of their logs, by one process that has them all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from optimist.estimation.stored import question_of, unpack_kernels
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.goals.registry import learner_of
from optimist.records import AskedPrompt, AskGroup, Contents, LogExtent, NewPick, Opened, Opening, PickBatch, Settled
from optimist.routing.answers.ridge import Sums
from optimist.routing.learning.kept import RoutedStatistic
from optimist.scoring.cached import CachedStatistic
from tests.support.logs import entry
from tests.support.made import Made, until

WIDTH = 6
ROUTES: dict[str, Any] = {
    "metric": "mean",
    "goal": "route",
    "context": WIDTH,
    "context_features": 16,
    "context_bandwidth": 1.5,
    "rescore_growth": 0.1,
}
_requests = itertools.count()
Row = tuple[np.ndarray, float]
"""A context, and what is scored on it."""


def prompts(count: int, generator: int, seed: int = 0) -> list[Row]:
    """Contexts, and what a generator scores on them: 0 or 1, one kind of prompt more often than the other."""
    rng = np.random.default_rng((seed, generator))
    kinds = rng.integers(2, size=count)
    contexts = rng.standard_normal((count, WIDTH)) + 3.0 * kinds[:, None]
    scores = rng.random(count) < np.where(kinds == generator % 2, 0.8, 0.3)
    return list(zip(contexts.astype(np.float32), scores.astype(float).tolist(), strict=True))


async def tell_routed(made: Made, generator: int, rows: Sequence[Row], probability: float | None = 0.5) -> None:
    """Open a pick for each of these contexts, and tell its score."""
    state = await made.store.state(made.name)
    picks = [
        NewPick(
            *(generator, "{}"),
            context=AskedPrompt(context, probability, f"prompt {context[0]:.3f}").pack(),
            nonce=f"{next(_requests):x}",
        )
        for context, _ in rows
    ]
    request = f"request {next(_requests)}"
    opening = Opening([AskGroup(request, picks)], 60.0, state.rounds, state.last)
    exchanged = await made.store.exchange(made.name, opening=opening)
    assert isinstance(exchanged.opened, Opened), "somebody else opened picks"
    told = []
    for pick, number, (_, score) in zip(picks, exchanged.opened.numbers[request], rows, strict=True):
        good = entry(number, {"values": np.array([[score]])})
        told.append(PickBatch(number, pick.nonce, Contents(good.digest, good.rows, good.body)))
    settled = (await made.store.exchange(made.name, told)).settled
    assert all(isinstance(one, Settled) for one in settled), settled


async def estimators_of(made: Made, parts: dict[int, LogExtent]) -> dict[int, StreamingEstimator]:
    """The whole logs up to these positions, which must be kept, as one process reads them."""
    question = question_of(made.experiment, None, learner=learner_of(made.config))
    if question.is_open:
        question = unpack_kernels(question, await made.fitted() or b"")
    assert question.learner is not None
    estimators = {}
    for ordinal, part in parts.items():
        bound, learner = question.bound_for({"values": 1}), question.learner
        retracted = await made.store.retracted_log(made.name, ordinal)
        cached = CachedStatistic(
            *(bound, made.config.rescore_growth, retracted), reads=question.reads, learner=learner, ordinal=ordinal
        )
        log = await made.store.read_log(made.name, ordinal, 0, max_entries=10**6)
        cached.apply([one for one in log if one.seq <= part.seq], part.seq)
        assert (cached.seq, cached.estimator.samples) == part
        estimators[ordinal] = cached.estimator
    return estimators


async def is_exact(made: Made) -> bool:
    """Whether the published model is that of the logs up to its positions, bit for bit."""
    stored, found = (await made.store.state(made.name)).model, await made.store.artefact(made.name, made.model)
    assert stored is not None
    assert found is not None
    estimators = await estimators_of(made, dict(stored.parts))
    return stored.made == found.made and learner_of(made.config).model(estimators) == found.payload


async def has_model(made: Made) -> None:
    """When the model is made that is due."""

    async def come() -> bool:
        state = await made.store.state(made.name)
        return state.model is not None and not state.is_model_due

    await until(come)


async def table_of_now(made: Made) -> tuple[dict[int, LogExtent], str]:
    """The table of the logs as they are now, which is asked for as the API does."""
    expected = {g.ordinal: g.seq for g in (await made.store.state(made.name)).modelled}
    asked = itertools.count()

    async def come() -> bool:
        if next(asked) % 25 == 0:
            await made.store.want(made.name, made.table)
        found = await made.store.artefact(made.name, made.table)
        return found is not None and {g: part.seq for g, part in found.parts.items()} == expected

    await until(come)
    found = await made.store.artefact(made.name, made.table)
    assert found is not None
    return dict(found.parts), found.payload.decode()


def moments(estimator: StreamingEstimator) -> Sums:
    """The sums over contexts of an estimator."""
    assert isinstance(estimator.learned, RoutedStatistic)
    return estimator.learned.moments
