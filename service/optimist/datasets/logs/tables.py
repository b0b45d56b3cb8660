"""Tables of scores as logs: rows of .jsonl, .csv and the other files that the SDK's `rows` reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from optimist.datasets.logs.rows import Log, Row
from optimist_client.errors import FixError
from optimist_client.rows import Fields, Rows

_EPOCHS = ("epoch", "attempt", "trial", "repeat")
_ANSWERS = ("answer", "output", "completion", "response", "text")


def opened(file: Path, fields: Fields) -> Log:
    """The log that a table is, by the names of its fields: model, task, id, epoch, cost, seconds, prompt, answer."""
    return Log(file, lambda texts: _rows(file, fields, texts))


def _rows(file: Path, fields: Fields, texts: bool) -> Iterator[Row]:
    for model, part in Rows.from_file(file, fields).by_generator().items():
        count = len(part)

        def named(*names: str, part: Rows = part) -> str | None:
            return next((own for name in names for own in part.names if own.lower() == name), None)

        task, epoch, answer = named("task"), named(*_EPOCHS), named(*_ANSWERS)
        id = part.id
        if id is None:
            raise FixError(f"{file}: expected a field of ids, by which answers to a question belong together (--id)")
        tasks = part.labels(task, "task") if task else [""] * count
        ids = part.labels(id, "id")
        clusters = part.clusters() or ids
        scores = {name: part.floats(name) for name in part.score_fields()}
        beside = {
            name: part.floats(own) if own else [math.nan] * count
            for name, own in {"cost": part.cost, "seconds": named("seconds", "latency", "duration")}.items()
        }
        epochs = part.floats(epoch) if epoch else [1.0] * count
        shown = {
            name: part.texts(own) if texts and own else [""] * count
            for name, own in {"prompt": part.prompt, "answer": answer}.items()
        }
        for place in range(count):
            yield Row(
                model,
                tasks[place],
                ids[place],
                {name: values[place] for name, values in scores.items()},
                epoch=int(epochs[place]),
                cluster=clusters[place],
                cost=beside["cost"][place],
                seconds=beside["seconds"][place],
                prompt=shown["prompt"][place],
                answer=shown["answer"][place],
            )
