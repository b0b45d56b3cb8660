"""Encodes and decodes arrays as safetensors: float16, bfloat16, float32, float64, and the ids of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from optimist_client.errors import FixError

MEDIA_TYPE = "application/x-safetensors"
IDS = "ids"
"""The tensor with the ids of the rows, as bytes because safetensors has no text type."""
TEXTS = "texts"
"""That with the prompts of the contexts of an ask."""
LONGEST_TEXT = 8192
"""Maximum bytes of one of these."""
LONGEST_ID = 1024
"""Maximum bytes of an id."""
LONGEST_HEADER = 2**16
"""Maximum bytes of a body's header. A header of 50 MB with a million tensors takes 2 GB and up to a minute to read."""
_BLOCK = 2**17
"""Number of values to hash at a time: one megabyte as float64."""
_FLOATS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
_READ = {kind: np.dtype(dtype).newbyteorder("<") for kind, dtype in _FLOATS.items()}
_BYTES = {"U8": 1, "F16": 2, "F32": 4, "F64": 8}
_KINDS = {np.dtype(dtype): kind for kind, dtype in _FLOATS.items()}


def encode(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Encode arrays of float16, float32 or float64, and packed ids, as safetensors. Raises FixError for others.

    The numbers are copied once, into the body; `safetensors.numpy.save` copies them twice.
    """
    kinds, buffers = {}, []
    # Arrays with the largest items come first, so that each array is aligned.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        kind = "U8" if name in (IDS, TEXTS) and array.dtype == np.uint8 else _KINDS.get(array.dtype)
        if kind is None:
            raise FixError(f"{name}: expected float16, float32 or float64, got {array.dtype}")
        kinds[name] = kind, array.shape
        buffers.append(np.ascontiguousarray(array).reshape(-1).data)
    return b"".join([head_of(kinds), *buffers])


def head_of(kinds: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """What stands before the numbers in a body with these arrays, in this order: names with their types and shapes."""
    header, end = {}, 0
    for name, (kind, shape) in kinds.items():
        start, end = end, end + prod(shape) * _BYTES[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert values, also a torch tensor, to an array of real numbers. Raises FixError if they are not."""
    if hasattr(values, "detach"):  # a torch tensor, possibly with a gradient or on a GPU
        values = values.detach().cpu()
        # numpy has no bfloat16.
        values = values.float() if f"{values.dtype}".endswith("bfloat16") else values
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise FixError(f"{name}: expected an array of real numbers, got dtype {array.dtype}")
    return array


def as_floats(name: str, values: Any) -> NDArray[np.floating]:
    """Convert values to an array that can be sent: float16 and float32 are kept, everything else becomes float64."""
    array = as_array(name, values)
    return array if array.dtype in (np.float16, np.float32) else array.astype(np.float64)


def pack_ids(ids: Sequence[str]) -> NDArray[np.uint8]:
    """Encode ids or URIs as rows (n, longest) of UTF-8, padded with zeros.

    Raises FixError for an id that contains a zero byte or is longer than `LONGEST_ID` bytes.
    """
    for row, text in enumerate(ids):
        # All rows are padded to the longest one, so a single very long id would use a lot of memory.
        if (size := len(text.encode())) > LONGEST_ID:
            raise FixError(
                f"ids: expected at most {LONGEST_ID} bytes each, got {size} in row {row}. An id names a sample: "
                "keep images themselves elsewhere, and tell their paths or URLs, which the dashboard can show"
            )
    return pack_texts(ids, IDS)


def pack_texts(texts: Sequence[str], name: str = TEXTS) -> NDArray[np.uint8]:
    """Encode texts in the same way, of any length. Raises FixError for a zero byte."""
    encoded = [text.encode() for text in texts]
    if any(b"\0" in text for text in encoded):
        raise FixError(f"{name}: expected text without zero bytes")
    longest = max(map(len, encoded), default=0)
    padded = b"".join(text.ljust(longest, b"\0") for text in encoded)
    return np.frombuffer(padded, np.uint8).reshape(len(encoded), longest)


def unpack_ids(rows: NDArray[np.uint8], name: str = IDS) -> list[str]:
    """The inverse of `pack_ids`, and of `pack_texts`. Raises FixError if a row is not UTF-8."""
    try:
        return [row.tobytes().rstrip(b"\0").decode() for row in rows]
    except UnicodeDecodeError as error:
        raise FixError(f"{name}: expected UTF-8: {error}") from None


def shapes(body: bytes) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors according to the body's header, or {} if it cannot be read.

    The shapes are not checked against the data; `decode` does that.
    """
    header = int.from_bytes(body[:8], "little")
    try:
        entries = json.loads(body[8 : 8 + min(header, LONGEST_HEADER)])
        found = {name: tuple(entry["shape"]) for name, entry in entries.items() if name != "__metadata__"}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return found if all(type(side) is int for shape in found.values() for side in shape) else {}


def decode(body: bytes) -> dict[str, NDArray[Any]]:
    """Decode the arrays of a safetensors body. bfloat16 becomes float32. Raises FixError for an invalid body.

    All arrays are floats, except for `IDS` and `TEXTS`, whose packed rows are bytes.
    """
    header = int.from_bytes(body[:8], "little")
    if header > LONGEST_HEADER:
        raise FixError(f"expected a safetensors body with a header of at most {LONGEST_HEADER} bytes, got {header}")
    try:
        tensors = deserialize(body)
    except (SafetensorError, UnicodeDecodeError) as error:
        raise FixError(f"expected a safetensors body: {error}") from None
    return {name: _array(name, tensor) for name, tensor in tensors}


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 (hex) of names, shapes and float64 values. It does not depend on the type in which they were sent."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name] if arrays[name].ndim else arrays[name].reshape(1)
        sha.update(f"{name}{array.shape}".encode())
        for block in _blocks(array):
            sha.update(np.ascontiguousarray(block, dtype="<f8").data)
    return sha.hexdigest()


class RowsDigest:
    """`digest` of a single array (n, d), whose rows come in parts."""

    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        self._sha = hashlib.sha256(f"{name}{shape}".encode())

    def add(self, rows: NDArray[Any]) -> None:
        """Add the next rows."""
        for block in _blocks(rows):
            self._sha.update(np.ascontiguousarray(block, dtype="<f8").data)

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        return self._sha.hexdigest()


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values of an array in C order, `_BLOCK` at a time: a float64 copy of a large array would use much memory."""
    numbers = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, _BLOCK):
        yield numbers[start : start + _BLOCK]


def _array(name: str, tensor: Mapping[str, object]) -> NDArray[Any]:
    kind, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    assert isinstance(shape, list)
    assert isinstance(data, bytes | bytearray)
    if name in (IDS, TEXTS):
        if kind != "U8":
            raise FixError(f"{name}: expected U8, UTF-8 text padded with zeros, got {kind}")
        return np.frombuffer(data, np.uint8).reshape(shape)
    if kind == "BF16":  # numpy has no bfloat16: its bits are the upper half of a float32
        upper = np.frombuffer(data, "<u2").astype("<u4")
        upper <<= 16
        return upper.view("<f4").reshape(shape)
    if kind not in _FLOATS:
        raise FixError(f"{name}: expected F16, BF16, F32 or F64, got {kind}")
    return np.frombuffer(data, _READ[str(kind)]).reshape(shape)
