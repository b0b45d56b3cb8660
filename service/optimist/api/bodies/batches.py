"""Reads and checks the batches of requests, and encodes them for the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from optimist.anomalies.batches import ExpectedValues, as_matrices, check_batch, check_shapes, readers_of
from optimist.anomalies.copies import repeated_in
from optimist.anomalies.plausibility import levelled, magnitudes, sized
from optimist.api.bodies.arrays import Arrays, EncodedArrays, Shapes
from optimist.api.bodies.objects import run_in_thread
from optimist.api.problems import invalid
from optimist.cache import Cache
from optimist.records import Contents, Measures, Size
from optimist.settings import Settings
from optimist_client import tensors
from optimist_client.embeddings import parsed
from optimist_client.errors import FixError
from optimist_client.models import Experiment, ExperimentConfig
from optimist_client.wire import EmbeddingName

PROMPTS = "prompts"
EMBEDDING = "Name of the embedding of the array of the metric that decides. Required if the experiment names one"
EMBEDDINGS = "The same by array, as `dinov2:dinov2-large`; once for each array of which the experiment names one"
BatchEmbedding = Annotated[EmbeddingName | None, Query(description=EMBEDDING)]
BatchEmbeddings = Annotated[list[str], Query(description=EMBEDDINGS)]


@dataclass(frozen=True)
class Expected:
    """The arrays that batches of an experiment must hold; made once, as every tell needs it."""

    widths: dict[str, int]
    values: ExpectedValues
    readers: dict[str, list[str]]
    """The labels of the metrics that read each array; {} where there is one metric."""
    telling: list[str]
    """The arrays in which equal numbers mean that a batch is a copy."""
    sized: list[str]
    """The arrays whose sizes are checked."""
    levelled: list[str]
    """Arrays of which levels are kept."""
    scales: dict[str, float]
    """The scale of real data by array."""
    embeddings: dict[str, str]
    first: str
    """The array that the metric that decides reads first."""
    are_features: bool
    """True if this array is one of features, and the only one, so that equal rows are copies."""

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> Expected:
        """The expectation of this experiment, made when it is first needed."""
        # The config itself is compared, as imports may bring the same `instance` twice.
        config, expected = _expected.get(experiment.instance) or (None, None)
        if expected is None or config is not experiment.config:
            expected = _expected.put(experiment.instance, (experiment.config, cls._made(experiment)))[1]
        return expected

    @classmethod
    def _made(cls, experiment: Experiment) -> Expected:
        config, columns = experiment.config, experiment.columns
        metrics = list(config.metrics.values())
        told = {name for metric in metrics if not metric.repeats for name in metric.array_names.values()} - {PROMPTS}
        return cls(
            widths=columns,
            values=ExpectedValues.from_metrics(metrics),
            readers=readers_of(metrics),
            telling=[name for name in columns if name in told],
            sized=sized(metrics),
            levelled=levelled(metrics, columns) if config.on_anomaly == "hold" else [],
            scales=experiment.scales,
            embeddings=config.embedding_names,
            first=metrics[0].first_name,
            are_features=[*metrics[0].arrays] == ["features"],
        )


_expected = Cache[str, tuple[ExperimentConfig, Expected]]()


async def read_batch(
    encoded: EncodedArrays, experiment: Experiment, settings: Settings, embedding: str | None, embeddings: Sequence[str]
) -> Contents:
    """Decode and check a batch, whose arrays come from these embeddings, see `EMBEDDINGS`.

    Raises `ApiError` 422 if the batch is not valid for the experiment.
    """
    expected = Expected.from_experiment(experiment)
    if embedding is not None or embeddings or expected.embeddings:
        _check_embeddings(experiment.config.name, expected, embedding, embeddings)
    try:
        if encoded.is_large and not encoded.is_json and (shapes := tensors.shapes(encoded.content)):
            _check_announced(shapes, expected, settings.max_rows)
        arrays = await encoded.decode(settings)
        return await run_in_thread(
            encoded.work, _checked, arrays, encoded, experiment.config, expected, settings.max_rows
        )
    except FixError as error:
        raise invalid(str(error)) from None


def _checked(
    arrays: Arrays, encoded: EncodedArrays, config: ExperimentConfig, expected: Expected, max_rows: int
) -> Contents:
    """The arrays as a batch. Raises FixError unless they are one."""
    matrices = as_matrices(arrays, expected.widths)
    check_batch(matrices, expected.widths, expected.readers)
    first, rows = next(iter(matrices)), len(next(iter(matrices.values())))
    if rows > max_rows:
        raise FixError(f"{first}: expected at most {max_rows} rows, got {rows}")
    expected.values.check(matrices)
    digest = tensors.digest(matrices)
    # A safetensors body is stored unchanged, unless an array of one column was sent as (n,); others are encoded.
    is_canonical = not encoded.is_json and all(matrices[name] is array for name, array in arrays.items())
    body = encoded.content if is_canonical else tensors.encode(matrices)
    repeated = repeated_in(matrices[expected.first]) if expected.are_features else 0
    return Contents(digest, rows, body, _measures(matrices, digest, config, expected), repeated)


def _measures(arrays: Arrays, digest: str, config: ExperimentConfig, expected: Expected) -> Measures:
    content = digest if expected.telling else ""
    if 0 < len(expected.telling) < len(arrays):
        content = tensors.digest({name: arrays[name] for name in expected.telling})
    return Measures(
        content=content,
        prompts=tensors.digest({PROMPTS: arrays[PROMPTS]}) if PROMPTS in arrays else "",
        limit=config.max_magnitude,
        refuse_copies=config.refuse_copies,
        sizes=[
            Size(size.name, size.largest, size.row, size.mean_square, expected.scales.get(size.name), size.level)
            for size in magnitudes(arrays, expected.sized, expected.levelled)
        ],
    )


def _check_embeddings(name: str, expected: Expected, embedding: str | None, embeddings: Sequence[str]) -> None:
    """Raise `ApiError` 422 unless a tell names the embeddings that the experiment of this name does."""
    try:
        given = parsed(embeddings)
    except ValueError as error:
        raise invalid(str(error)) from None
    if embedding is not None and given.setdefault(expected.first, embedding) != embedding:
        raise invalid(f"embedding, embeddings: {expected.first} is given two: {embedding!r}, {given[expected.first]!r}")
    for array in (given | expected.embeddings) if given != expected.embeddings else ():
        wanted, got = expected.embeddings.get(array), given.get(array)
        if wanted != got:
            is_first = array == expected.first
            which = "batches" if is_first else f"the array {array!r}"
            naming = "none was named" if got is None else f"got one of {got!r}"
            takes = "names no embedding" + (f" of {array!r}" if not is_first else "")
            takes = takes if wanted is None else f"takes {which} of embedding {wanted!r}"
            raise invalid(f"{'embedding' if is_first else 'embeddings'}: experiment {name!r} {takes}; {naming}")


def _check_announced(shapes: Shapes, expected: Expected, max_rows: int) -> None:
    """Raise FixError where arrays of these shapes are no batch."""
    for name, shape in shapes.items():
        if shape and shape[0] > max_rows:
            raise FixError(f"{name}: expected at most {max_rows} rows, got {shape[0]}")
    is_flat = {name: len(shape) == 1 and expected.widths.get(name) == 1 for name, shape in shapes.items()}
    matrices = {name: (*shape, 1) if is_flat[name] else shape for name, shape in shapes.items()}
    check_shapes(matrices, expected.widths, expected.readers)
