"""Rows of named values in tables (.csv, .tsv, .jsonl, .json, .parquet), and the one decision on fields' roles.

A field is identified by its name and the kind of most values, never by the first row. Fields of objects within
objects have names with dots. Names are compared without regard to capital letters.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optimist_client.cells import Column, has_decimal_commas, label_of, numbers_in
from optimist_client.errors import FixError
from optimist_client.validation import is_list, is_mapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv")
TABLES = (*SUFFIXES, ".parquet")
LONGEST = 2**24
"""The most characters of a line of JSON, or of a cell."""
GENERATORS = ("generator", "model", "name")
"""The fields that say which generator made a row, the first that there is."""
QUESTIONS = ("question_id", "doc_id", "id", "sample_id", "task_id")
"""The fields of ids, the first that there is."""
PLACES = ("index", "idx", "", "unnamed: 0", "__index_level_0__")
"""Names of index columns in tables. An index serves as id where nothing else does, and is never repeated."""
_BESIDE = re.compile(
    "costs?|price|usd|latency|ms|secs?|seconds?|time|duration|elapsed|timestamp|created|tokens|length|len|chars|seed|step"
    "|epoch|attempt|rank|row|line|version|probability"
)
"""Words in the names of numbers that stand beside a score."""
_SCORE = "score"
_SNIFFED, _DELIMITERS = 2**16, ",;\t|"
"""Number of characters that decide the separator of cells, and its candidates."""

Missing = Literal["drop", "zero"]


@dataclass(frozen=True, slots=True)
class Fields:
    """Roles of the fields of a row, and the rows that count; None: the fields of the usual names.

    Commands have an option for each field, whose help is its docstring."""

    field: str | None = None
    """Of the rows of tables (.csv, .tsv, .jsonl, .json, .parquet): the field of the sample, or several of numbers as
    gpt,small; by default text or answer, or the only field of numbers that is no cost or count. A field within another
    is named as metrics.acc."""
    id: str | None = None
    """Of rows: the field by which rows of several files belong together; by default question_id, doc_id, id, sample_id
    or task_id, or an index."""
    cost: str | None = None
    """Of rows: the field of a sample's cost; by default cost, if there is one."""
    prompt: str | None = None
    """Of rows: the field of the prompt's text; by default prompt, if there is one."""
    by: str | None = None
    """Of rows: the field of the generator's name; by default generator, model or name."""
    where: tuple[str, ...] = ()
    """Of rows: only those with this value of a field, as filter=strict-match or score!=-1."""
    missing: Missing | None = None
    """Of rows: drop leaves those without a score out, zero takes it as 0; by default refused."""
    cluster: str | None = None
    """Of rows: those with the same value of this field are one cluster, such as epochs of a question, whose id may then
    repeat. Errors count clusters instead of rows."""
    labels: str | None = None
    """Of rows: the field of what people say of some of them, where --field is what a judge says of all. The scores are
    by the people; the judge only makes their intervals smaller."""
    doubt: str | None = None
    """Of rows: the field of how unsure the judge is, by which --next chooses what people label."""

    @property
    def chosen(self) -> dict[str, str]:
        """The chosen fields, by their role."""
        names = ("field", "id", "cost", "prompt", "by", "cluster", "labels", "doubt")
        fields = {name: getattr(self, name) for name in names}
        return {name: value for name, value in fields.items() if value is not None}

    def check_unused(self, file: Path) -> None:
        """Raise FixError if fields were chosen for a file without fields."""
        names = [*self.chosen, *(["where"] if self.where else []), *(["missing"] if self.missing else [])]
        if names:
            options = " and ".join(f"--{name}" for name in names)
            raise FixError(f"{file}: {options}: only files ending in {', '.join(TABLES)} have fields")


NO_FIELDS = Fields()


class RowSamples(NamedTuple):
    """Data from the rows of one generator."""

    arrays: dict[str, NDArray[Any]]
    """Float64 (n, d) by name."""
    columns: dict[str, tuple[str, ...]]
    """The fields that an array was made of, one for each of its columns; one field for lists."""
    ids: list[str]
    """Distinct ids by which rows of several files belong together."""
    paired_by: str
    """The field of these ids, or "place"."""
    missing: int
    """Number of rows without a value, which were left out or got 0."""
    dropped: int
    """Number of rows that `where` left out."""
    clusters: list[str] | None = None
    """The cluster of each row; None: rows are independent."""
    labels: list[float] | None = None
    """Human score of each row, NaN without one; None without labels."""


