"""Limits of scores, such as "within 2% of best", "within 0.01 of production", "< 1.0" and "> 0.8"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from optimist_client import tolerance
from optimist_client.errors import FixError
from optimist_client.validation import brief

if TYPE_CHECKING:
    from optimist_client.metrics import Metric

BEST = "best"
"""The name of what a limit is relative to that is not relative to one generator."""
_RELATIVE = re.compile(r"\s*within\s+(\S+)\s+of\s+(\S.*?)\s*")
_FIXED = re.compile(r"\s*([<>])=?\s*(\S+)\s*")
_FORMS = 'expected a limit such as "within 2% of best", "within 0.01 of production", "< 1.0" or "> 0.8"'


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a generator's score meets or not; a score at the limit meets it."""

    kind: Literal["best", "generator", "below", "above"]
    """`best`, `generator`: at most `allowed` worse than the best one, or than `against`; else a fixed limit of the
    score on its natural scale."""
    allowed: float | str
    """A difference on the scale on which scores are compared, or a share of the other score such as "2%"; or the fixed
    limit itself."""
    against: str = ""
    """The generator that it is relative to."""

    @classmethod
    def of(cls, value: object, field: str = "") -> Limit:
        """The limit in a text. Raises FixError, with `field` at its beginning."""
        if isinstance(value, Limit):
            return value
        text = value if isinstance(value, str) else ""
        if match := _RELATIVE.fullmatch(text):
            allowed, against = tolerance.parsed(match[1]), match[2]
            return cls("best", allowed) if against == BEST else cls("generator", allowed, against)
        if (match := _FIXED.fullmatch(text)) and math.isfinite(fixed := _number(match[2])):
            return cls("below" if match[1] == "<" else "above", fixed)
        raise FixError(f"{field}{_FORMS}, got {brief(value)}")

    @property
    def is_fixed(self) -> bool:
        """True if it is a number that scores are compared with, not another generator."""
        return self.kind in ("below", "above")

    @property
    def is_of_best(self) -> bool:
        """True if it is relative to the best generator, whichever that is."""
        return not self.is_fixed and not self.against

    @property
    def share(self) -> float | None:
        """The share of the other score, 0.02 for "2%"; None for a difference, and for a fixed limit."""
        return tolerance.share_of(self.allowed)

    def check(self, metric: Metric, field: str) -> None:
        """Raise FixError, with `field` at its beginning, where scores of a metric cannot have such a limit."""
        if self.share is not None and not metric.positive:
            raise FixError(
                f"{field}: scores of {metric.name!r} may be 0 or negative, so that a share of them means nothing; "
                f"expected a number, got {self.allowed!r}"
            )
        if self.is_fixed and metric.scale == "log" and isinstance(self.allowed, float) and self.allowed <= 0.0:
            raise FixError(f"{field}: scores of {metric.name!r} are above 0; got the limit {self}")

    def __str__(self) -> str:
        shown = self.allowed if isinstance(self.allowed, str) else f"{self.allowed:.15g}"
        if self.is_fixed:
            return f"{'<' if self.kind == 'below' else '>'} {shown}"
        return f"within {shown} of {self.against or BEST}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _checked(value: Any) -> Limit:
    return Limit.of(value)


LimitField = Annotated[
    Limit,
    PlainValidator(_checked),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["within 2% of best", "< 1.0"]}),
]
"""A limit of one metric."""
