"""Counts what JSON holds before it is parsed: to parse millions of values takes memory, and holds all threads."""

from __future__ import annotations

from optimist_client.errors import FixError

MAX_VALUES = 2**16
"""Values of a request body: numbers, texts, lists and objects. The prompts of an experiment are the most, 20,000."""
MAX_FIELDS = 2000
"""Fields of all objects of a request body. The costs of an experiment are the most, one for each generator."""
_MIN_VALUE, _MIN_FIELD = 2, 5
"""Bytes of `0,` and `"":0,`."""


def check_size(body: bytes, max_values: int = MAX_VALUES, max_fields: int = MAX_FIELDS) -> None:
    """Raise FixError if a JSON text has more than `max_values` values, or more than `max_fields` fields.

    It counts what stands outside of texts, 64 KiB at a time, so that other threads go on and copies are small.
    """
    if len(body) < min(_MIN_VALUE * max_values, _MIN_FIELD * max_fields):
        return
    values, fields, in_text, left = 1, 0, False, b""
    for start in range(0, len(body), 2**16):
        piece = left + body[start : start + 2**16]
        left = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""  # it belongs to what comes next
        piece = piece[: len(piece) - len(left)]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b" ".join(parts[in_text::2])
        in_text ^= len(parts) % 2 == 0
        values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        fields += outside.count(b":")
        if values > max_values:
            raise FixError(f"expected at most {max_values:,} values in JSON")
        if fields > max_fields:
            raise FixError(f"expected at most {max_fields:,} fields in JSON")
