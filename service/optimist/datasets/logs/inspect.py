"""Logs of inspect_ai (`.eval`, `.json`), by its own reader: the format has versions and is not frozen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from optimist.datasets.logs.rows import Log, LogRow, cluster_in
from optimist_client.cells import number_of
from optimist_client.errors import FixError
from optimist_client.installed import install_hint

_JSON = re.compile(r'\s*\{\s*"version":\s*\d+,\s*"status":\s*"\w+",\s*"eval":\s*\{')


def opened(file: Path, head: str, cluster: str | None) -> Log | None:
    """The log in a file; None for another file. Raises FixError where inspect_ai cannot read it.

    head: the beginning of its text. cluster: the field of a sample's metadata that similar samples share.
    """
    if file.suffix.lower() != ".eval" and _JSON.match(head) is None:
        return None
    try:
        log: Any = import_module("inspect_ai.log")
    except ModuleNotFoundError:
        raise FixError(f"{file}: reading logs of inspect_ai needs it: {install_hint('inspect')}") from None
    try:
        header = log.read_eval_log(file, header_only=True)
    except Exception as error:  # errors of zipfile, zlib, JSON and pydantic
        raise FixError(f"{file}: expected a log that inspect_ai can read: {error}") from None
    spec = header.eval
    settings = {**spec.model_args, **spec.task_args, **spec.model_generate_config.model_dump(exclude_none=True)}
    stops = getattr(header.results, "early_stopping", None)
    skipped = frozenset((f"{stop.id}", int(stop.epoch)) for stop in (stops.early_stops if stops else ()))

    def rows(texts: bool) -> Iterator[LogRow]:
        try:
            for sample in log.read_eval_log_samples(f"{file}", all_samples_required=False):
                yield _row(sample, spec.model, spec.task, cluster, texts)
        except ValueError as error:
            raise FixError(f"{file}: expected a log that inspect_ai can read: {error}") from None

    told = {name: f"{value}" for name, value in settings.items()} | {"time": f"{spec.created}"}
    return Log(file, rows, told, skipped=skipped)


def _row(sample: Any, model: str, task: str, cluster: str | None, texts: bool) -> LogRow:
    """A sample with its scores; one that failed has none."""
    scores: dict[str, float] = {}
    for scorer, score in ({} if sample.error else sample.scores or {}).items():
        parts = score.value.items() if isinstance(score.value, Mapping) else [("", score.value)]
        for part, value in parts:
            number = number_of(value)
            if number is not None:
                scores[f"{scorer}.{part}" if part else scorer] = number
    costs: list[Any] = [getattr(usage, "total_cost", None) for usage in sample.model_usage.values()]
    return LogRow(
        model,
        task,
        f"{sample.id}",
        scores,
        epoch=sample.epoch,
        cluster=cluster_in(sample.metadata, cluster, f"{sample.id}"),
        cost=math.nan if not costs or None in costs else math.fsum(costs),
        seconds=math.nan if sample.working_time is None else sample.working_time,
        prompt=_text(sample.input) if texts else "",
        answer=sample.output.completion if texts else "",
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(message.text for message in content)
