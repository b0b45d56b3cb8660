"""Request bodies, read as named arrays from safetensors, `.npz` or JSON. How large they may be: `limits`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from optimist.api.bodies import npz
from optimist.api.door.limits import NPZ_WEIGHT, Share
from optimist.api.problems import ApiError, invalid
from optimist.settings import Settings
from optimist_client import tensors

Arrays = dict[str, NDArray[Any]]
Shapes = Mapping[str, tuple[int, ...]]
Check = Callable[[Shapes], Awaitable[None]]
Result = TypeVar("Result")

LARGE = 2**18
"""Bytes up to which a body is checked at once: others wait for less than a thread would take to wake."""

ARRAYS_IN_OPENAPI: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            tensors.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
            npz.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": {"type": "object", "additionalProperties": {"type": "array", "items": {}}}},
        },
    }
}
"""What `read_arrays` takes, for the routes' `openapi_extra`."""


WIDENED_WEIGHT = 5
"""Bytes of memory for each byte of safetensors with bfloat16, which become float32."""
UNPACKED_WEIGHT = 3
"""Bytes of memory for each byte that an `.npz` unpacks to: as they came, in C order, and as the log has them."""
TEXT_WEIGHT = 8
"""The same of ids: as they came, as Python's text, as UTF-8, padded, joined, and encoded for the log."""


async def read_arrays(request: Request, settings: Settings, check: Check | None = None) -> Arrays:
    """The named arrays of a body, by its content type. Raises `ApiError` 415 or 422, HTTPException 413 or 503 for room.

    check: called with the shapes that a large body announces, before it is unpacked; {} where it does not say.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _read(request)
    share: Share = request.scope["memory"]
    try:
        if kind == tensors.MEDIA_TYPE:
            if b'"BF16"' in body[: tensors.LONGEST_HEADER]:
                share.hold(WIDENED_WEIGHT * len(body))
            if check is not None and len(body) > LARGE:
                await check(tensors.shapes(body))
            return await aside(len(body), tensors.decode, body)
        if kind == "application/json":
            if check is not None and len(body) > LARGE:
                await check({})
            return await aside(len(body), _from_json, body, settings.max_rows)
        if kind == npz.MEDIA_TYPE:
            archive = npz.Archive.of(body, settings.max_body)
            if check is not None and archive.size > LARGE:
                await check(archive.shapes())
            share.hold(NPZ_WEIGHT * len(body) + UNPACKED_WEIGHT * archive.size + TEXT_WEIGHT * archive.text_size)
            return await aside(archive.size, _from_npz, archive, settings.max_rows)
    except ValueError as error:
        raise invalid(str(error)) from None
    expected = f"expected {tensors.MEDIA_TYPE}, {npz.MEDIA_TYPE} or application/json, got {kind!r}"
    raise ApiError(415, "media-type", "Unsupported media type", expected)


async def _read(request: Request) -> bytes:
    """The body, which `request.body` gives from then on.

    In one block that grows: of many pieces, malloc keeps the room when they are freed.
    """
    if not hasattr(request, "_body"):
        whole = bytearray()
        async for piece in request.stream():
            whole += piece
        request._body = bytes(whole)
    return await request.body()


async def aside(size: int, work: Callable[..., Result], *args: Any) -> Result:
    """What `work` makes of `args`; in a thread where it goes through more than `LARGE` bytes."""
    if size <= LARGE:
        return work(*args)
    # Taken out of its box: the loop keeps a future, and what that came to, until another takes its place.
    done = (await asyncio.to_thread(_boxed, work, args)).pop()
    if isinstance(done, Exception):
        raise done
    return done


def _boxed(work: Callable[..., Result], args: tuple[Any, ...]) -> list[Result | Exception]:
    """What `work` makes of `args`, or the error that it raises, without the frames that hold the arrays."""
    try:
        return [work(*args)]
    except Exception as error:
        error.__context__ = None
        return [error.with_traceback(None)]


def _from_npz(archive: npz.Archive, max_rows: int) -> Arrays:
    arrays = archive.arrays()
    ids = arrays.get(tensors.IDS)
    if ids is not None and ids.dtype.kind == "U":
        # No more of them than one too many: as Python's own text they take many times the memory.
        arrays[tensors.IDS] = _ids(ids[: max_rows + 1].tolist() if ids.ndim == 1 else None, max_rows)
    return arrays


def _from_json(body: bytes, max_rows: int) -> Arrays:
    # Whenever it calls something of ours, others may have a turn; by itself it would keep them all waiting to the end.
    hooks: dict[str, Any] = {"parse_float": _calling(float), "parse_int": _calling(int)} if len(body) > LARGE else {}
    try:
        fields: Any = json.loads(body, **hooks)
    except (ValueError, RecursionError) as error:
        raise invalid(f"expected a JSON object of arrays: {error}") from None
    if not isinstance(fields, dict):
        raise invalid(f"expected a JSON object of arrays, got {type(fields).__name__}")
    return {
        name: _ids(value, max_rows) if name == tensors.IDS else _array(name, value) for name, value in fields.items()
    }


def _calling(kind: Callable[[str], float]) -> Callable[[str], float]:
    return lambda text: kind(text)


def _ids(value: Any, max_rows: int) -> NDArray[np.uint8]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise invalid("ids: expected a list of strings, one for each row")
    if len(value) > max_rows:
        raise invalid(f"ids: expected at most {max_rows} rows, got {len(value)}")
    try:
        return tensors.pack_ids(value)
    except ValueError as error:  # a surrogate alone is no UTF-8
        raise invalid(str(error)) from None


def _array(name: str, value: Any) -> NDArray[np.floating]:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":  # numpy would take "1.5" and null as numbers
            raise ValueError(f"found {'ragged or non-numeric values' if array.dtype == object else array.dtype}")
        if _holds_booleans(value):  # numpy takes them as numbers where there are numbers beside them
            raise ValueError("found a boolean")
        return array.astype(np.float64, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid(f"{name}: expected a rectangular array of numbers: {error}") from None


def _holds_booleans(value: Any) -> bool:
    """Whether a rectangular array of numbers, as JSON has it, holds booleans among them."""
    if not isinstance(value, list):
        return False
    if value and isinstance(value[0], list):
        return any(map(_holds_booleans, value))
    return bool in set(map(type, value))