class Rows:
    """Rows of a file, in order. Messages name the file and the line."""

    def __init__(
        self, file: Path, fields: Fields, columns: Mapping[str, Column], lines: Sequence[int], dropped: int = 0
    ) -> None:
        """columns: the values by field. lines: the number of each row's line. dropped: rows that were left out."""
        self.file, self.fields, self._columns, self._lines, self._dropped = file, fields, columns, lines, dropped

    @classmethod
    def from_file(cls, file: Path, fields: Fields = NO_FIELDS) -> Rows:
        """The rows of a file that `fields.where` chooses. Raises FixError for an unreadable file, for one without rows,
        and for another ending.
        """
        suffix = file.suffix.lower()
        if suffix not in TABLES:
            raise FixError(f"{file}: expected a file ending in {', '.join(TABLES)}, found {file.suffix!r}")
        try:
            if suffix == ".parquet":
                from optimist_client import parquet

                columns = {name: Column(cells) for name, cells in parquet.columns_of(file).items()}
                count = len(next(iter(columns.values())).cells) if columns else 0
                rows = cls(file, fields, _flat(columns), range(1, count + 1))
            else:
                with _opened(file) as stream:
                    if suffix in (".csv", ".tsv"):
                        rows = cls(file, fields, *_of_csv(file, stream))
                    else:
                        rows = cls(file, fields, *(_of_json if suffix == ".json" else _of_lines)(file, stream))
        except FileNotFoundError:
            raise FixError(f"{file}: no such file") from None
        except UnicodeError as error:
            raise FixError(f"{file}: expected text in UTF-8, or in UTF-16 with its mark: {error}") from None
        except FixError as error:
            raise FixError(f"{error}" if f"{error}".startswith(f"{file}") else f"{file}: {error}") from None
        except Exception as error:
            if suffix != ".parquet":
                raise
            raise FixError(f"{file}: expected a readable .parquet file: {error}") from None  # errors of pyarrow
        if not len(rows):
            raise FixError(f"{file}: expected at least one row, found none")
        return rows._chosen()

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def names(self) -> list[str]:
        """The names of all fields."""
        return [*self._columns]

    def _picked(self, indices: Sequence[int], dropped: int = 0) -> Rows:
        columns = {name: column.picked(indices) for name, column in self._columns.items()}
        return Rows(self.file, self.fields, columns, [self._lines[i] for i in indices], self._dropped + dropped)

    def _chosen(self) -> Rows:
        """The rows for which all conditions of `where` hold."""
        indices = [*range(len(self))]
        for condition in self.fields.where:
            name, is_equal, value = _condition(condition)
            labels = [label_of(cell) for cell in self._column(name, "where").values]
            indices = [i for i in indices if (_same(labels[i], value)) == is_equal]
            if not indices:
                there = ", ".join(f"{label}" for label in islice(dict.fromkeys(labels), 8))
                raise FixError(f"{self.file}: --where {condition}: no row is left; {name} has {there}")
        return self if len(indices) == len(self) else self._picked(indices, len(self) - len(indices))

    def by_generator(self) -> dict[str, Rows]:
        """The rows of each generator named by a field; without such a field all rows, by the file's name."""
        if self.generator is None:
            return {self.file.stem: self}
        by_name: dict[str, list[int]] = {}
        for i, name in enumerate(self.labels(self.generator, "generator")):
            by_name.setdefault(name, []).append(i)
        return {name: self._picked(own) for name, own in by_name.items()}

    @cached_property
    def generator(self) -> str | None:
        """The field of the generators' names, if there is one. By itself only one by which generators have several
        rows each is taken.
        """
        if self.fields.by is not None:
            return self._column(self.fields.by, "generator") and self._named(self.fields.by)
        for name in filter(None, map(self._named, GENERATORS)):
            counts = Counter(map(label_of, self._columns[name].values))
            if None not in counts and (name.lower() == GENERATORS[0] or min(counts.values()) > 1):
                return name
        return None

    @cached_property
    def id(self) -> str | None:
        """The field of ids, if there is one."""
        return self._usual("id", *QUESTIONS)

    @property
    def cost(self) -> str | None:
        """The field of costs, if there is one."""
        return self._usual("cost", "cost")

    @property
    def prompt(self) -> str | None:
        """The field of prompts, if there is one."""
        return self._usual("prompt", "prompt")

    def texts(self, name: str, what: str = "text") -> list[str]:
        """A field of texts. Raises FixError for a value that is none."""
        cells = self._present(name, what, [None if cell == "" else cell for cell in self._column(name, what).cells])
        for line, value in zip(self._lines, cells, strict=True):
            if not isinstance(value, str):
                raise self._wrong(line, name, "a text", value)
        return [*cells]

    def labels(self, name: str, what: str) -> list[str]:
        """A field of texts, booleans or whole numbers, as texts. Raises FixError for another value."""
        labels: list[str] = []
        for line, value in zip(self._lines, self._present(name, what, self._column(name, what).values), strict=True):
            label = label_of(value)
            if label is None:
                raise self._wrong(line, name, "a text or a whole number", value)
            labels.append(label)
        return labels

    def numbers(self, name: str, what: str = "number") -> NDArray[Any]:
        """A field of numbers, or of lists of numbers of one length, float64 (n, d). Raises FixError for other values,
        and for missing ones unless `fields.missing` is "zero".
        """
        import numpy as np

        column, rows = self._column(name, what), list[list[float]]()
        if not isinstance(column.cells, Sequence):
            return np.asarray(column.cells, np.float64)
        values = [column.read(value) for value in column.values]
        if self.fields.missing == "zero":
            values = [0.0 if value is None else value for value in values]
        for line, value in zip(self._lines, self._present(name, what, values), strict=True):
            row = numbers_in(value)
            if row is None:
                raise self._wrong(line, name, "a number or a list of numbers", value)
            if rows and len(row) != len(rows[0]):
                raise self._wrong(line, name, f"{len(rows[0])} numbers, as in the first row", f"{len(row)}")
            rows.append(row)
        return np.array(rows, np.float64)

    def arrays(self, wanted: Mapping[str, int | None], like: Mapping[str, Sequence[str]] | None = None) -> RowSamples:
        """The arrays of a generator's rows by the `wanted` names, with their columns or None.

        An array comes from the chosen fields, or else from the field of its name; a single array also from the only
        field of lists, from the score where it has one column, or from all numbers. Several chosen fields are an array
        each, by name. like: the fields of earlier arrays' columns, in order. Raises FixError where fields are missing
        or ambiguous, and where rows repeat an id.
        """
        import numpy as np

        chosen = self._fields_of(wanted)
        for array, names in chosen.items():
            if like and array in like and len(names) > 1:
                chosen[array] = self._in_order(names, like[array])
        ids, paired_by = self._ids()
        read = {name: self._columns[name] for names in chosen.values() for name in names}
        lacks = {i for column in read.values() for i, value in enumerate(column.values) if column.read(value) is None}
        kept = self
        if lacks and self.fields.missing == "drop":
            indices = [i for i in range(len(self)) if i not in lacks]
            if not indices:
                raise FixError(f"{self.file}: no row has {' and '.join(read)}")
            kept, ids = self._picked(indices), [ids[i] for i in indices]
        arrays = {
            array: np.concatenate([kept.numbers(name) for name in names], axis=1) for array, names in chosen.items()
        }
        return RowSamples(
            arrays,
            {array: (*names,) for array, names in chosen.items()},
            ids,
            paired_by,
            len(lacks),
            self._dropped,
            kept.clusters(),
            kept.labelled(),
        )

    def ids(self) -> list[str] | None:
        """The id of each row, all distinct; None if rows have none. Raises FixError for one that is there twice, unless
        rows are in clusters: the second one of the id 7 is then called 7#2."""
        ids, paired_by = self._ids()
        return None if paired_by == "place" else ids

    def prompts(self) -> list[str] | None:
        """The prompt of each row; None if rows have none."""
        return None if self.prompt is None else self.texts(self.prompt, "prompt")

    def clusters(self) -> list[str] | None:
        """The cluster of each row; None if rows are independent. Raises FixError for a field that is not there."""
        return None if self.fields.cluster is None else self.labels(self.fields.cluster, "cluster")

    def labelled(self) -> list[float] | None:
        """Human score of each row, NaN without one, as where the field does not exist yet; None where no field is
        chosen."""
        name = self.fields.labels
        if name is None:
            return None
        return [math.nan] * len(self) if self._named(name) is None else self.floats(name)

    def score_field(self) -> str:
        """The field of scores: the chosen field, or the only possible field. Raises FixError."""
        ((name,),) = self._fields_of({"values": 1}).values()
        return name

    def score_fields(self) -> list[str]:
        """The possible fields of scores: the chosen fields, or all numbers with no other role."""
        if self.fields.field is not None:
            return [self._existing(name, "score") for name in self.fields.field.split(",")]
        beside = self._beside()
        numbers = [name for name, column in self._columns.items() if column.kind == "number" and name not in beside]
        return [name for name in numbers if not is_beside(name)] or numbers

    def floats(self, name: str) -> list[float]:
        """A field of numbers, NaN where a row has none. Raises FixError for another value."""
        column, numbers = self._column(name, "number"), list[float]()
        for line, value in zip(self._lines, map(column.read, column.cells), strict=True):
            number = math.nan if value is None else value
            if not isinstance(number, int | float):
                raise self._wrong(line, name, "a number", value)
            numbers.append(float(number))
        return numbers

    def sample_field(self, usual: Sequence[str], what: str) -> str:
        """The field of the samples: the chosen field, a field of a usual name, or the only field of texts.

        Raises FixError if the choice is ambiguous.
        """
        if self.fields.field is not None:
            return self.fields.field
        if named := [*filter(None, map(self._named, usual))]:
            return named[0]
        beside = self._beside()
        texts = [name for name, column in self._columns.items() if column.kind == "text" and name not in beside]
        if len(texts) != 1:
            raise FixError(f"{self.file}: which field is the {what}? Name one by --field: {', '.join(self.names)}")
        return texts[0]

    def _ids(self) -> tuple[list[str], str]:
        """Identifiers of the rows, and their field: ids, prompts, or positions ("place")."""
        if self.id is not None:
            ids = self.labels(self.id, "id")
            if self.fields.cluster is not None:
                return _numbered(ids), self.id
            self._check_distinct(ids)
            return ids, self.id
        for name in (*filter(None, map(self._named, PLACES)), self.prompt):
            if name is not None:
                labels = [*map(label_of, self._columns[name].values)]
                if len({*labels}) == len(labels) and None not in labels:
                    return [f"{label}" for label in labels], name or "an index without a name"
        return [f"{i}" for i in range(len(self))], "place"

    def _check_distinct(self, ids: Sequence[str]) -> None:
        """Raise FixError if a question is there more than once, with a field that distinguishes its rows."""
        first: dict[str, int] = {}
        for line, id in zip(self._lines, ids, strict=True):
            if id in first:
                break
            first[id] = line
        else:
            return
        text = f"{self.file}: line {line}: the {self.id} {id!r} is that of line {first[id]}, too"
        counts = f"{len(ids):,} rows, {len({*ids}):,} of them distinct"
        clusters = f"or let errors count questions by --cluster {self.id}"
        for name, column in self._columns.items():
            values = [*map(label_of, column.values)]
            kinds = [*dict.fromkeys(values)]
            if 1 < len(kinds) <= 8 and None not in kinds and len({*zip(ids, values, strict=True)}) == len(ids):
                chosen = f"choose by --where {name}={kinds[0]} ({', '.join(map(str, kinds))})"
                raise FixError(f"{text} ({counts}): {chosen}, name generators by --by {name}, {clusters}")
        choices = f"choose rows by --where, name their --id, {clusters}"
        raise FixError(f"{text} ({counts}): a question counts once: {choices}")

    def _fields_of(self, wanted: Mapping[str, int | None]) -> dict[str, list[str]]:
        """The fields of each array."""
        if self.fields.field is not None:
            doubt = [] if self.fields.doubt is None else [self.fields.doubt]
            names = [self._existing(name, "number") for name in (*self.fields.field.split(","), *doubt)]
            if len(wanted) == 1:
                ((array, width),) = wanted.items()
                is_wide = width != 1 and all(self._columns[name].kind == "number" for name in names)
                if len(names) == 1 or is_wide:
                    return {array: names}
            return {name: [name] for name in names}
        named = {array: self._named(array) for array in wanted}
        if all(name is not None for name in named.values()):
            return {array: [name] for array, name in named.items() if name is not None}
        beside = self._beside()
        kinds = {name: column.kind for name, column in self._columns.items() if name not in beside}
        numbers, lists = ([name for name, own in kinds.items() if own == kind] for kind in ("number", "list"))
        if len(wanted) > 1 or not numbers + lists:
            expected = (
                "a field of numbers or of lists of numbers" if len(wanted) == 1 else f"fields {', '.join(wanted)}"
            )
            embeds = "texts are embedded by `optimist compare --embed text`, and one of numbers is named by --field"
            raise FixError(f"{self.file}: expected {expected}; found {', '.join(self.names)}; {embeds}")
        ((array, width),) = wanted.items()
        if width != 1:
            return {array: [self._only(lists, "features")] if lists else numbers}
        scores = [name for name in numbers if not is_beside(name)] or numbers or lists
        return {array: [next((name for name in scores if name.lower() == _SCORE), None) or self._only(scores, "score")]}

    def _only(self, names: Sequence[str], what: str) -> str:
        """The only one of these fields. Raises FixError for several."""
        if len(names) > 1:
            raise FixError(f"{self.file}: which field is the {what}? Name one by --field: {', '.join(names)}")
        return names[0]

    def _in_order(self, names: Sequence[str], like: Sequence[str]) -> list[str]:
        """The fields in the order of `like`. Raises FixError unless they are the same."""
        if {*names} != {*like}:
            differ = ", ".join(sorted({*names} ^ {*like})[:6])
            raise FixError(f"{self.file}: expected the columns {like[0]} to {like[-1]} by name; not in both: {differ}")
        return [*like]

    def _beside(self) -> set[str | None]:
        """The fields that are no samples, by their names."""
        usual = {name for name in self.names if name.lower() in {*QUESTIONS, *PLACES}}
        fields = (self.fields.cluster, self.fields.labels)
        others = {self._named(name) for name in fields if name is not None}
        return usual | others | {self.id, self.cost, self.prompt, self.generator}

    def _present(self, name: str, what: str, values: Sequence[Any]) -> Sequence[Any]:
        """The values. Raises FixError where some are missing."""
        lacks = [line for line, value in zip(self._lines, values, strict=True) if value is None]
        if not lacks:
            return values
        count = "" if len(lacks) == 1 else f", and in {len(lacks) - 1:,} more of {len(self):,} rows"
        text = f"{self.file}: line {lacks[0]}: expected a {what} in the field {name!r}, found none{count}"
        raise FixError(f"{text}: --missing drop leaves such rows out, --missing zero takes them as 0")

    def _column(self, name: str, what: str) -> Column:
        return self._columns[self._existing(name, what)]

    def _existing(self, name: str, what: str) -> str:
        """The field of this name. Raises FixError if there is none."""
        if (existing := self._named(name)) is None:
            raise FixError(f"{self.file}: no field {name!r} ({what}); there are {', '.join(self.names)}")
        return existing

    def _named(self, name: str) -> str | None:
        """The field of this name, in any case of letters, if there is one."""
        return (
            name if name in self._columns else next((own for own in self._columns if own.lower() == name.lower()), None)
        )

    def _usual(self, what: str, *names: str) -> str | None:
        if what in self.fields.chosen:
            return self._existing(self.fields.chosen[what], what)
        return next(filter(None, map(self._named, names)), None)

    def _wrong(self, line: int, name: str, expected: str, value: Any) -> FixError:
        return FixError(f"{self.file}: line {line}: field {name!r}: expected {expected}, found {f'{value!r}'[:60]}")


