"""Tables of scores as logs: rows of .jsonl, .csv and the other files that the SDK's `rows` reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from optimist.datasets.logs.rows import Log, LogRow, objects_of
from optimist_client.cells import label_of
from optimist_client.errors import FixError
from optimist_client.rows import GENERATORS, PLACES, QUESTIONS, Fields, Rows, is_beside, leaves

_NAMES = {
    "model": GENERATORS,
    "task": ("task",),
    "id": QUESTIONS,
    "epoch": ("epoch", "attempt", "trial", "repeat"),
    "cost": ("cost",),
    "seconds": ("seconds", "latency", "duration"),
    "prompt": ("prompt",),
    "answer": ("answer", "output", "completion", "response", "text"),
    "cluster": (),
}
"""Usual names of fields by meaning; the first present name counts."""
_NUMBER = (float, int)


def opened(file: Path, fields: Fields) -> Log:
    """The log of a table, by the names of its fields. Lines of JSON are read one by one, other tables as a whole."""
    is_read_by_line = file.suffix.lower() == ".jsonl" and fields == replace(fields, field=None, where=())
    return Log(file, lambda texts: _of_lines(file, fields, texts) if is_read_by_line else _of_rows(file, fields, texts))


class _Layout(NamedTuple):
    """Names of the fields of similar rows, by their meaning."""

    model: str | None
    task: str | None
    id: str | None
    epoch: str | None
    cost: str | None
    seconds: str | None
    prompt: str | None
    answer: str | None
    cluster: str | None
    scores: tuple[str, ...]
    """The fields that are scores where they are numbers."""


def _layout(names: Sequence[str], chosen: Mapping[str, str]) -> _Layout:
    """chosen: names by their meaning, as a caller gives them. Raises FixError for a name that no field has."""
    lowered = {name.lower(): name for name in reversed([*names])}
    for what, name in chosen.items():
        if name.lower() not in lowered:
            raise FixError(f"no field {name!r} ({what}); there are {', '.join(names)}")
    usual = _NAMES | {what: (name.lower(),) for what, name in chosen.items()}
    by = {what: next((lowered[name] for name in own if name in lowered), None) for what, own in usual.items()}
    used = {*by.values(), *(lowered.get(name) for name in (*QUESTIONS, *PLACES))}
    scores = (*(name for name in names if name not in used and not is_beside(name)),)
    return _Layout(**by, scores=scores)


def _chosen(fields: Fields) -> dict[str, str]:
    return {"model" if what == "by" else what: name for what, name in replace(fields, field=None).chosen.items()}


def _of_lines(file: Path, fields: Fields, texts: bool) -> Iterator[LogRow]:
    layouts: dict[tuple[str, ...], _Layout] = {}
    chosen, model = _chosen(fields), file.stem
    for number, whole in objects_of(file):
        row = dict(leaves(whole)) if dict in map(type, whole.values()) else whole
        names = (*row,)
        try:
            layout = layouts.get(names)
            if layout is None:
                layout = layouts[names] = _layout(names, chosen)
            yield _row(row, layout, model, texts)
        except FixError as error:
            raise FixError(f"{file}: line {number}: {error}") from None


def _row(row: Mapping[Any, Any], layout: _Layout, model: str, texts: bool) -> LogRow:
    """A row of a table. model: its name where no field has it. Raises FixError without an id."""
    get = row.get  # which has nothing by the name None
    id = label_of(get(layout.id))
    if id is None:
        raise FixError(
            "expected an id, a text or a whole number, by which answers to a question belong together (--id)"
        )
    cost, seconds, epoch = get(layout.cost), get(layout.seconds), get(layout.epoch)
    return LogRow(
        _text(get(layout.model), model),
        _text(get(layout.task)),
        id,
        {name: float(value) for name in layout.scores if isinstance(value := row[name], _NUMBER)},
        "",
        "",
        int(epoch) if isinstance(epoch, _NUMBER) else 1,
        _text(get(layout.cluster), id),
        cost if isinstance(cost, _NUMBER) else math.nan,
        seconds if isinstance(seconds, _NUMBER) else math.nan,
        _text(get(layout.prompt)) if texts else "",
        _text(get(layout.answer)) if texts else "",
    )


def _text(value: Any, otherwise: str = "") -> str:
    return value if isinstance(value, str) else otherwise if value is None else f"{value}"


def _of_rows(file: Path, fields: Fields, texts: bool) -> Iterator[LogRow]:
    for model, part in Rows.from_file(file, fields).by_generator().items():
        layout = _layout(part.names, _chosen(fields))
        scores = (*part.score_fields(),)
        numbers = {layout.epoch, layout.cost, layout.seconds, *scores}
        labels = {layout.task, layout.id, layout.cluster, *((layout.prompt, layout.answer) if texts else ())}
        columns: dict[Any, Sequence[Any]] = {name: part.floats(name) for name in numbers if name is not None}
        columns |= {name: part.labels(name, "label") for name in labels if name is not None}
        of_model = layout._replace(model=None, scores=scores)
        for index in range(len(part)):
            row = {name: values[index] for name, values in columns.items()}
            try:
                yield _row(row, of_model, model, texts)
            except FixError as error:
                raise FixError(f"{file}: {error}") from None
