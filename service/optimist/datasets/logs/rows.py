"""Rows of logs: one answer of a model to a question, with its scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from optimist_client.errors import FixError


class LogRow(NamedTuple):
    """One answer of a model to a question."""

    model: str
    """The model's name, as the harness has it."""
    task: str
    id: str
    """Id of the question within its task."""
    scores: Mapping[str, float]
    """The numbers by metric; NaN, or no number, where the answer was not scored."""
    filter: str = ""
    """Extraction of the score from the answer, where a harness has several."""
    variant: str = ""
    """Distinction between models of one name within a log, such as the prompt's label."""
    epoch: int = 1
    cluster: str = ""
    """Cluster of similar questions; usually the id."""
    cost: float = math.nan
    seconds: float = math.nan
    prompt: str = ""
    answer: str = ""


@dataclass(frozen=True, eq=False)
class Log:
    """A file of a harness. `rows(texts)` reads its rows, with prompts and answers if `texts`."""

    file: Path
    rows: Callable[[bool], Iterable[LogRow]]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings that may distinguish two runs of one model, most distinctive first."""
    lower_is_better: frozenset[str] = frozenset()
    """The metrics of which lower values are better."""
    skipped: frozenset[tuple[str, int]] = frozenset()
    """Ids and epochs that were not asked on purpose."""


def cluster_in(values: Any, name: str | None, id: str) -> str:
    """The cluster of a question: the value of this name beside it, or its id without one."""
    return id if name is None or not isinstance(values, Mapping) or name not in values else f"{values[name]}"


def objects_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of lines of JSON, with the numbers of their lines. Raises FixError."""
    number = 0
    try:
        with file.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.isspace():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise FixError(f"{file}: line {number}: expected a JSON object, found {line[:60]!r}")
                yield number, record
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FixError(f"{file}: line {number}: expected a JSON object in UTF-8: {error}") from None
