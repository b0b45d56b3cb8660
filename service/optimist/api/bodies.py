"""Request bodies, read as named arrays from safetensors or JSON. How large they may be is counted in `limits`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from optimist.api.problems import ApiError, invalid
from optimist_client import tensors

Arrays = dict[str, NDArray[Any]]

ARRAYS_IN_OPENAPI: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            tensors.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": {"type": "object", "additionalProperties": {"type": "array", "items": {}}}},
        },
    }
}
"""What `read_arrays` takes, for the routes' `openapi_extra`."""


async def read_arrays(request: Request, max_rows: int) -> Arrays:
    """The named arrays of a body, by its content type. Raises `ApiError` 415 or 422.

    max_rows: most ids in JSON, which packed take many times the memory; other arrays are not counted here.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == tensors.MEDIA_TYPE:
        try:
            return tensors.decode(body)
        except ValueError as error:
            raise invalid(str(error)) from None
    if kind == "application/json":
        return _from_json(body, max_rows)
    raise ApiError(
        415, "media-type", "Unsupported media type", f"expected {tensors.MEDIA_TYPE} or application/json, got {kind!r}"
    )


def _from_json(body: bytes, max_rows: int) -> Arrays:
    try:
        fields: Any = json.loads(body)
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
    except ValueError as error:  # a surrogate alone is no UTF-8
        raise invalid(str(error)) from None


def _array(name: str, value: Any) -> NDArray[np.floating]:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":  # numpy would take "1.5" and null as numbers
            raise ValueError(f"found {'ragged or non-numeric values' if array.dtype == object else array.dtype}")
        if _holds_booleans(value):  # numpy takes them as numbers where there are numbers beside them
            raise ValueError("found a boolean")
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid(f"{name}: expected a rectangular array of numbers: {error}") from None


def _holds_booleans(value: Any) -> bool:
    """Whether a rectangular array of numbers, as JSON has it, holds booleans among them."""
    if not isinstance(value, list):
        return False
    if value and isinstance(value[0], list):
        return any(map(_holds_booleans, value))
    return bool in set(map(type, value))
