"""Which files are logs, found by their content; their rows as columns; and short names of the models."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path

from optimist.datasets.logs import inspect, lm_eval, promptfoo, tables
from optimist.datasets.logs.rows import Log, LogRow
from optimist_client.errors import FixError
from optimist_client.rows import NO_FIELDS, TABLES, Fields

_SUFFIXES = (".json", ".jsonl", ".eval")
"""Endings of the logs of harnesses in folders."""
_READERS = (inspect.opened, promptfoo.opened, lm_eval.opened)


def logs_in(paths: Sequence[Path], fields: Fields = NO_FIELDS, *, with_tables: bool = False) -> list[Log]:
    """The logs among files and folders; empty where there is none.

    with_tables: True if all tables of scores are logs; otherwise tables with a field "task" are, and tables beside logs
    of harnesses. Raises FixError for a file that cannot be read, and beside logs for a file that is none.
    """
    files: dict[Path, Log | None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
            logs = [(file, _harness_log(file, fields.cluster)) for file in inside]
            files |= {file: log for file, log in logs if log is not None}
        else:
            files[path] = _harness_log(path, fields.cluster)
    is_harness = any(log is not None for log in files.values())
    results = [file for file, log in files.items() if log is None and lm_eval.is_results(_head(file))]
    others = [file for file, log in files.items() if log is None and file not in results]
    if results and not is_harness:
        raise FixError(f"{results[0]}: expected samples beside these results: run lm-eval with --log_samples")
    if not is_harness and not (others and (with_tables or all(map(_has_tasks, others)))):
        return []
    if fields.missing is not None:
        raise FixError("--missing: logs are compared without missing scores, and with all of them at both extremes")
    if not others:
        replace(fields, cluster=None).check_unused(next(iter(files)))
    if unread := [file for file in others if file.suffix.lower() not in TABLES]:
        raise FixError(f"{unread[0]}: expected a log of lm-eval, inspect_ai or promptfoo, or a table of scores")
    return [log or tables.opened(file, fields) for file, log in files.items() if log is not None or file not in results]


def _harness_log(file: Path, cluster: str | None) -> Log | None:
    head = _head(file)
    return next(filter(None, (reader(file, head, cluster) for reader in _READERS)), None)


def _head(file: Path, size: int = 2**16) -> str:
    """The beginning of a file, which identifies its harness."""
    try:
        with file.open("rb") as stream:
            return stream.read(size).decode("utf-8", "replace")
    except OSError as error:
        raise FixError(f"{file}: {error.strerror}") from None


def _has_tasks(file: Path) -> bool:
    """True if a table has a field of tasks, by its first line."""
    if file.suffix.lower() not in TABLES or file.suffix.lower() == ".parquet":
        return False
    first = _head(file).lstrip("\ufeff \n[").partition("\n")[0]
    if file.suffix.lower() in (".csv", ".tsv"):
        return "task" in {name.strip().strip('"').lower() for name in re.split(r"[,;\t|]", first)}
    try:
        row = json.loads(first.rstrip(", "))
    except ValueError:
        return False
    return isinstance(row, dict) and "task" in row


@dataclass
class Answers:
    """The answers of a model to the questions of a task, by one filter, as columns."""

    model: str
    variant: str
    task: str
    filter: str
    log: Log
    ids: list[str] = field(default_factory=list[str])
    clusters: list[str] = field(default_factory=list[str])
    epochs: array[int] = field(default_factory=lambda: array("q"))
    scores: dict[str, array[float]] = field(default_factory=dict[str, "array[float]"])
    """Scores by metric, NaN where an answer was not scored."""
    costs: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def add(self, row: LogRow) -> None:
        """Add a row; its texts are left out."""
        count = len(self.ids)
        self.ids.append(row.id)
        self.clusters.append(row.cluster or row.id)
        self.epochs.append(row.epoch)
        self.costs.append(row.cost)
        self.seconds.append(row.seconds)
        for metric, value in row.scores.items():
            column = self.scores.get(metric)
            if column is None:
                column = self.scores[metric] = array("d")
            if len(column) < count:
                column.extend(repeat(math.nan, count - len(column)))
            column.append(value)

    def filled(self) -> Answers:
        """These answers, with NaN for final answers without a score."""
        for column in self.scores.values():
            column.extend(repeat(math.nan, len(self.ids) - len(column)))
        return self


def answers_in(logs: Iterable[Log], begun: Callable[[str], None] = lambda name: None) -> list[Answers]:
    """The answers of all logs by model, task and filter, in the order of the logs. Raises FixError without any."""
    answers: list[Answers] = []
    for log in logs:
        begun(log.file.name)
        parts: dict[tuple[str, str, str, str], Answers] = {}
        for row in log.rows(False):
            key = row.model, row.variant, row.task, row.filter
            part = parts.get(key)
            if part is None:
                part = parts[key] = Answers(*key[:3], row.filter, log)
            part.add(row)
        answers += [part.filled() for part in parts.values()]
    if not answers:
        raise FixError("expected logs with answers, found none")
    return answers


def named(answers: Sequence[Answers]) -> dict[str, list[Answers]]:
    """The answers of each model, by short and unique names: the model's own, then differing settings.

    Runs of one model are two models where both have a task: their settings tell them apart, or else their times.
    """
    groups: dict[tuple[str, str], list[Answers]] = {}
    for part in answers:
        groups.setdefault((part.model, part.variant), []).append(part)
    whole = [model for model, _ in dict.fromkeys((model, "") for model, _ in groups)]
    short = _shortened(whole)
    by_name: dict[str, list[Answers]] = {}
    for (model, variant), parts in groups.items():
        name = f"{short[model]} {variant}".strip()
        runs: dict[Log, list[Answers]] = {}
        for part in parts:
            runs.setdefault(part.log, []).append(part)
        tasks = [{(part.task, part.filter) for part in own} for own in runs.values()]
        if sum(map(len, tasks)) == len({*chain(*tasks)}):
            by_name[name] = parts
            continue
        for run, own in zip(_told_apart([*runs]), runs.values(), strict=True):
            by_name.setdefault(f"{name} {run}".strip(), []).extend(own)
    return by_name


def _shortened(names: Sequence[str]) -> dict[str, str]:
    """The last part of each name, such as after an organisation; the whole name where two are the same."""
    last = {name: next((part for part in reversed(re.split(r"[/:]", name)) if part), name) for name in names}
    counts = [*last.values()]
    return {name: own if counts.count(own) == 1 else name for name, own in last.items()}


def _told_apart(logs: Sequence[Log]) -> list[str]:
    """Differences between runs of one model: settings, or else the time, or the file's name."""
    keys = [*dict.fromkeys(chain(*(log.settings for log in logs)))]
    differing = [key for key in keys if len({log.settings.get(key, "") for log in logs}) > 1]
    settings = [key for key in differing if key != "time"]
    texts = [", ".join(f"{key}={log.settings.get(key, '')}" for key in settings) for log in logs]
    if settings and len({*texts}) == len(texts):
        return texts
    times = [log.settings.get("time", "").partition("+")[0].partition(".")[0] for log in logs]
    if len({time.partition("T")[0] for time in times}) == 1:
        times = [time.partition("T")[2] for time in times]
    names = times if len({*times}) == len(logs) else [log.file.stem for log in logs]
    return [f"{differences} {name}".strip() for differences, name in zip(texts, names, strict=True)]
