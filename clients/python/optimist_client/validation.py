"""pydantic's validation errors in plain words: the field, what was expected, and what was found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from reprlib import Repr
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from optimist_client.errors import FixError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from typing_extensions import TypeIs

IDENTIFIER = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_INVISIBLE = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff"
)
"""Spaces without width, soft hyphens, fillers, tags and selectors of variants."""
_DECEIVING = rf"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e{_INVISIBLE}"
"""Characters that no name may hold, as it would be shown as another one: controls, separators of lines and paragraphs,
what changes the direction of text, and what is not shown at all."""
_JOINERS = r"\u200c\u200d"
"""Not shown either, but Persian, Hindi and others are spelt with them: allowed behind letters of such scripts."""


def _name(others: str = "") -> str:
    refused = f"{_DECEIVING}{_JOINERS}{others}"
    return rf"^(?:[^{refused}]|[^\x00-\u05ff{refused}][{_JOINERS}])+$"


NAME = _name()
TAG = _name(",")
NOTE = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
_SHOWN = "text without control characters, line separators, invisible characters and such that change its direction"
_PATTERNS = {
    IDENTIFIER: "at most 64 letters, digits, dots, dashes and underscores, with a letter or digit first",
    NAME: _SHOWN,
    TAG: f"{_SHOWN}, and without commas",
    NOTE: "text without control characters",
}
_LIMITS = {
    "greater_than_equal": "at least {ge:,.10g}",
    "greater_than": "a number above {gt:,.10g}",
    "less_than_equal": "at most {le:,.10g}",
    "less_than": "a number below {lt:,.10g}",
    "too_short": "at least {min_length:g}",
    "too_long": "at most {max_length:g}",
    "string_too_short": "text of at least {min_length:g} characters",
    "string_too_long": "text of at most {max_length:g} characters",
}
_TYPES = {
    "integer": "a whole number",
    "string": "text",
    "boolean": "true or false",
    "dictionary": "a mapping",
    "array": "a list",
}
_UNION = re.compile(r"[\w-]+\[.*\]|constrained-\w+")
"""Parts of a location that name a member of a union, not a field."""
ModelT = TypeVar("ModelT", bound="BaseModel")
_short = Repr()
_short.maxstring = _short.maxother = 80


def brief(value: object) -> str:
    """A value for a message, cut where it is long."""
    return _short.repr(value)


def meant(name: object, names: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a message; "" where none is similar."""
    return "".join(f", did you mean {close}?" for close in get_close_matches(str(name), [*names], 1))


def is_mapping(value: object) -> TypeIs[Mapping[Any, Any]]:
    """True if a caller's value is a mapping, of unknown keys and values."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeIs[list[Any]]:
    """True if a caller's value is a list, of unknown elements."""
    return isinstance(value, list)


def is_tuple(value: object) -> TypeIs[tuple[Any, ...]]:
    """True if a caller's value is a tuple, of unknown elements."""
    return isinstance(value, tuple)


def is_collection(value: object) -> TypeGuard[Collection[Any]]:
    """True if a caller's value is a collection, and no text."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def valid(model: type[ModelT], fields: Mapping[str, Any]) -> ModelT:
    """The model with these fields. Raises `FixError`, which says what was expected."""
    from pydantic import ValidationError

    try:
        return model(**fields)
    except ValidationError as error:
        raise FixError(in_words(error, fields=model.model_fields)) from None


def in_words(error: ValidationError, field: str = "", fields: Collection[str] = ()) -> str:
    """A validation error in one line. `field` is put before each part; `fields` are the names that exist."""
    return each_in_words(error.errors(include_url=False), field, fields)


def each_in_words(parts: Iterable[Mapping[str, Any]], field: str = "", fields: Collection[str] = ()) -> str:
    """The parts of a validation error, as pydantic lists them, in one line. Alternatives for one value are joined."""
    alternatives: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        at = ".".join(str(step) for step in part["loc"] if not _UNION.fullmatch(str(step)))
        said, got = _said(part, fields)
        alternatives.setdefault((": ".join(filter(None, (field, at))), got), []).append(said)
    return "; ".join(
        f"{at}: " * bool(at) + " or ".join([said[0], *(more.removeprefix("expected ") for more in said[1:])]) + got
        for (at, got), said in alternatives.items()
    )


def _said(part: Mapping[str, Any], fields: Collection[str]) -> tuple[str, str]:
    """The expectation, and the value that came."""
    kind, said, limits = part["type"], str(part["msg"]), part.get("ctx", {})
    if kind == "value_error":
        return said.removeprefix("Value error, "), ""
    if kind == "json_invalid":
        return f"expected JSON: {limits['error']}", ""
    if kind == "missing":
        return "expected a value, got none", ""
    if kind == "extra_forbidden":
        return f"unknown field{meant(part['loc'][-1], fields)}", ""
    if kind in _LIMITS:
        said = f"expected {_LIMITS[kind].format(**limits)}"
    elif limits.get("pattern") in _PATTERNS:
        said = f"expected {_PATTERNS[limits['pattern']]}"
    else:
        said = re.sub(r"^\w+ should (be|match) ", "expected ", re.split(", (?:unable|got) ", said)[0])
        said = said.partition(" or instance of")[0]
        said = re.sub(r"a valid (\w+)", lambda match: _TYPES.get(match[1], f"a {match[1]}"), said)
    return said, f", got {brief(part['input'])}" if "input" in part else ""
