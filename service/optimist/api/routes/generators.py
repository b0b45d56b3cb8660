"""Routes of generators: add, pause, resume and retire them, change their cost, and append batches without a pick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request

from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI
from optimist.api.bodies.batches import Embedding, Embeddings, read_batch
from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import ContextDep
from optimist.api.problems import invalid
from optimist.records import COST
from optimist_client.goals import check_route_size
from optimist_client.models import Experiment, GeneratorChange, GeneratorRequest, Identifier, Report, TellReply
from optimist_client.previews import check_previews
from optimist_client.route_fields import priced_by

START = "Index of the first sample in the generator's sequence; without it the samples have no indices"

router = APIRouter(prefix="/v1/experiments/{name}/generators", tags=["generators"], route_class=ModelRoute)


@router.post("")
async def add_generator(name: Identifier, wanted: GeneratorRequest, context: ContextDep) -> Report:
    """Add a generator. If the experiment already has a generator of this name, nothing changes."""
    experiment = await context.experiment(name)
    state = await context.state(experiment)
    is_new = all(generator.name != wanted.name for generator in state.stored.generators)
    if is_new and wanted.cost is None and state.max_cost is not None:
        raise invalid("cost: expected a number, as an experiment with `max_cost` needs it for every generator")
    if is_new and experiment.config.goal == "route":
        _check_routed(experiment, wanted, 1 + len(state.stored.generators))
    if is_new:
        _refusing(check_previews, experiment.config.previews, 1 + len(state.stored.generators))
    most = context.settings.max_generators
    seeds = experiment.config.seeds is not False if wanted.seeds is None else wanted.seeds
    await context.store.add_generator(name, wanted.name, most=most, cost=wanted.cost, is_seedless=not seeds)
    context.polls.changed(name)
    return await context.report(experiment)


def _check_routed(experiment: Experiment, wanted: GeneratorRequest, count: int) -> None:
    """Raise `ApiError` 422 where a model of contexts cannot have one more generator, `count` in all."""
    config = experiment.config
    if (named := priced_by(config)) and wanted.cost is None:
        raise invalid(f"cost: expected a number, as an experiment with `{named}` needs it for every generator")
    _refusing(check_route_size, config.context_features, count)


def _refusing(check: Callable[[int, int], None], *numbers: int) -> None:
    """Run a check of a config, and raise `ApiError` 422 instead of its FixError."""
    try:
        check(*numbers)
    except ValueError as error:
        raise invalid(str(error)) from None


@router.post("/{generator:path}/batches", openapi_extra=ARRAYS_IN_OPENAPI)
async def append(
    name: Identifier,
    generator: str,
    request: Request,
    context: ContextDep,
    idempotency_key: Annotated[str, Header(min_length=1, max_length=200)],
    embedding: Embedding = None,
    embeddings: Embeddings = [],  # noqa: B006 (FastAPI copies it)
    start: Annotated[int | None, Query(ge=0, lt=2**32, description=START)] = None,
) -> TellReply:
    """Add samples that were generated without a pick.

    Requests with the same idempotency key, batch and `start` count once. A key is remembered for a day.

    With `start` the samples are compared with those of the same indices of other generators. Picks of the generator go
    on at the next multiple of the batch size after them; indices that are left out before them go to no pick.
    Samples of indices that were told before do not count. Those of a generator that ignores seeds have no indices: 422
    with `start`.
    """
    experiment = await context.experiment(name)
    if experiment.config.goal == "route":
        raise invalid("with the goal 'route' every batch is told for a pick, which has the context of its prompt")
    ordinal = await context.ordinal(experiment, generator)
    batch = await read_batch(request, experiment, context.settings, embedding, embeddings)
    key = idempotency_key
    async with context.vitals.room_for(len(batch.body), lambda: context.store.was_appended(name, ordinal, key)):
        settled = await context.store.append(
            *(name, ordinal, key, batch.digest, batch.rows, batch.body),
            start=start,
            measures=batch.measures,
            instance=experiment.instance,
        )
    return await context.told(experiment, settled)


# This route comes last because its path also matches all longer ones.
@router.patch("/{generator:path}")
async def change_generator(name: Identifier, generator: str, change: GeneratorChange, context: ContextDep) -> Report:
    """Pause, resume or permanently retire a generator, or change its cost. At least one must remain active.

    Batches for its open picks are still accepted. A new cost applies to all its samples, including earlier ones.
    """
    experiment = await context.experiment(name)
    ordinal = await context.ordinal(experiment, generator)
    if change.state is not None:
        await context.store.set_state(name, ordinal, change.state)
    if change.cost is not None:
        await context.store.control(name, {f"{COST}{generator}": repr(change.cost)})
    context.polls.changed(name)
    return await context.report(experiment)
