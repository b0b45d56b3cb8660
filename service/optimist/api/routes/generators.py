"""Routes of generators: add, pause, resume, retire, what they cost, and batches that no pick asked for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request

from optimist.api.bodies.arrays import ARRAYS_IN_OPENAPI
from optimist.api.bodies.batches import Embedding, read_batch
from optimist.api.context import ContextDep
from optimist.api.problems import invalid
from optimist.dispatch.views import View
from optimist.store import COST
from optimist_client.models import GeneratorChange, GeneratorRequest, Identifier, Report, TellReply

router = APIRouter(prefix="/v1/experiments/{name}/generators", tags=["generators"])


@router.post("")
async def add_generator(name: Identifier, wanted: GeneratorRequest, context: ContextDep) -> Report:
    """Add a generator; one that is there stays as it is."""
    experiment = await context.experiment(name)
    view = View(experiment, await context.store.look(name))
    if wanted.cost is None and view.max_cost is not None and all(g.name != wanted.name for g in view.look.generators):
        raise invalid("cost: an experiment with `max_cost` needs it")
    most = context.settings.max_generators
    await context.store.add_generator(name, wanted.name, most=most, cost=wanted.cost)
    context.polls.changed(name)
    return View(experiment, await context.store.look(name)).report()


@router.post("/{generator:path}/batches", openapi_extra=ARRAYS_IN_OPENAPI)
async def append(
    name: Identifier,
    generator: str,
    request: Request,
    context: ContextDep,
    idempotency_key: Annotated[str, Header(min_length=1, max_length=200)],
    embedding: Embedding = None,
) -> TellReply:
    """Add samples that were made without a pick. The same key with the same batch counts once, within a day."""
    experiment = await context.experiment(name)
    ordinal = await context.ordinal(name, generator)
    batch = await read_batch(request, experiment, context.settings, embedding)
    key = idempotency_key
    async with context.vitals.room_for(len(batch.body), lambda: context.store.was_appended(name, ordinal, key)):
        settled = await context.store.append(
            *(name, ordinal, key, batch.digest, batch.rows, batch.body),
            measures=batch.measures,
            instance=experiment.instance,
        )
    return await context.told(experiment, settled)


# Last: its path is the beginning of all others.
@router.patch("/{generator:path}")
async def change_generator(name: Identifier, generator: str, change: GeneratorChange, context: ContextDep) -> Report:
    """Pause a generator, let it go on, or retire it for good; one must stay active. Open picks count in any case.

    A new cost is that of all its samples, those already told included.
    """
    experiment = await context.experiment(name)
    ordinal = await context.ordinal(name, generator)
    if change.state is not None:
        await context.store.set_state(name, ordinal, change.state)
    if change.cost is not None:
        await context.store.control(name, {f"{COST}{generator}": repr(change.cost)})
    context.polls.changed(name)
    return View(experiment, await context.store.look(name)).report()
