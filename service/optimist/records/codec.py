"""The one conversion between records and bytes. The types of the fields define it, as pydantic reads dataclasses.

As JSON a record has all of its fields, in the order of its class, so that equal records are equal bytes; every number
comes back as it was. In Redis a record whose fields scripts know is an entry of a stream, with a text for each field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, with_config

Record = TypeVar("Record")
LARGEST = 2**48
"""Far more than any count, and small enough for the numbers of Lua, even where a few are added."""
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Position = Annotated[int, Field(ge=1, le=LARGEST)]
Moment = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""Unix seconds of Redis's clock."""


RecordClass = TypeVar("RecordClass", bound=type)


def record(kind: RecordClass) -> RecordClass:
    """Decorator of a dataclass whose numbers may be infinite; its JSON writes them as Python's does."""
    return with_config(ConfigDict(ser_json_inf_nan="constants"))(kind)


_INFINITE = (math.inf, -math.inf)


@cache
def _adapter(kind: type[Record]) -> TypeAdapter[Record]:
    return TypeAdapter(kind)


def encode(record: Any) -> str:
    """The record as JSON."""
    return _adapter(type(record)).dump_json(record).decode()


def decode(kind: type[Record], text: str | bytes) -> Record:
    """Inverse of `encode`; unknown fields are ignored. Raises ValueError for invalid text."""
    return _adapter(kind).validate_json(text, strict=True)


def plain(record: Any) -> Any:
    """The fields of the record as values that JSON can represent; an infinite number is None."""
    fields = _adapter(type(record)).dump_python(record, mode="json")
    return {name: None if value in _INFINITE else value for name, value in fields.items()}


def from_entry(kind: type[Record], entry: Sequence[bytes]) -> Record:
    """The record of an entry of a stream: its fields and their values, one after the other. Raises ValueError."""
    texts = [text.decode() for text in entry]
    return _adapter(kind).validate_strings(dict(zip(texts[::2], texts[1::2], strict=True)))


def to_entry(record: Any) -> list[str]:
    """The inverse of `from_entry`."""
    fields = _adapter(type(record)).dump_python(record, mode="json")
    return [text for name, value in fields.items() for text in (name, value if isinstance(value, str) else repr(value))]
