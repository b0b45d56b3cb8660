"""Converts batches and references that are given in memory to checked float64 arrays and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from optimist.anomalies.batches import ExpectedValues, as_matrices, check_batch, readers_of
from optimist.metrics.state import real_array
from optimist.references.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.files import Arrays
from optimist_client.metrics import Metric
from optimist_client.references import Moments, moments_of_tuple
from optimist_client.tensors import IDS, pack_ids

if TYPE_CHECKING:
    from optimist.estimation.question import Question

RawBatch = ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor]
"""Rows (n, d) that the metric scores: features, or class probabilities; or several such arrays by name, as the
scores of pairs need ("features" and "prompts"), perhaps with "ids", a text for each row."""


def arrays_of(batch: RawBatch, names: Iterable[str]) -> Arrays:
    """The batch's arrays by name, the expected `names` first: float64 copies, and packed ids.

    A batch that is no mapping is the array of the first name. Raises `FixError` for anything but real arrays.
    """
    expected = list(names)
    by_name: Mapping[Any, Any] = {**batch} if isinstance(batch, Mapping) else {expected[0]: batch}
    if nameless := [name for name in by_name if not isinstance(name, str)]:
        raise FixError(f"expected arrays by their names, such as {expected[0]!r}; got {nameless[0]!r}")
    in_order = sorted(by_name, key=lambda name: (expected.index(name) if name in expected else len(expected), name))
    return {name: _ids(by_name[name]) if name == IDS else real_array(name, by_name[name]) for name in in_order}


def columns_of(questions: Sequence[Question]) -> dict[str, int | None]:
    """The columns of each array that the questions read, by its name in a batch; None where batches decide.

    Raises FixError if two questions need other columns of the same array.
    """
    columns: dict[str, int | None] = {}
    for question in questions:
        for own, name in question.reads.items():
            before, width = columns.get(name), question.widths.get(own)
            if None not in (before, width) and before != width:
                raise FixError(f"{name}: one metric expects {before} columns, {question.metric.shown_label!r} {width}")
            columns[name] = width if before is None else before
    return columns


def check_arrays(arrays: Arrays, questions: Sequence[Question], widths: Mapping[str, int] | None = None) -> Arrays:
    """The arrays, single columns as (n, 1); widths: their columns, if fixed.

    Raises `FixError` unless they are a valid batch of all questions.
    """
    actual = {name: array.shape[1] if array.ndim == 2 else 1 for name, array in arrays.items()}
    required = columns_of(questions)
    expected = widths or {name: actual.get(name, 1) if width is None else width for name, width in required.items()}
    metrics = [question.metric for question in questions]
    arrays = as_matrices(arrays, widths or {name: width for name, width in required.items() if width is not None})
    check_batch(arrays, expected, readers_of(metrics))
    ExpectedValues.from_metrics(metrics).check(arrays)
    return arrays


def tensors_of(arrays: Arrays) -> dict[str, Tensor]:
    """The arrays without the ids."""
    return {name: torch.from_numpy(array) for name, array in arrays.items() if name != IDS}


def reference_scales(metrics: Iterable[Metric]) -> dict[str, float]:
    """The scale of the metrics' real data, by the array of a batch that is compared with them."""
    scales: dict[str, float] = {}
    for metric in metrics:
        real = metric.setting("reference")
        if isinstance(real, RealData):
            scales.setdefault(metric.array_names[metric.first_array()], real.scale)
    return scales


def real_data_of(reference: Any) -> RealData:
    """Real data from a tuple (mean, covariance) or (mean, covariance, samples), or from real features (n, d), whose
    rows are kept.

    Raises FixError for anything else; the metric's conversion checks the data further.
    """
    if isinstance(reference, RealData):
        return reference
    if isinstance(reference, tuple):
        named = zip(Moments._fields[:2], reference, strict=False)
        moments = [real_array(f"reference: {field}", values) for field, values in named]
        return RealData.of_moments(moments_of_tuple((*moments, *reference[2:])))
    name = "reference: features, as it is not a (mean, covariance) tuple"
    return RealData.of_rows(name, real_array("reference", reference))


def _ids(values: Any) -> NDArray[np.uint8]:
    if isinstance(values, str | bytes | Set) or not isinstance(values, Iterable):
        raise FixError(f"ids: expected a list of texts, one for each row, got {values!r}")
    return pack_ids([f"{value}" for value in values])
