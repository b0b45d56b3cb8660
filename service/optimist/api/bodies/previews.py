"""Checks the previews of a request. What they are is read from their own bytes, never taken from the request."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import BaseModel

from optimist.api.problems import invalid
from optimist.numerics.alike import modes_and_copies
from optimist.records import NewPreview
from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.models.previews import PreviewKind
from optimist_client.previews import LARGEST, image_kind

LONGEST_SIDE = 2048
"""Pixels of the longer side of an image: a small file may unpack to gigabytes in a browser."""
PROMPT = 500
EXCERPT = 300
"""Characters that are kept of a prompt, and of a text beside the text itself."""


class About(BaseModel):
    """What is stored beside the bytes of a preview; the fields are those of `PreviewInfo`."""

    kind: PreviewKind
    bytes: int
    digest: str
    width: int | None = None
    height: int | None = None
    prompt: str | None = None
    text: str | None = None
    features: str | None = None
    """float32 in base64."""


def read_previews(request: models.PreviewRequest) -> list[NewPreview]:
    """The previews as the store keeps them. Raises `ApiError` 422 for one that is no image or text as it should be."""
    return [_read(one, request.start) for one in request.previews]


def _read(one: models.NewPreview, start: int | None) -> NewPreview:
    name = f"previews: place {one.place}"
    prompt = None if one.prompt is None else _encodable(name, one.prompt[:PROMPT])
    if one.text is not None:
        body = _encodable(name, one.text).encode()
        about = About(kind="text/plain", bytes=len(body), digest="", prompt=prompt, text=one.text[:EXCERPT])
    else:
        body = _decoded(name, one.image or "")
        kind, width, height = measured(name, body)
        about = About(kind=kind, bytes=len(body), digest="", width=width, height=height, prompt=prompt)
    if len(body) > LARGEST:
        raise invalid(f"{name}: expected at most {LARGEST} bytes, got {len(body)}")
    about.digest = hashlib.sha256(body).hexdigest()[:16]
    if one.features:
        about.features = base64.b64encode(np.array(one.features, dtype="<f4").tobytes()).decode()
    index = None if start is None else start + one.place
    return NewPreview(one.place, index, about.model_dump_json(exclude_none=True), body)


def modes_of(features: Sequence[str | None], generators: Sequence[int]) -> list[tuple[int, int] | tuple[None, None]]:
    """The mode of each preview, and its group of nearly identical ones, by `About.features` and its generator.

    None for one without features, or with another number of them than most have.
    """
    rows = [b"" if text is None else base64.b64decode(text) for text in features]
    sizes = [len(row) for row in rows if row]
    usual = max(sizes, key=sizes.count, default=0)
    places = [place for place, row in enumerate(rows) if row and len(row) == usual]
    found: list[tuple[int, int] | tuple[None, None]] = [(None, None)] * len(rows)
    if places:
        grouped = _grouped(b"".join(rows[place] for place in places), tuple(generators[place] for place in places))
        for place, groups in zip(places, grouped, strict=True):
            found[place] = groups
    return found


@lru_cache(maxsize=16)  # those who look at the same experiment
def _grouped(rows: bytes, generators: tuple[int, ...]) -> list[tuple[int, int]]:
    features = np.frombuffer(rows, dtype="<f4").reshape(len(generators), -1)
    modes, copies = modes_and_copies(features, np.array(generators))
    return list(zip(modes.tolist(), copies.tolist(), strict=True))


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # an unpaired surrogate
        raise invalid(f"{name}: expected text that UTF-8 can encode") from None
    return text


def _decoded(name: str, image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name}: expected an image in base64: {error}") from None


def measured(name: str, body: bytes) -> tuple[PreviewKind, int, int]:
    """The media type, width and height of an image, by its own header.

    Raises `ApiError` 422 for anything but PNG, JPEG and WebP: SVG, for example, could run scripts.
    """
    kind = image_kind(body)
    sizes = {"image/png": _of_png, "image/jpeg": _of_jpeg, "image/webp": _of_webp}
    if kind is None:
        raise invalid(f"{name}: expected a PNG, JPEG or WebP image")
    try:
        width, height = sizes[kind](body)
    except (struct.error, IndexError, ValueError):
        raise invalid(f"{name}: the {kind} has no header that can be read") from None
    if not (1 <= width <= LONGEST_SIDE and 1 <= height <= LONGEST_SIDE):
        raise invalid(f"{name}: expected an image of at most {LONGEST_SIDE} pixels a side, got {width} × {height}")
    return kind, width, height


def _of_png(body: bytes) -> tuple[int, int]:
    if body[12:16] != b"IHDR":
        raise FixError("no header")
    width, height = struct.unpack(">II", body[16:24])
    return width, height


def _of_jpeg(body: bytes) -> tuple[int, int]:
    place = 2
    while True:
        if body[place] != 0xFF:
            raise FixError("no marker")
        marker = body[place + 1]
        if marker == 0xFF:  # fill
            place += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # without a length
            place += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame
            height, width = struct.unpack(">HH", body[place + 5 : place + 9])
            return width, height
        elif marker in (0xD9, 0xDA):
            raise FixError("no frame")
        else:
            (length,) = struct.unpack(">H", body[place + 2 : place + 4])
            place += 2 + max(2, length)


def _of_webp(body: bytes) -> tuple[int, int]:
    form: Literal[b"VP8 ", b"VP8L", b"VP8X"] | bytes = body[12:16]
    if form == b"VP8 " and body[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L" and body[20] == 0x2F:
        (bits,) = struct.unpack("<I", body[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X" and len(body) >= 30:
        return int.from_bytes(body[24:27], "little") + 1, int.from_bytes(body[27:30], "little") + 1
    raise FixError("no header")
