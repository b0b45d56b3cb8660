"""Batches on their way in: read, checked, and as the log stores them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request

from optimist.api.bodies.arrays import Arrays, Shapes, aside, read_arrays
from optimist.api.problems import invalid
from optimist.numerics.batches import BatchError, check_batch, check_directions, check_shapes
from optimist.numerics.plausibility import magnitudes
from optimist.settings import Settings
from optimist.store import Measures, Size
from optimist_client import tensors
from optimist_client.models import Experiment
from optimist_client.wire import EmbeddingName

FEATURES, PROMPTS = "features", "prompts"
EMBEDDING = "What made the batch: the experiment's `embedding`, where it has one"
Embedding = Annotated[EmbeddingName | None, Query(description=EMBEDDING)]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A checked batch: the digest of its decoded arrays, its rows, and the body that the log stores.

    measures: what it is checked by beside the batches before it; None where the experiment's rules know no such checks.
    """

    digest: str
    rows: int
    body: bytes
    measures: Measures | None


async def read_batch(
    request: Request,
    experiment: Experiment,
    settings: Settings,
    embedding: str | None,
    check: Callable[[], Awaitable[None]] | None = None,
) -> Incoming:
    """The batch of a request, made by `embedding`. Raises `ApiError` 415 or 422 where it is not what is expected.

    check: what is asked of the store before a large body is unpacked; it raises where the batch cannot be taken.
    """
    expected = experiment.config.embedding
    if embedding != expected:
        named = "none was named" if embedding is None else f"got one of {embedding!r}"
        what = "names no embedding" if expected is None else f"takes batches of embedding {expected!r}"
        raise invalid(f"embedding: experiment {experiment.config.name!r} {what}; {named}")

    async def before(shapes: Shapes) -> None:
        if shapes:
            _check_rows(shapes, settings.max_rows)
            _refusing(check_shapes, shapes, experiment.widths)
        if check is not None:
            await check()

    arrays = await read_arrays(request, settings, before)
    # A safetensors body is stored as it came, others are encoded anew.
    is_canonical = request.headers.get("content-type", "").startswith(tensors.MEDIA_TYPE)
    body = await request.body() if is_canonical else None
    size = sum(array.nbytes for array in arrays.values())
    return await aside(size, _checked, arrays, body, experiment, settings.max_rows)


def _checked(arrays: Arrays, body: bytes | None, experiment: Experiment, max_rows: int) -> Incoming:
    """The batch of these arrays, which `body` holds in the form that the log has, if given. Raises `ApiError` 422."""
    _check_rows({name: array.shape for name, array in arrays.items()}, max_rows)
    config = experiment.config
    _refusing(check_batch, arrays, experiment.widths)
    for field, kernel in config.kernels.items():
        if kernel.name == "cosine":
            _refusing(check_directions, config.kind.kernels[field], arrays[config.kind.kernels[field]])
    rows = len(next(iter(arrays.values())))
    digest = tensors.digest(arrays)
    measures = _measures(arrays, digest, experiment) if experiment.rules >= 2 else None
    return Incoming(digest, rows, tensors.encode(arrays) if body is None else body, measures)


def _measures(arrays: Arrays, digest: str, experiment: Experiment) -> Measures:
    config, samples = experiment.config, {name: arrays[name] for name in experiment.widths if name != PROMPTS}
    references = {FEATURES: experiment.reference_scale}
    return Measures(
        content=digest if len(samples) == len(arrays) else tensors.digest(samples),
        prompts=tensors.digest({PROMPTS: arrays[PROMPTS]}) if PROMPTS in arrays else "",
        limit=config.max_magnitude,
        refuse_copies=config.refuse_copies,
        sizes=[Size(*size, references.get(size.name)) for size in magnitudes(arrays, experiment.widths)],
    )


def _check_rows(shapes: Shapes, most: int) -> None:
    for name, shape in shapes.items():
        if shape and shape[0] > most:
            raise invalid(f"{name}: expected at most {most} rows, got {shape[0]}")


def _refusing(check: Callable[..., None], *args: Any) -> None:
    """Have a check of the batch raise `ApiError` 422 in place of `BatchError`."""
    try:
        check(*args)
    except BatchError as error:
        raise invalid(str(error)) from None
