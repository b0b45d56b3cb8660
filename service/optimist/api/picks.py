"""Routes of picks: ask, tell, give up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from optimist.api.bodies import ARRAYS_IN_OPENAPI, Arrays, read_arrays
from optimist.api.context import ContextDep
from optimist.api.problems import invalid
from optimist.batches import BatchError, check_batch, check_directions
from optimist.settings import Settings
from optimist_client import tensors
from optimist_client.models import AskReply, AskRequest, Experiment, Identifier, TellReply, WorkerName

router = APIRouter(prefix="/v1/experiments/{name}/picks", tags=["picks"])


@router.post("")
async def ask(name: Identifier, context: ContextDep, request: AskRequest | None = None) -> AskReply:
    """The next picks, or the decision and no pick when the experiment has ended."""
    experiment = await context.experiment(name)
    return await context.desk(experiment).ask(request or AskRequest())


@router.post("/{number}/batch", openapi_extra=ARRAYS_IN_OPENAPI)
async def tell(
    name: Identifier,
    number: int,
    request: Request,
    context: ContextDep,
    next_: Annotated[bool, Query(alias="next", description="Answer with the next pick as well")] = False,
    worker: Annotated[WorkerName | None, Query(description="Whom the next pick is for")] = None,
) -> TellReply:
    """Settle a pick with the features, or class probabilities, of its samples; with their prompts and ids, if any.

    When this answers 200, the batch is durable and counts once.
    """
    experiment = await context.experiment(name)
    arrays = await read_arrays(request)
    _check(arrays, experiment, context.settings)
    rows = len(next(iter(arrays.values())))
    settled = await context.store.settle(name, number, tensors.digest(arrays), rows, await _canonical(request, arrays))
    # The request id makes the repeat of a lost tell-and-ask find the pick it already opened.
    asked = AskRequest(worker=worker, request_id=f"after-{number}")
    return TellReply(
        pick=number,
        generator=experiment.config.generators[settled.generator],
        samples=settled.samples,
        batches=settled.batches,
        position=settled.seq,
        late=settled.late,
        duplicate=settled.duplicate,
        next=await context.desk(experiment).ask(asked) if next_ else None,
    )


@router.delete("/{number}", status_code=204)
async def give_up(
    name: Identifier,
    number: int,
    context: ContextDep,
    reason: Annotated[str, Query(max_length=1000)] = "",
) -> None:
    """Return a pick untold, so that it no longer counts as on its way."""
    await context.experiment(name)
    await context.store.give_up(name, number, reason)


def _check(arrays: Arrays, experiment: Experiment, settings: Settings) -> None:
    config = experiment.config
    for name, array in arrays.items():
        if array.ndim > 0 and len(array) > settings.max_rows:
            raise invalid(f"{name}: expected at most {settings.max_rows} rows, got {len(array)}")
    try:
        check_batch(arrays, experiment.widths)
        if config.kernel is not None and config.kernel.name == "cosine":
            check_directions(arrays["features"])
    except BatchError as error:
        raise invalid(str(error)) from None


async def _canonical(request: Request, arrays: Arrays) -> bytes:
    """The body the log stores: a safetensors body as it came, others re-encoded."""
    if request.headers.get("content-type", "").startswith(tensors.MEDIA_TYPE):
        return await request.body()
    return tensors.encode(arrays)
