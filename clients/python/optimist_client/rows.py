"""Reads rows of named values from .jsonl and .csv files: texts, numbers, ids, prompts and costs of samples."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError
from optimist_client.parquet import GENERATOR
from optimist_client.validation import is_list, is_mapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIXES = (".jsonl", ".csv")
LONGEST = 2**24
"""The most characters of a line of JSON, or of a cell."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a row that are its sample, its id, its cost and its prompt; None: those of the usual names."""

    field: str | None = None
    """Of the sample, or of several numbers, such as "gpt,small"."""
    id: str | None = None
    """By which rows of several files belong together; usually "id"."""
    cost: str | None = None
    """Of the sample; usually "cost"."""
    prompt: str | None = None
    """The text that the sample was made for; usually "prompt"."""

    @property
    def given(self) -> dict[str, str]:
        """The fields that were given, by what they are."""
        found = {"field": self.field, "id": self.id, "cost": self.cost, "prompt": self.prompt}
        return {name: value for name, value in found.items() if value is not None}

    def check_unused(self, file: Path) -> None:
        """Raise FixError if fields were given for a file that has none."""
        if self.given:
            options = " and ".join(f"--{name}" for name in self.given)
            raise FixError(f"{file}: {options}: only files ending in {', '.join(SUFFIXES)} have fields")


NO_FIELDS = Fields()


