"""The tolerance of a comparison: a number on the scale of the scores, or a share of the best score, such as "1%"."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from numbers import Real
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from optimist_client.errors import FixError
from optimist_client.validation import brief

_SHARE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


def checked(value: object, field: str = "tolerance: ") -> float | str:
    """The tolerance in canonical form: a number as a float, a share as "1%".

    Raises FixError if it is neither, with `field` at its beginning.
    """
    if isinstance(value, str) and (share := _SHARE.fullmatch(value)) and float(share[1]) < 100.0:
        return f"{float(share[1]):.15g}%"
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):
            number = float(value)
            if 0.0 <= number < math.inf:
                return number
    raise FixError(f'{field}expected a number of at least 0, or a share below 100% such as "1%", got {brief(value)}')


def parsed(text: str, field: str = "tolerance: ") -> float | str:
    """The tolerance in a text of the command line. Raises FixError like `checked`."""
    try:
        number = float(text)
    except ValueError:
        return checked(text, field)
    return checked(number, field)


def share_of(tolerance: float | str) -> float | None:
    """The share of the best score, 0.01 for "1%"; None for a number."""
    return float(tolerance.removesuffix("%")) / 100.0 if isinstance(tolerance, str) else None


Tolerance = Annotated[
    float | str,
    PlainValidator(lambda value: checked(value, "")),  # pydantic names the field
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\d+(\.\d+)?%$"}]}),
]
