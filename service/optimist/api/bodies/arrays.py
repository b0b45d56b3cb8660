"""Reads request bodies as named arrays from safetensors or JSON. Their sizes are limited by `middleware.limits`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from optimist.api.bodies.objects import JSON_WORK, LARGE, parsed, run_in_thread
from optimist.api.middleware.access import header
from optimist.api.middleware.limits import Body, BodyShare
from optimist.api.problems import ApiError, invalid
from optimist.settings import Settings
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.files import Arrays

Shapes = Mapping[str, tuple[int, ...]]

_TENSORS = {tensors.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_JSON = {"application/json": {"schema": {"type": "object", "additionalProperties": {"type": "array", "items": {}}}}}
ARRAYS_IN_OPENAPI: dict[str, Any] = {"requestBody": {"required": True, "content": _TENSORS | _JSON}}
"""OpenAPI description of the bodies that `EncodedArrays` reads, for the routes' `openapi_extra`."""
TENSORS_IN_OPENAPI: dict[str, Any] = {"requestBody": {"required": True, "content": _TENSORS}}


@dataclass(frozen=True, slots=True)
class EncodedArrays:
    """Named arrays as the body of a request, which has come as a whole."""

    content: bytes
    is_json: bool
    work: int
    """The bytes of safetensors that would take as long to decode."""
    share: BodyShare

    @classmethod
    async def from_request(cls, request: Request) -> EncodedArrays:
        """The body of a request. Raises `ApiError` 415 for another content type, HTTPException 408, 413 or 503."""
        body: Body = request.scope["body"]
        content = await body.whole()
        kind = (header(request.scope, b"content-type") or "").partition(";")[0].strip().lower()
        if kind not in (tensors.MEDIA_TYPE, "application/json"):
            expected = f"expected {tensors.MEDIA_TYPE} or application/json, got {kind!r}"
            raise ApiError(415, "media-type", "Unsupported media type", expected)
        is_json = kind == "application/json"
        return cls(content, is_json, JSON_WORK * len(content) if is_json else len(content), request.scope["memory"])

    @property
    def is_large(self) -> bool:
        """True if a thread decodes it: refuse it before, where possible."""
        return self.work > LARGE

    async def decode(self, settings: Settings) -> Arrays:
        """The arrays. Raises `ApiError` 422 for an invalid body, HTTPException 413 or 503 if there is no memory."""
        try:
            if self.is_json:
                return await run_in_thread(self.work, _from_json, self.content, settings.max_rows)
            if b'"BF16"' in self.content[: tensors.LONGEST_HEADER]:
                self.share.hold(5 * len(self.content))  # bfloat16 is converted to float32
            return await run_in_thread(self.work, tensors.decode, self.content)
        except ValueError as error:
            raise invalid(str(error)) from None


def _from_json(body: bytes, max_rows: int) -> Arrays:
    try:
        fields: Any = parsed(body, 2**18)  # few values, as JSON takes much longer to read than safetensors
    except (ValueError, RecursionError) as error:
        raise invalid(f"expected a JSON object of arrays: {error}") from None
    if not isinstance(fields, dict):
        raise invalid(f"expected a JSON object of arrays, got {type(fields).__name__}")
    return {
        name: _texts(name, value, max_rows) if name in tensors.BESIDE else _array(name, value)
        for name, value in fields.items()
    }


def _texts(name: str, value: Any, max_rows: int) -> NDArray[np.uint8]:
    """Ids, which are strings, or records, which are any values."""
    is_text = name == tensors.IDS
    if not isinstance(value, list) or (is_text and not all(isinstance(text, str) for text in value)):
        raise invalid(f"{name}: expected a list of {'strings' if is_text else 'values'}, one for each row")
    if len(value) > max_rows:
        raise invalid(f"{name}: expected at most {max_rows} rows, got {len(value)}")
    try:
        return tensors.pack_ids(value) if is_text else tensors.pack_records(value)
    except ValueError as error:  # UTF-8 cannot encode an unpaired surrogate
        raise invalid(str(error)) from None


def _array(name: str, value: Any) -> NDArray[np.floating]:
    try:
        # numpy would convert null and "1.5" to numbers, and for one text all numbers to texts.
        if _kinds(value) - {int, float, bool}:
            raise FixError("found ragged or non-numeric values")
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
