"""Checks of arguments that callers pass in memory. Every error is a FixError that says what was expected."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from optimist_client.errors import FixError


def check_number(name: str, value: Any) -> float:
    """The value as a float, NaN and ±inf included. Raises FixError, beginning with `name`, for anything else.

    The caller checks the range.
    """
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    except OverflowError:
        pass  # an int too large for a float
    raise FixError(f"{name}: expected a number, got {value!r}")


def check_whole(name: str, value: Any, least: int) -> int:
    """The value as an int. Raises FixError, beginning with `name`, unless it is a whole number ≥ `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise FixError(f"{name}: expected a whole number, at least {least}, got {value!r}")
    return int(value)


def check_text(name: str, value: Any) -> str:
    """The value. Raises FixError, beginning with `name`, unless it is a string."""
    if not isinstance(value, str):
        raise FixError(f"{name}: expected a string, got {value!r}")
    return value
