"""Converts batches and references that are given in memory to checked float64 arrays and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from optimist.numerics.batches import BatchError, check_batch, check_directions
from optimist.numerics.checks import real_array
from optimist.numerics.real_data import RealData
from optimist_client.metrics import Metric
from optimist_client.tensors import IDS, pack_ids

if TYPE_CHECKING:
    from optimist.evaluation.question import Question

Batch = ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor]
"""Rows (n, d) of what the metric scores: features, or class probabilities; or several such arrays by name, as the
scores of pairs need ("features" and "prompts"), perhaps with "ids", a text for each row."""
Arrays = dict[str, NDArray[Any]]


def arrays_of(batch: Batch, metric: type[Metric] | Metric) -> Arrays:
    """The batch's arrays by name, those that the metric expects first: float64 copies, and packed ids.

    Raises `BatchError` for anything but arrays of real numbers.
    """
    names = tuple(metric.arrays)
    by_name = batch if isinstance(batch, Mapping) else {names[0]: batch}
    nameless = [name for name in by_name if not isinstance(name, str)]
    if nameless:
        raise BatchError(f"expected arrays by their names, such as {names[0]!r}; got {nameless[0]!r}")
    in_order = sorted(by_name, key=lambda name: (names.index(name) if name in names else len(names), name))
    return {name: _ids(by_name[name]) if name == IDS else real_array(name, by_name[name]) for name in in_order}


def check_arrays(arrays: Arrays, question: Question, widths: Mapping[str, int] | None = None) -> None:
    """Raise `BatchError` unless the arrays are a valid batch of the question, and have these `widths` if given."""
    own = {name: arrays[name].shape[1] if name in arrays and arrays[name].ndim == 2 else 1 for name in question.arrays}
    check_batch(arrays, widths or own | question.widths)
    for array in question.metric.directed:
        check_directions(array, arrays[array])


def tensors_of(arrays: Arrays) -> dict[str, Tensor]:
    """The arrays without the ids."""
    return {name: torch.from_numpy(array) for name, array in arrays.items() if name != IDS}


def real_data_of(reference: Any) -> RealData:
    """Real data from a (mean, covariance) tuple, or from real features (n, d), whose rows are kept.

    Raises ValueError for anything else; what a metric makes of the data checks it further.
    """
    if isinstance(reference, RealData):
        return reference
    if isinstance(reference, tuple):
        if len(reference) != 2:
            raise ValueError(f"reference: expected (mean, covariance), got a tuple of {len(reference)}")
        mean, covariance = reference
        return RealData(real_array("reference: mean", mean), real_array("reference: covariance", covariance))
    name = "reference: features, as it is not a (mean, covariance) tuple"
    return RealData.of_rows(name, real_array("reference", reference))


def _ids(values: Any) -> NDArray[np.uint8]:
    if isinstance(values, str | bytes | Set) or not isinstance(values, Iterable):
        raise BatchError(f"ids: expected a list of texts, one for each row, got {values!r}")
    return pack_ids([f"{value}" for value in values])