def _numbered(ids: Sequence[str]) -> list[str]:
    """Distinct ids: repeated ids get a number after the first."""
    seen, distinct = Counter[str](), list[str]()
    for id in ids:
        seen[id] += 1
        distinct.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return distinct


def _condition(text: str) -> tuple[str, bool, str]:
    """Field, True for "=", and value of a condition. Raises FixError."""
    match = re.fullmatch(r"(.+?)(!?=)(.*)", text, re.DOTALL)
    if match is None:
        raise FixError(f"--where {text}: expected FIELD=VALUE or FIELD!=VALUE, such as filter=strict-match")
    return match[1].strip(), match[2] == "=", match[3].strip()


def _same(label: str | None, value: str) -> bool:
    """True if a label is this value; booleans in any case of letters, and "" for a missing value."""
    text = label or ""
    return text == value or (text in ("True", "False") and text.lower() == value.lower())


def is_beside(name: str) -> bool:
    """True if a number of this name accompanies a score: a cost, a time, a count."""
    words = {*re.split(r"[\W_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())}
    return any(map(_BESIDE.fullmatch, words)) and _SCORE not in words


def _opened(file: Path) -> io.TextIOWrapper:
    """The file as text, in the encoding that its first bytes say."""
    with file.open("rb") as stream:
        mark = stream.read(2)
    return file.open(encoding="utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", newline="")


_Table = tuple[dict[str, Column], list[int]]


def _of_lines(file: Path, stream: Any) -> _Table:
    rows: list[tuple[int, dict[str, Any]]] = []
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise FixError(f"{file}: line {number}: expected at most {LONGEST:,} characters")
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FixError(f"{file}: line {number}: expected a JSON object: {error}") from None
        if not is_mapping(record):
            raise FixError(f"{file}: line {number}: expected a JSON object, found {line.strip()[:60]}")
        rows.append((number, dict(record)))
    return _columns_of(row for _, row in rows), [number for number, _ in rows]


def _of_json(file: Path, stream: Any) -> _Table:
    expected = "expected an array of objects"
    try:
        document = json.load(stream)
    except (ValueError, RecursionError) as error:
        raise FixError(f"{file}: {expected}: {error}; objects on a line each are called .jsonl") from None
    if is_mapping(document):
        listed = [name for name, value in document.items() if is_list(value) and value and all(map(is_mapping, value))]
        if len(listed) != 1:
            raise FixError(f"{file}: {expected}, or an object with one; found {', '.join(map(str, document))[:60]}")
        document = document[listed[0]]
    if not is_list(document) or not all(map(is_mapping, document)):
        raise FixError(f"{file}: {expected}, found {f'{document!r}'[:60]}")
    return _columns_of(dict(row) for row in document), [*range(1, len(document) + 1)]


def _columns_of(rows: Iterable[dict[str, Any]]) -> dict[str, Column]:
    """The columns of rows, objects within them flat."""
    flat = [dict(leaves(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: Column([row.get(name) for row in flat]) for name in names}


def leaves(row: Mapping[Any, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """The fields of a row with their values, nested objects' fields by names with dots."""
    for name, value in row.items():
        if is_mapping(value) and value:
            yield from leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _flat(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns; objects become a column for each of their fields."""
    flat: dict[str, Column] = {}
    for name, column in columns.items():
        if isinstance(column.cells, Sequence) and any(map(is_mapping, column.cells)):
            flat |= _columns_of({name: cell} for cell in column.cells)
        else:
            flat[name] = column
    return flat


def _of_csv(file: Path, stream: Any) -> _Table:
    before = csv.field_size_limit(LONGEST)
    try:
        delimiter = "\t" if file.suffix.lower() == ".tsv" else _delimiter(stream)
        reader = csv.reader(stream, strict=True, delimiter=delimiter)
        names = next(reader, list[str]())
        if len(set(names)) < len(names):
            raise FixError(f"{file}: line 1: expected distinct names of columns, found {', '.join(names)}")
        if names and all(numbers_in(Column([name], are_texts=True).read(name)) is not None for name in names):
            raise FixError(f"{file}: line 1: expected names of columns, found only numbers: write names above them")
        rows: list[tuple[int, list[str]]] = []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(names):
                text = f"{file}: line {reader.line_num}: expected {len(names)} cells, found {len(cells)}"
                raise FixError(
                    f"{text}; cells are separated by {delimiter!r}: with decimal commas separate them by ';'"
                )
            rows.append((reader.line_num, cells))
        columns: dict[str, Column] = {}
        for i, name in enumerate(names):
            cells = [row[i] for _, row in rows]
            comma = delimiter != "," and has_decimal_commas(cells)
            columns[name] = Column(cells, are_texts=True, comma=comma)
        return columns, [line for line, _ in rows]
    except csv.Error as error:
        raise FixError(f"{file}: expected a readable .csv file: {error}") from None
    finally:
        csv.field_size_limit(before)


def _delimiter(stream: Any) -> str:
    """Separator of cells: makes the first rows as long as the names, and gives the most columns."""
    start = stream.read(_SNIFFED)
    stream.seek(0)

    def width(delimiter: str) -> int:
        try:
            rows = [row for row in csv.reader(io.StringIO(start, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            return 0
        lengths = {len(row) for row in (rows if len(start) < _SNIFFED else rows[:-1])}
        return lengths.pop() if len(lengths) == 1 else 0

    best = max(_DELIMITERS, key=width)
    return best if width(best) > 1 else ","
