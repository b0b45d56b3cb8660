"""Arrays as bytes and back: safetensors bodies of float16, bfloat16, float32 and float64."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

MEDIA_TYPE = "application/x-safetensors"
_FLOATS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


def encode(arrays: Mapping[str, NDArray[np.floating]]) -> bytes:
    """Arrays of float16, float32 or float64 as one safetensors body. Raises ValueError for any other dtype."""
    for name, array in arrays.items():
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise ValueError(f"{name}: expected float16, float32 or float64, got {array.dtype}")
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def decode(body: bytes) -> dict[str, NDArray[np.floating]]:
    """The arrays of a safetensors body; bfloat16 is widened to float32. Raises ValueError saying what is wrong."""
    try:
        tensors = deserialize(body)
    except (SafetensorError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a safetensors body: {error}") from None
    return {name: _array(name, tensor) for name, tensor in tensors}


def digest(arrays: Mapping[str, NDArray[np.floating]]) -> str:
    """SHA-256 (hex) of names, shapes and float64 values: the same numbers have one digest, however they were sent."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        sha.update(f"{name}{array.shape}".encode())
        sha.update(array.data)
    return sha.hexdigest()


def _array(name: str, tensor: Mapping[str, object]) -> NDArray[np.floating]:
    kind, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    assert isinstance(shape, list)
    assert isinstance(data, bytes | bytearray)
    if kind == "BF16":  # numpy has none: it is the upper half of a float32
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    if kind not in _FLOATS:
        raise ValueError(f"{name}: expected F16, BF16, F32 or F64, got {kind}")
    return np.frombuffer(data, np.dtype(_FLOATS[str(kind)]).newbyteorder("<")).reshape(shape)
