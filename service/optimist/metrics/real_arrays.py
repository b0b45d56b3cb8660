"""Arrays, tensors and lists of numbers that callers pass in memory, as float64 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist_client.errors import FixError


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """A float64 copy of an array, a tensor, or (nested) lists of numbers or of tensors.

    Raises `FixError`, beginning with `name`, for what holds anything but real numbers.
    """
    try:
        plain = np.asarray(_without_torch(values))
        # numpy has no bfloat16; such an array has the kind V.
        if plain.dtype.kind not in "biufV":
            raise TypeError(f"{plain.dtype} from {type(values).__name__}")
        return np.array(plain, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FixError(f"{name}: expected an array of real numbers, got {error}") from None


def _without_torch(values: Any) -> Any:
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_complex():
            raise TypeError(f"a tensor of {values.layout} and {values.dtype}")
        return values.detach().cpu().double().numpy()
    if isinstance(values, list | tuple) and any(isinstance(value, Tensor) for value in values):
        return [_without_torch(value) for value in values]
    return values
