"""Reads request bodies as named arrays from safetensors or JSON. Their sizes are limited by `middleware.limits`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from optimist.api.bodies.objects import JSON_WORK, LARGE, parsed, run_in_thread
from optimist.api.middleware.access import header
from optimist.api.middleware.limits import Body, Share
from optimist.api.problems import ApiError, invalid
from optimist.settings import Settings
from optimist_client import tensors
from optimist_client.errors import FixError

Arrays = dict[str, NDArray[Any]]
Shapes = Mapping[str, tuple[int, ...]]
Check = Callable[[Shapes], Awaitable[None]]

ARRAYS_IN_OPENAPI: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            tensors.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": {"type": "object", "additionalProperties": {"type": "array", "items": {}}}},
        },
    }
}
"""OpenAPI description of the bodies that `read_arrays` accepts, for the routes' `openapi_extra`."""


WIDENED_WEIGHT = 5
"""Bytes of memory per byte of safetensors with bfloat16, which is converted to float32."""
MOST_NUMBERS = 2**18
"""Values of a body in JSON, which takes much longer to read than the other formats."""


async def body_of(request: Request) -> bytes:
    """The whole body of a request. Raises HTTPException 408, 413 or 503."""
    body: Body = request.scope["body"]
    return await body.whole()


async def read_arrays(request: Request, settings: Settings, check: Check | None = None) -> Arrays:
    """Read the named arrays of a body according to its content type.

    check: called before a large body is decoded, with the shapes that it announces, or {} if the format has none.
    Raises `ApiError` 415 or 422 for an invalid body, HTTPException 413 or 503 if it would use too much memory.
    """
    kind = (header(request.scope, b"content-type") or "").partition(";")[0].strip().lower()
    body = await body_of(request)
    share: Share = request.scope["memory"]
    try:
        if kind == tensors.MEDIA_TYPE:
            if b'"BF16"' in body[: tensors.LONGEST_HEADER]:
                share.hold(WIDENED_WEIGHT * len(body))
            if check is not None and len(body) > LARGE:
                await check(tensors.shapes(body))
            return await run_in_thread(len(body), tensors.decode, body)
        if kind == "application/json":
            if check is not None and JSON_WORK * len(body) > LARGE:
                await check({})
            return await run_in_thread(JSON_WORK * len(body), _from_json, body, settings.max_rows)
    except ValueError as error:
        raise invalid(str(error)) from None
    expected = f"expected {tensors.MEDIA_TYPE} or application/json, got {kind!r}"
    raise ApiError(415, "media-type", "Unsupported media type", expected)


def _from_json(body: bytes, max_rows: int) -> Arrays:
    try:
        fields: Any = parsed(body, MOST_NUMBERS)
    except (ValueError, RecursionError) as error:
        raise invalid(f"expected a JSON object of arrays: {error}") from None
    if not isinstance(fields, dict):
        raise invalid(f"expected a JSON object of arrays, got {type(fields).__name__}")
    return {
        name: _ids(value, max_rows) if name == tensors.IDS else _array(name, value) for name, value in fields.items()
    }


def _ids(value: Any, max_rows: int) -> NDArray[np.uint8]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise invalid("ids: expected a list of strings, one for each row")
    if len(value) > max_rows:
        raise invalid(f"ids: expected at most {max_rows} rows, got {len(value)}")
    try:
        return tensors.pack_ids(value)
    except ValueError as error:  # UTF-8 cannot encode an unpaired surrogate
        raise invalid(str(error)) from None


def _array(name: str, value: Any) -> NDArray[np.floating]:
    try:
        # numpy would convert booleans, null and "1.5" to numbers, and for one text all numbers to texts.
        if kinds := _kinds(value) - {int, float}:
            raise FixError(f"found {'a boolean' if bool in kinds else 'ragged or non-numeric values'}")
        array = np.asarray(value)
        if array.dtype == object:
            raise FixError("found an integer of more than 64 bits")
        return array.astype(np.float64, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid(f"{name}: expected a rectangular array of numbers: {error}") from None


def _kinds(value: Any) -> set[type]:
    """The types of what a (nested) list from JSON contains, with `list` where other values stand beside lists."""
    if not isinstance(value, list):
        return {type(value)}
    kinds = set(map(type, value))
    return set[type]().union(*map(_kinds, value)) if kinds == {list} else kinds
