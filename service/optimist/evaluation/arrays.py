"""What callers hand over in memory, as checked float64 arrays and tensors by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from optimist.batches import check_batch, check_directions, moments
from optimist.evaluation.question import Question
from optimist.metrics import Reference
from optimist_client.config import TENSORS
from optimist_client.tensors import IDS, pack_ids

Batch = ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor]
"""Rows (n, d) of what the metric scores: features, or class probabilities; or several such arrays by name, as the
scores of pairs need ("features" and "prompts"), perhaps with "ids", a text for each row."""
Arrays = dict[str, NDArray[Any]]


def arrays_of(batch: Batch, metric: str) -> Arrays:
    """The batch's arrays by name, those that the metric expects first: float64 copies, and packed ids.

    Raises KeyError for an unknown metric, ValueError for what is no array of numbers.
    """
    names = TENSORS[metric]
    by_name = batch if isinstance(batch, Mapping) else {names[0]: batch}
    in_order = sorted(by_name, key=lambda name: (names.index(name) if name in names else len(names), name))
    return {name: _ids(by_name[name]) if name == IDS else _array(by_name[name]) for name in in_order}


def check_arrays(arrays: Arrays, question: Question, widths: Mapping[str, int] | None = None) -> None:
    """Raise `BatchError` unless the arrays are a batch of the question, of these `widths` where they are known."""
    own = {name: arrays[name].shape[1] if name in arrays and arrays[name].ndim == 2 else 1 for name in question.tensors}
    check_batch(arrays, widths or own)
    if question.kernel is not None and question.kernel.get("name") == "cosine":
        check_directions(arrays["features"])


def tensors_of(arrays: Arrays) -> dict[str, Tensor]:
    """The arrays without the ids."""
    return {name: torch.from_numpy(array) for name, array in arrays.items() if name != IDS}


def reference_of(reference: Any) -> Reference | None:
    """A `Reference` of what callers may give: one, a (mean, covariance) tuple, real features (n, d), or None."""
    if reference is None or isinstance(reference, Reference):
        return reference
    if isinstance(reference, tuple):
        mean, covariance = reference
        return Reference(mean, covariance)
    return Reference(*moments("reference, where it is no (mean, covariance) tuple", _array(reference)))


def _array(values: ArrayLike | Tensor) -> NDArray[np.float64]:
    """A float64 copy, so that the caller may write over its own array."""
    plain = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values
    return np.array(plain, dtype=np.float64)


def _ids(values: Any) -> NDArray[np.uint8]:
    return pack_ids([f"{value}" for value in values])