class Rows:
    """Rows of a file, in order. Messages name the file and the line."""

    def __init__(self, file: Path, fields: Fields, rows: list[tuple[int, dict[str, Any]]]) -> None:
        """rows: the number of the line and the values of each."""
        self.file, self.fields, self._rows = file, fields, rows

    @classmethod
    def from_file(cls, file: Path, fields: Fields = NO_FIELDS) -> Rows:
        """All rows of a file. Raises FixError for one that cannot be read, has no rows or another ending."""
        if file.suffix.lower() not in SUFFIXES:
            raise FixError(f"{file}: expected a file ending in {', '.join(SUFFIXES)}, found {file.suffix!r}")
        try:
            with file.open(encoding="utf-8-sig", newline="") as stream:
                rows = _of_json(file, stream) if file.suffix.lower() == ".jsonl" else _of_csv(file, stream)
        except FileNotFoundError:
            raise FixError(f"{file}: no such file") from None
        except UnicodeDecodeError as error:
            raise FixError(f"{file}: expected text in UTF-8: {error}") from None
        if not rows:
            raise FixError(f"{file}: expected at least one row, found none")
        return cls(file, fields, rows)

    def by_generator(self) -> dict[str, Rows]:
        """The rows of each generator that a field "generator" names; without one all of them, by the file's name."""
        if GENERATOR not in self.names:
            return {self.file.stem: self}
        found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for name, row in zip(self.labels(GENERATOR, "generator"), self._rows, strict=True):
            found.setdefault(name, []).append(row)
        return {name: Rows(self.file, self.fields, rows) for name, rows in found.items()}

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def names(self) -> list[str]:
        """The names of all fields."""
        return [*dict.fromkeys(name for _, row in self._rows for name in row)]

    def column(self, name: str, what: str = "value") -> list[Any]:
        """The value of a field in every row. Raises FixError where one has none."""
        if name not in self.names:
            raise FixError(f"{self.file}: no field {name!r} ({what}); there are {', '.join(self.names)}")
        for line, row in self._rows:
            if row.get(name) in (None, ""):
                raise FixError(f"{self.file}: line {line}: expected a {what} in the field {name!r}, found none")
        return [row[name] for _, row in self._rows]

    def texts(self, name: str, what: str = "text") -> list[str]:
        """A field of texts. Raises FixError for a value that is none."""
        values = self.column(name, what)
        for (line, _), value in zip(self._rows, values, strict=True):
            if not isinstance(value, str):
                raise self._wrong(line, name, "a text", value)
        return values

    def labels(self, name: str, what: str) -> list[str]:
        """A field of texts or whole numbers, as texts. Raises FixError for another value."""
        values = self.column(name, what)
        for (line, _), value in zip(self._rows, values, strict=True):
            if not isinstance(value, str | int) or isinstance(value, bool):
                raise self._wrong(line, name, "a text or a whole number", value)
        return [f"{value}" for value in values]

    def numbers(self, name: str, what: str = "number") -> NDArray[Any]:
        """A field of numbers, or of lists of numbers of one length, float64 (n, d). Raises FixError for others."""
        import numpy as np

        rows: list[list[float]] = []
        for (line, _), value in zip(self._rows, self.column(name, what), strict=True):
            found = _numbers(value)
            if found is None:
                raise self._wrong(line, name, "a number or a list of numbers", value)
            if rows and len(found) != len(rows[0]):
                raise self._wrong(line, name, f"{len(rows[0])} numbers, as in the first row", f"{len(found)}")
            rows.append(found)
        return np.array(rows, np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields that are asked for, or all that are numbers in the first row, as float64 (n, d) by name.

        Raises FixError where there are none.
        """
        first, beside = self._rows[0][1], {self.id, self.cost, self.prompt, GENERATOR}
        if self.fields.field is not None:
            names = self.fields.field.split(",")
        else:
            names = [name for name, value in first.items() if name not in beside and _numbers(value) is not None]
        if not names:
            found = ", ".join(self.names)
            embeds = "texts are embedded by `optimist compare --embed text`"
            raise FixError(f"{self.file}: expected a field of numbers or of lists of numbers; found {found}; {embeds}")
        return {name: self.numbers(name) for name in names}

    @property
    def id(self) -> str | None:
        """The field of ids, if there is one."""
        return self._usual("id")

    @property
    def cost(self) -> str | None:
        """The field of costs, if there is one."""
        return self._usual("cost")

    @property
    def prompt(self) -> str | None:
        """The field of prompts, if there is one."""
        return self._usual("prompt")

    def ids(self) -> list[str] | None:
        """The id of each row, all distinct; None if rows have none. Raises FixError for one that is there twice."""
        if self.id is None:
            return None
        known: dict[str, int] = {}
        for (line, _), one in zip(self._rows, self.labels(self.id, "id"), strict=True):
            if one in known:
                raise FixError(f"{self.file}: line {line}: the id {one!r} is that of line {known[one]}, too")
            known[one] = line
        return [*known]

    def prompts(self) -> list[str] | None:
        """The prompt of each row; None if rows have none."""
        return None if self.prompt is None else self.texts(self.prompt, "prompt")

    def sample_field(self, usual: Sequence[str], what: str) -> str:
        """The field of the samples: the one that was given, one of the usual names, or the only one of texts.

        Raises FixError if it is not known which.
        """
        if self.fields.field is not None:
            return self.fields.field
        if named := [name for name in usual if name in self.names]:
            return named[0]
        beside = {self.id, self.cost, self.prompt}
        texts = [name for name, value in self._rows[0][1].items() if isinstance(value, str) and name not in beside]
        texts = [name for name in texts if _numbers(self._rows[0][1][name]) is None]
        if len(texts) != 1:
            raise FixError(f"{self.file}: which field is the {what}? Name one by --field: {', '.join(self.names)}")
        return texts[0]

    def _usual(self, what: str) -> str | None:
        return self.fields.given.get(what, what if what in self.names else None)

    def _wrong(self, line: int, name: str, expected: str, value: Any) -> FixError:
        return FixError(f"{self.file}: line {line}: field {name!r}: expected {expected}, found {f'{value!r}'[:60]}")


def _of_json(file: Path, stream: Any) -> list[tuple[int, dict[str, Any]]]:
    rows: list[tuple[int, dict[str, Any]]] = []
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise FixError(f"{file}: line {number}: expected at most {LONGEST:,} characters")
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FixError(f"{file}: line {number}: expected a JSON object: {error}") from None
        if not is_mapping(found):
            raise FixError(f"{file}: line {number}: expected a JSON object, found {line.strip()[:60]}")
        rows.append((number, dict(found)))
    return rows


def _of_csv(file: Path, stream: Any) -> list[tuple[int, dict[str, Any]]]:
    before = csv.field_size_limit(LONGEST)
    try:
        reader = csv.reader(stream, strict=True)
        names = next(reader, list[str]())
        if len(set(names)) < len(names) or not all(names):
            raise FixError(f"{file}: line 1: expected distinct names of columns, found {', '.join(names)}")
        if names and all(_numbers(name) is not None for name in names):
            raise FixError(f"{file}: line 1: expected names of columns, found only numbers: write names above them")
        rows: list[tuple[int, dict[str, Any]]] = []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(names):
                raise FixError(f"{file}: line {reader.line_num}: expected {len(names)} cells, found {len(cells)}")
            rows.append((reader.line_num, dict(zip(names, cells, strict=True))))
        return rows
    except csv.Error as error:
        raise FixError(f"{file}: expected a readable .csv file: {error}") from None
    finally:
        csv.field_size_limit(before)


def _numbers(value: Any) -> list[float] | None:
    """A number, or a list of numbers, as a list; of a text, what it says. None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else float(value)
        except (ValueError, RecursionError):
            return None
    listed: list[Any] = value if is_list(value) else [value]
    if not listed or any(not isinstance(each, int | float) for each in listed):
        return None
    found = [float(each) for each in listed]
    return found if all(map(math.isfinite, found)) else None
