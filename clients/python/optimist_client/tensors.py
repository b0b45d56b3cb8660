"""Arrays as bytes and back: safetensors bodies of float16, bfloat16, float32 and float64, and the ids of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

MEDIA_TYPE = "application/x-safetensors"
IDS = "ids"
"""The tensor of a body that holds the ids of its rows; safetensors knows no text."""
LONGEST_ID = 1024
"""Bytes of an id."""
LONGEST_HEADER = 2**16
"""Bytes of a body's header: one of 50 MB names a million tensors, and takes 2 GB and most of a minute to read."""
_BLOCK = 2**17
"""Numbers that are digested at a time: a megabyte of them as float64."""
_FLOATS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
_KINDS = {np.dtype(dtype): kind for kind, dtype in _FLOATS.items()}


def encode(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays of float16, float32 or float64, and packed ids, as one safetensors body. Raises ValueError for others.

    The numbers are copied once, into the body; `safetensors.numpy.save` copies them twice.
    """
    header, buffers, end = {}, [], 0
    # The widest first, so that each array is aligned.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        kind = "U8" if name == IDS and array.dtype == np.uint8 else _KINDS.get(array.dtype)
        if kind is None:
            raise ValueError(f"{name}: expected float16, float32 or float64, got {array.dtype}")
        start, end = end, end + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (start, end)}
        buffers.append(np.ascontiguousarray(array).reshape(-1).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *buffers])


def as_array(name: str, values: Any) -> NDArray[Any]:
    """An array of real numbers, of a torch tensor too. Raises ValueError where it is none."""
    if hasattr(values, "detach"):  # a torch tensor, perhaps one that has a gradient or lies on a GPU
        values = values.detach().cpu()
        # numpy has no bfloat16.
        values = values.float() if f"{values.dtype}".endswith("bfloat16") else values
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected an array of real numbers, got dtype {array.dtype}")
    return array


def as_floats(name: str, values: Any) -> NDArray[np.floating]:
    """The same as it travels: float16 and float32 as they are, everything else as float64."""
    array = as_array(name, values)
    return array if array.dtype in (np.float16, np.float32) else array.astype(np.float64)


def pack_ids(ids: Sequence[str]) -> NDArray[np.uint8]:
    """Ids or URIs as rows (n, longest) of UTF-8, zeros behind.

    Raises ValueError for one that holds a zero byte, or is longer than `LONGEST_ID` bytes.
    """
    encoded = [text.encode() for text in ids]
    if any(b"\0" in text for text in encoded):
        raise ValueError("ids: expected text without zero bytes")
    for row, text in enumerate(encoded):
        # Every row is padded to the longest: one long id would take its length times the rows.
        if len(text) > LONGEST_ID:
            raise ValueError(f"ids: expected at most {LONGEST_ID} bytes each, got {len(text)} in row {row}")
    longest = max(map(len, encoded), default=0)
    padded = b"".join(text.ljust(longest, b"\0") for text in encoded)
    return np.frombuffer(padded, np.uint8).reshape(len(encoded), longest)


def unpack_ids(rows: NDArray[np.uint8]) -> list[str]:
    """The inverse of `pack_ids`. Raises ValueError where a row is not UTF-8."""
    try:
        return [row.tobytes().rstrip(b"\0").decode() for row in rows]
    except UnicodeDecodeError as error:
        raise ValueError(f"ids: expected UTF-8: {error}") from None


def shapes(body: bytes) -> dict[str, tuple[int, ...]]:
    """What a safetensors body says its tensors' shapes are, by its header alone; empty where that cannot be read.

    Only `decode` checks that it is so.
    """
    header = int.from_bytes(body[:8], "little")
    try:
        entries = json.loads(body[8 : 8 + min(header, LONGEST_HEADER)])
        found = {name: tuple(entry["shape"]) for name, entry in entries.items() if name != "__metadata__"}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return found if all(type(side) is int for shape in found.values() for side in shape) else {}


def decode(body: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors body; bfloat16 is widened to float32. Raises ValueError saying what is wrong.

    All hold floats but `IDS`, whose packed rows are bytes.
    """
    header = int.from_bytes(body[:8], "little")
    if header > LONGEST_HEADER:
        raise ValueError(f"expected a safetensors body with a header of at most {LONGEST_HEADER} bytes, got {header}")
    try:
        tensors = deserialize(body)
    except (SafetensorError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a safetensors body: {error}") from None
    return {name: _array(name, tensor) for name, tensor in tensors}


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 (hex) of names, shapes and float64 values: the same numbers have one digest, however they were sent."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.atleast_1d(arrays[name])
        sha.update(f"{name}{array.shape}".encode())
        for block in _blocks(array):
            sha.update(np.ascontiguousarray(block, dtype="<f8").data)
    return sha.hexdigest()


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The numbers of an array in C order, `_BLOCK` at a time: float64 copies of large arrays take much memory."""
    numbers = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, _BLOCK):
        yield numbers[start : start + _BLOCK]


def _array(name: str, tensor: Mapping[str, object]) -> NDArray[Any]:
    kind, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    assert isinstance(shape, list)
    assert isinstance(data, bytes | bytearray)
    if name == IDS:
        if kind != "U8":
            raise ValueError(f"{name}: expected U8, the bytes of UTF-8 with zeros behind, got {kind}")
        return np.frombuffer(data, np.uint8).reshape(shape)
    if kind == "BF16":  # numpy has none: it is the upper half of a float32
        upper = np.frombuffer(data, "<u2").astype("<u4")
        upper <<= 16
        return upper.view("<f4").reshape(shape)
    if kind not in _FLOATS:
        raise ValueError(f"{name}: expected F16, BF16, F32 or F64, got {kind}")
    return np.frombuffer(data, np.dtype(_FLOATS[str(kind)]).newbyteorder("<")).reshape(shape)
