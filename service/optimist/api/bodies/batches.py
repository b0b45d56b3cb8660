"""Reads and checks the batches of requests, and encodes them for the log."""

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
EMBEDDING = "Name of the batch's embedding. Required if the experiment has an `embedding`, and must be the same"
Embedding = Annotated[EmbeddingName | None, Query(description=EMBEDDING)]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A checked batch: the digest of its decoded arrays, its number of rows, and the body that the log stores.

    measures: properties for the comparison with earlier batches; None if the experiment's rules have no such checks.
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
    """Read and check the batch of a request, whose features come from `embedding`.

    check: called before a large body is unpacked; it raises if the store would not accept the batch.
    Raises `ApiError` 415 or 422 if the batch is not valid for the experiment.
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
    # A safetensors body is stored unchanged, others are encoded as safetensors.
    is_canonical = request.headers.get("content-type", "").startswith(tensors.MEDIA_TYPE)
    body = await request.body() if is_canonical else None
    size = sum(array.nbytes for array in arrays.values())
    return await aside(size, _checked, arrays, body, experiment, settings.max_rows)


def _checked(arrays: Arrays, body: bytes | None, experiment: Experiment, max_rows: int) -> Incoming:
    """Check arrays as a batch. `body` is their encoding for the log, if there is one. Raises `ApiError` 422."""
    _check_rows({name: array.shape for name, array in arrays.items()}, max_rows)
    config = experiment.config
    _refusing(check_batch, arrays, experiment.widths)
    for array in {metric.array_names[own] for metric in config.metrics.values() for own in metric.directed}:
        _refusing(check_directions, array, arrays[array])
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
    """Run a check of the batch, and raise `ApiError` 422 instead of its `BatchError`."""
    try:
        check(*args)
    except BatchError as error:
        raise invalid(str(error)) from None
