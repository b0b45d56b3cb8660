"""Encodes and decodes arrays as safetensors: float16, bfloat16, float32, float64, and the ids of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError
from optimist_client.validation import brief

MEDIA_TYPE = "application/x-safetensors"
IDS = "ids"
"""The tensor with the ids of the rows, as bytes because safetensors has no text type."""
RECORDS = "records"
"""The tensor with what is told of each row, as JSON: its prompt, answer, a judge's reason. No metric reads it."""
TEXTS = "texts"
"""The tensor with the prompts of the contexts of an ask."""
LONGEST_TEXT = 8192
"""Maximum bytes of one of these."""
LONGEST_ID = 1024
"""Maximum bytes of an id."""
LONGEST_RECORD = 8192
"""Maximum bytes of a record."""
BESIDE = {IDS: LONGEST_ID, RECORDS: LONGEST_RECORD}
"""The tensors that may stand beside the arrays of a batch, with the maximum bytes of a row."""
PACKED = frozenset({*BESIDE, TEXTS})
"""The tensors whose rows are texts."""
LONGEST_HEADER = 2**16
"""Maximum bytes of a body's header. A header of 50 MB with a million tensors takes 2 GB and up to a minute to read."""
_FLOATS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
READ: dict[str, np.dtype[Any]] = {
    kind: np.dtype(dtype).newbyteorder("<") for kind, dtype in (_FLOATS | {"U8": np.uint8, "BF16": "u2"}).items()
}
"""The types of tensors, as numpy reads them."""
_BYTES = {kind: dtype.itemsize for kind, dtype in READ.items()}
_KINDS = {np.dtype(dtype): kind for kind, dtype in _FLOATS.items()}


