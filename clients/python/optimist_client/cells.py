"""Values of tables: numbers, missing values, and the reading of text cells."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from optimist_client.validation import is_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

CellKind = Literal["number", "list", "text", "nothing"]
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-nan"})
"""Spellings of a missing number, in any case of letters. Among texts only the empty one is missing."""
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
"""Without zeros at the front, which identifiers have, and without separators of thousands."""
_COMMA = re.compile(r"[+-]?(?:0|[1-9]\d*),\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Correct, incorrect, partly correct, no answer."""
_TRUE = {"true": True, "false": False}


class Column:
    """Values of one field, of every row. Its kind is the kind of most values, in any order."""

    def __init__(self, cells: Sequence[Any] | NDArray[Any], *, are_texts: bool = False, comma: bool = False) -> None:
        """are_texts: whether numbers are written as texts, as in a CSV file. comma: whether with decimal commas."""
        self.cells = cells
        self._are_texts, self._comma = are_texts, comma

    @cached_property
    def kind(self) -> CellKind:
        """Kind of most of the present values."""
        if not isinstance(self.cells, Sequence):
            return "list"
        counts: dict[CellKind, int] = {"text": 0, "number": 0, "list": 0}
        for value in self._read:
            if value is not None:
                is_number = isinstance(value, int | float)
                kind: CellKind = "list" if is_list(value) else "number" if is_number else "text"
                counts[kind] += 1
        best = max(counts, key=lambda kind: counts[kind])
        return best if counts[best] else "nothing"

    @cached_property
    def values(self) -> Sequence[Any]:
        """Each value, None where it is missing: numbers, booleans, lists of numbers, or unchanged."""
        if self.kind in ("number", "list"):
            return self._read if isinstance(self.cells, Sequence) else [*self.cells]
        return [None if cell == "" else cell for cell in self.cells]

    @cached_property
    def _read(self) -> list[Any]:
        return [self.read(cell) if self._are_texts or _is_missing(cell) else cell for cell in self.cells]

    def read(self, cell: Any) -> Any:
        """The number, boolean or list in a text, or None where it is missing; other values unchanged."""
        if _is_missing(cell):
            return None
        if not isinstance(cell, str):
            return cell
        text = cell.strip()
        if _NUMBER.fullmatch(text):
            return float(text)
        if self._comma and _COMMA.fullmatch(text):
            return float(text.replace(",", "."))
        if text.startswith("["):
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return cell
        return _TRUE.get(text.lower(), cell)

    def picked(self, indices: Sequence[int]) -> Column:
        """The values at these indices."""
        cells = [self.cells[i] for i in indices] if isinstance(self.cells, Sequence) else self.cells[[*indices]]
        return Column(cells, are_texts=self._are_texts, comma=self._comma)


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """True if numbers of these cells have decimal commas, and are not thousands such as 1,234 throughout."""
    commas = [cell.strip() for cell in cells if _COMMA.fullmatch(cell.strip())]
    return bool(commas) and not all(map(_THOUSANDS.fullmatch, commas))


def numbers_in(value: Any) -> list[float] | None:
    """A number, or a list of numbers, as a list of finite numbers. None for anything else."""
    listed: list[Any] = [*value] if is_list(value) or hasattr(value, "dtype") else [value]
    if not listed or any(not isinstance(item, int | float) and not hasattr(item, "dtype") for item in listed):
        return None
    numbers = [float(item) for item in listed]
    return numbers if all(map(math.isfinite, numbers)) else None


def number_of(value: Any) -> float | None:
    """The number that a score is, which may be a boolean or a grade of inspect_ai; NaN for a missing one, else None."""
    if isinstance(value, str):
        return _GRADES.get(value)
    if isinstance(value, float | int):
        return float(value)
    return math.nan if value is None else None


def label_of(value: Any) -> str | None:
    """A text, a boolean or a whole number as a text, by which rows of files of any kind are told apart; else None."""
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}"
    return f"{value}" if isinstance(value, str | int) else None


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or (isinstance(cell, float) and math.isnan(cell))
