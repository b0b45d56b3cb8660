"""The tensors and texts of a state as arrays by name, each name beginning with the place of what it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]


def with_place(place: str, tensors: Mapping[str, Tensor]) -> Arrays:
    """Copies of tensors as arrays, whose names begin with `place`."""
    return {f"{place}/{name}": tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def tensors_at(place: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """The inverse of `with_place`. torch copies them, so that its memory is aligned as that of new tensors."""
    begin = f"{place}/"
    return {name.removeprefix(begin): torch.tensor(array) for name, array in arrays.items() if name.startswith(begin)}


def texts(arrays: Sequence[str]) -> NDArray[np.uint8]:
    """Texts as one array of bytes."""
    return np.frombuffer(json.dumps(list(arrays)).encode(), np.uint8)


def texts_of(array: NDArray[Any]) -> list[str]:
    """The inverse of `texts`."""
    return json.loads(array.tobytes())