def encode(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Encode arrays of float16, float32 or float64, and packed ids, as safetensors. Raises FixError for others.

    The numbers are copied once, into the body; `safetensors.numpy.save` copies them twice.
    """
    body = BytesIO()
    for part in encoded_parts(arrays):
        body.write(part)
    return body.getvalue()


def encoded_parts(arrays: Mapping[str, NDArray[Any]], size: int = 2**20) -> list[bytes | memoryview]:
    """The bytes of `encode` in parts of at most `size`, which are views of the arrays where these allow it.

    A copy of all of them would hold the interpreter, and a server's other threads.
    """
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
    buffers: list[NDArray[np.uint8]] = []
    # Arrays with the largest items come first, so that each array is aligned.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        kind = "U8" if name in PACKED and array.dtype == np.uint8 else _KINDS.get(array.dtype)
        if kind is None:
            raise FixError(f"{name}: expected float16, float32 or float64, got {array.dtype}")
        kinds[name] = kind, array.shape
        buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    parts = (buffer[at : at + size].data for buffer in buffers for at in range(0, len(buffer), size))
    return [head_of(kinds), *parts]


def head_of(kinds: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """The header of a body with these arrays, in this order: names with their types and shapes."""
    header, end = {}, 0
    for name, (kind, shape) in kinds.items():
        start, end = end, end + prod(shape) * _BYTES[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert values, also a torch tensor, to an array of real numbers, and booleans to 1 and 0. Raises FixError."""
    if hasattr(values, "detach"):  # a torch tensor, possibly with a gradient or on a GPU
        values = values.detach().cpu()
        # numpy has no bfloat16.
        values = values.float() if f"{values.dtype}".endswith("bfloat16") else values
    array = np.asarray(values)
    array = array.astype(np.uint8) if array.dtype.kind == "b" else array
    if array.dtype.kind not in "fiu":
        raise FixError(f"{name}: expected an array of real numbers, got dtype {array.dtype}")
    return array


def as_floats(name: str, values: Any) -> NDArray[np.floating]:
    """Convert values to an array that can be sent: float16 and float32 are kept, everything else becomes float64."""
    array = as_array(name, values)
    return array if array.dtype in (np.dtype(np.float16), np.dtype(np.float32)) else array.astype(np.float64)


def missing_rows(values: Any) -> tuple[int, int]:
    """The number of rows that have None or NaN in place of a number, and of all rows; (0, 0) of what is no numbers."""
    try:
        array = as_array("", values)
    except FixError:
        try:
            array = np.asarray(values, np.float64)  # None becomes NaN
        except (TypeError, ValueError):
            return 0, 0
    rows = array.reshape(len(array), -1) if array.ndim and array.size else array.reshape(-1, 1)
    return int(np.isnan(rows).any(1).sum()), len(rows)


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


def pack_records(records: Sequence[Any]) -> NDArray[np.uint8]:
    """Encode values that JSON can represent, one for each row, None for none.

    Raises FixError for one that JSON cannot represent, and for more than `LONGEST_RECORD` bytes.
    """
    texts: list[str] = []
    for row, record in enumerate(records):
        try:
            text = "" if record is None else json.dumps(record, ensure_ascii=False, allow_nan=False)
            size = len(text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise FixError(f"{RECORDS}: expected values that JSON can represent, row {row}: {error}") from None
        if size > LONGEST_RECORD:
            raise FixError(f"{RECORDS}: expected at most {LONGEST_RECORD:,} bytes each, got {size:,} in row {row}")
        texts.append(text)
    return pack_texts(texts, RECORDS)


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
        return list(map(unpacked, rows))
    except UnicodeDecodeError as error:
        raise FixError(f"{name}: expected UTF-8: {error}") from None


def unpacked(row: NDArray[np.uint8]) -> str:
    """The text of one row of `pack_texts`. Raises UnicodeDecodeError."""
    return row.tobytes().rstrip(b"\0").decode()


def packed_rows(body: bytes, name: str) -> NDArray[np.uint8] | None:
    """The rows (n, longest) of a tensor of `PACKED` in a body that was decoded before, not copied; None without it."""
    if name not in (tensors := entries(body)):
        return None
    _, shape, start, _ = tensors[name]
    return np.frombuffer(body, np.uint8, prod(shape), 8 + int.from_bytes(body[:8], "little") + start).reshape(shape)


def shapes(body: bytes) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors according to the body's header, or {} if it cannot be read.

    The shapes are not checked against the data; `decode` does that.
    """
    try:
        return {name: shape for name, (_, shape, _, _) in entries(body).items()}
    except FixError:
        return {}


def decode(body: bytes) -> dict[str, NDArray[Any]]:
    """Decode the arrays of a safetensors body. bfloat16 becomes float32. Raises FixError for an invalid body.

    All arrays are floats, except for those of `PACKED`, whose rows are bytes. They are copies that numpy makes
    without holding the interpreter, so that a server's other threads go on; `safetensors.deserialize` would hold it.
    """
    base = 8 + int.from_bytes(body[:8], "little")
    arrays, end = dict[str, NDArray[Any]](), 0
    for name, (kind, shape, start, stop) in sorted(entries(body).items(), key=lambda item: item[1][2:]):
        if start != end or stop - start != prod(shape) * _BYTES[kind]:
            raise FixError(f"{name}: expected a safetensors body whose offsets follow one another and match the shapes")
        if base + stop > len(body):
            raise FixError(f"{name}: expected a safetensors body of {base + stop} bytes or more, got {len(body)}")
        end = stop
        numbers = np.frombuffer(body, READ[kind], prod(shape), base + start)
        try:
            arrays[name] = _widened(numbers, kind).reshape(shape)
        except ValueError as error:  # more axes than numpy has, or longer ones
            raise FixError(f"{name}: {error}") from None
    if base + end != len(body):
        raise FixError(f"expected a safetensors body of {base + end} bytes by its header, got {len(body)}")
    return arrays


def split(bodies: bytes, expected: int) -> list[bytes]:
    """The safetensors bodies that stand one after another.

    Raises FixError unless they are `expected` ones, whose headers can be read; it reads no more headers than that.
    """
    parts, at = list[bytes](), 0
    while at < len(bodies):
        if len(parts) == expected:
            raise FixError(f"expected {expected} bodies of safetensors, got more")
        base = 8 + int.from_bytes(bodies[at : at + 8], "little")
        stop = max((stop for *_, stop in entries(bodies[at : at + base]).values()), default=0)
        parts.append(bodies[at : at + base + stop])
        at += base + stop
    if len(parts) < expected:
        raise FixError(f"expected {expected} bodies of safetensors, got {len(parts)}")
    return parts


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


def _blocks(array: NDArray[Any], size: int = 2**17) -> Iterator[NDArray[Any]]:
    """The values of an array in C order, `size` at a time: a float64 copy of a large array would use much memory."""
    numbers = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, size):
        yield numbers[start : start + size]


def entries(body: bytes) -> dict[str, tuple[str, tuple[int, ...], int, int]]:
    """The type, shape, first byte and end of each tensor by the header of a safetensors body.

    Raises FixError if it cannot be read, or names a type that is not read. What the library of safetensors refuses is
    refused: two tensors of one name would be another one for each reader.
    """
    header = int.from_bytes(body[:8], "little")
    if header > LONGEST_HEADER:
        raise FixError(f"expected a safetensors body with a header of at most {LONGEST_HEADER} bytes, got {header}")
    try:
        text = body[8 : 8 + header].decode()
        if not text.startswith("{"):
            raise FixError(f"its first character is {text[:1]!r}")
        tensors = json.loads(text, object_pairs_hook=_without_doubles, parse_int=_whole)
        metadata = tensors.pop("__metadata__", None)
        if metadata is not None and any(type(value) is not str for value in metadata.values()):
            raise FixError("__metadata__ must be texts")
        if "\\u" in text:
            json.dumps([tensors, metadata], ensure_ascii=False).encode()  # not with half of a surrogate pair
        parsed = {name: _entry(**entry) for name, entry in tensors.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FixError(f"expected a safetensors body, whose header cannot be read: {error!r}"[:500]) from None
    for name, (kind, shape, *offsets) in parsed.items():
        if len(offsets) != 2 or any(type(number) is not int for number in (*shape, *offsets)):
            raise FixError(f"{name}: expected a safetensors body whose shapes and offsets are whole numbers from 0 on")
        expected = "U8, UTF-8 text padded with zeros" if name in PACKED else "F16, BF16, F32 or F64"
        if type(kind) is not str or kind not in READ or (kind == "U8") != (name in PACKED):
            raise FixError(f"{name}: expected {expected}, got {brief(kind)}")
    return parsed  # pyright: ignore[reportReturnType]  # of two offsets, as checked


def _entry(*, dtype: Any, shape: Any, data_offsets: Any) -> tuple[Any, ...]:
    """The entry of a tensor in a header. Raises TypeError where lists are none."""
    if {type(shape), type(data_offsets)} != {list}:
        raise TypeError("shape and data_offsets must be lists")
    return (dtype, tuple(shape), *data_offsets)


def _without_doubles(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object of JSON. Raises FixError for two of one name."""
    by_name = dict(fields)
    if len(by_name) < len(fields):
        raise FixError("it has a key twice")
    return by_name


def _whole(text: str) -> int:
    """A number of 64 bits. Raises FixError for another one."""
    if text.startswith("-") or (number := int(text)) >= 2**64:
        raise FixError(f"expected whole numbers from 0 on, of 64 bits, got {brief(text)}")
    return number


def _widened(numbers: NDArray[Any], kind: str) -> NDArray[Any]:
    """A copy of numbers as they are in a body, with bfloat16, which numpy does not have, as float32."""
    if kind != "BF16":
        return numbers.copy()
    upper = numbers.astype("<u4")  # its bits are the upper half of a float32
    upper <<= 16
    return upper.view("<f4")
