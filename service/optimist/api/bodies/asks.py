"""Reads asks, and the contexts that they bring with the goal "route": the embeddings of the prompts of their picks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from optimist.api.bodies.objects import JSON_WORK, LARGE, expect_json, run_in_thread, text_of
from optimist.api.middleware.access import header
from optimist.api.middleware.limits import Body
from optimist.api.middleware.service import parameters_in_openapi
from optimist.api.problems import ApiError, invalid
from optimist.experiments.goals.asked import AskedContext
from optimist.json_sizes import MAX_VALUES
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.models import AskRequest, Experiment, Identifier
from optimist_client.wire import GeneratorName, RequestId, WorkerName

MAX_CONTEXTS = 1000
"""Contexts of one ask."""
MAX_NUMBERS = 2**19
"""Numbers of all contexts of one ask."""
CONTEXTS = "contexts"
_ONLY_OF_THEM = "only asks of the goal 'route' have"
_IN_JSON = "; send contexts as application/x-safetensors"
_OF_TENSORS = "In a request with a body of safetensors: as the field of this name in JSON"


class AskParameters(BaseModel):
    """The parameters of an ask."""

    name: Identifier
    worker: Annotated[WorkerName | None, Field(description=_OF_TENSORS)] = None
    request_id: Annotated[RequestId | None, Field(description=_OF_TENSORS)] = None
    generators: Annotated[list[GeneratorName] | None, Field(description=_OF_TENSORS)] = None


IN_OPENAPI: dict[str, Any] = parameters_in_openapi(AskParameters, "name") | {
    "requestBody": {"content": {tensors.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}
"""OpenAPI description of what `read_ask` accepts beside JSON."""


def check_worker(experiment: Experiment, worker: str | None) -> None:
    """Raise `ApiError` 422 where an ask has to name its worker, and does not."""
    if worker is None and experiment.config.max_batches_per_worker is not None:
        raise invalid("worker: expected a name, as the experiment limits batches by worker (max_batches_per_worker)")


async def read_ask(
    request: Request, experiment: Experiment, given: AskParameters
) -> tuple[AskRequest, Sequence[AskedContext] | None]:
    """An ask in this experiment, and its contexts, if the experiment needs them. These decide how much it may hold.

    Raises `ApiError` 413, 415 or 422, RequestValidationError, HTTPException 408, 413 or 503.
    """
    body: Body = request.scope["body"]
    is_json = not (header(request.scope, b"content-type") or "").startswith(tensors.MEDIA_TYPE)
    if is_json:
        expect_json(request)
    width = experiment.config.context
    if width is None:
        if not is_json:
            raise ApiError(415, "media-type", "Unsupported media type", f"expected JSON: {_ONLY_OF_THEM} contexts")
        body.expect(2**16, f": {_ONLY_OF_THEM} contexts")
        whole = await body.whole()
        wanted = await run_in_thread(JSON_WORK * len(whole), _of_json, whole)
        check_worker(experiment, wanted.worker)
        return wanted, None
    if is_json:
        body.expect(2**20, _IN_JSON)  # which is parsed within a few milliseconds
        whole = await body.whole()
        wanted, contexts = await run_in_thread(JSON_WORK * len(whole), _contexts_of_json, whole, width)
    else:
        numbers, texts = min(MAX_NUMBERS, MAX_CONTEXTS * width), MAX_CONTEXTS * tensors.LONGEST_TEXT
        body.expect(tensors.LONGEST_HEADER + 8 * numbers + texts)
        whole = await body.whole()
        wanted, contexts = await run_in_thread(len(whole), _contexts_of_tensors, whole, given, width)
    check_worker(experiment, wanted.worker)
    if contexts is None:
        whose = "the embedding of each prompt that a pick is wanted for"
        raise invalid(f"contexts: expected {whose}, {width:,} numbers each")
    return wanted, contexts


def bytes_of(
    experiment: Experiment, request: AskRequest, contexts: Sequence[AskedContext] | None, pick_bytes: int = 4096
) -> int:
    """About how many bytes the picks of an ask take in Redis, with their contexts.

    pick_bytes: of one pick in Redis, and on its disk, without its context.
    """
    if contexts is None:
        return request.count * pick_bytes
    numbers, texts = sum(one.row.nbytes for one in contexts), sum(len(one.text) for one in contexts)
    return len(contexts) * pick_bytes + numbers + texts * (1 + experiment.config.tries)


def _of_json(body: bytes, width: int = 0) -> AskRequest:
    """The ask in a body of JSON, with contexts of `width` numbers if any. pydantic reads these six times as fast as
    FastAPI would."""
    if body.strip() in (b"", b"null"):
        return AskRequest()
    try:
        # Numbers, the lists that they are in, prompts, generators; and what fields there are beside.
        wanted = AskRequest.model_validate_json(text_of(body, min(MAX_VALUES, MAX_CONTEXTS * (width + 3) + 64)))
    except ValidationError as error:
        raise _invalid(error, has_input=len(body) <= LARGE) from None
    except ValueError as error:
        raise invalid(f"{error}{_IN_JSON if width else ''}") from None
    if not width and (wanted.contexts is not None or wanted.prompts is not None):
        raise invalid(f"{CONTEXTS if wanted.prompts is None else 'prompts'}: {_ONLY_OF_THEM} them")
    return wanted


def _contexts_of_json(body: bytes, width: int) -> tuple[AskRequest, Sequence[AskedContext] | None]:
    """The ask in a body of JSON, and its contexts if it has any."""
    wanted = _of_json(body, width)
    if wanted.contexts is None:
        return wanted, None
    for place, context in enumerate(wanted.contexts):
        if len(context) != width:
            raise invalid(f"contexts.{place}: expected {width:,} numbers, got {len(context):,}")
    return _with_contexts(wanted, np.array(wanted.contexts, dtype=np.float64))


def _contexts_of_tensors(
    body: bytes, given: AskParameters, width: int
) -> tuple[AskRequest, Sequence[AskedContext] | None]:
    """The ask whose contexts (n, width) are a tensor, and the texts of their prompts perhaps another."""
    try:
        arrays = tensors.decode(body)
        texts = arrays.pop(tensors.TEXTS, None)
        prompts = None if texts is None else _texts(texts)
    except ValueError as error:
        raise invalid(str(error)) from None
    rows = arrays.pop(CONTEXTS, None)
    if arrays:
        raise invalid(f"{next(iter(arrays))}: expected no arrays but {CONTEXTS} and {tensors.TEXTS}")
    if rows is not None and (rows.ndim != 2 or rows.shape[1] != width or not 1 <= len(rows) <= MAX_CONTEXTS):
        raise invalid(
            f"contexts: expected an array of at most {MAX_CONTEXTS:,} rows of {width:,} numbers, got one of shape "
            f"{rows.shape}"
        )
    fields = given.model_dump(exclude={"name"}) | ({} if prompts is None else {"prompts": prompts})
    try:
        wanted = AskRequest.model_validate(fields)
    except ValidationError as error:
        raise _invalid(error, has_input=False) from None
    return (wanted, None) if rows is None else _with_contexts(wanted, rows)


def _texts(rows: NDArray[np.uint8]) -> list[str]:
    if rows.ndim != 2 or rows.shape[1] > tensors.LONGEST_TEXT:
        raise FixError(f"{tensors.TEXTS}: expected (n, k), of at most {tensors.LONGEST_TEXT} bytes each")
    return tensors.unpack_ids(rows, tensors.TEXTS)


def _with_contexts(wanted: AskRequest, rows: NDArray[np.floating]) -> tuple[AskRequest, Sequence[AskedContext]]:
    texts: Sequence[str] | None = wanted.prompts
    if texts is not None and len(texts) != len(rows):
        raise invalid(f"prompts: expected one for each of the {len(rows):,} contexts, got {len(texts):,}")
    if rows.size > MAX_NUMBERS:
        limit = max(1, MAX_NUMBERS // rows.shape[1])
        raise invalid(
            f"contexts: expected at most {limit:,} of {rows.shape[1]:,} numbers in one ask, got {len(rows):,}"
        )
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    if not np.isfinite(rows).all():
        raise invalid("contexts: expected finite numbers that float32 can hold")
    contexts = [*map(AskedContext, rows, texts or [""] * len(rows))]
    return wanted.model_copy(update={CONTEXTS: None, "prompts": None}), contexts


def _invalid(error: ValidationError, has_input: bool) -> RequestValidationError:
    """The error as FastAPI raises it; without what was found, as that may be large, unless it `has_input`."""
    errors = error.errors(include_url=False, include_input=has_input)
    return RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in errors])
