"""Logs of lm-eval: `samples_*.jsonl` with `results_*.json` beside them; until 0.4.2 a JSON array for each task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimist.datasets.logs.rows import Log, LogRow, cluster_in, objects_of
from optimist_client.cells import number_of
from optimist_client.errors import FixError

_SAMPLES = re.compile(r'\s*(?:\[\s*)?\{\s*"doc_id":.*"arguments":', re.DOTALL)
_RESULTS = re.compile(r'\s*\{\s*"results":\s*\{(?!\s*"version")')
_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:-]+")
_BESIDE = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"})
"""Fields of a row besides its scores, where the row does not name the scores."""


def opened(file: Path, head: str, cluster: str | None) -> Log | None:
    """The log in a file of samples; None for another file.

    head: the beginning of its text. cluster: the field of a question that similar questions share.
    """
    if _SAMPLES.match(head) is None:
        return None
    results = _results_beside(file)
    task = _task_of(file, results)
    model, settings = _model_of(file, task, results)
    better = results.get("higher_is_better", {}).get(task, {})
    lower = frozenset(metric for metric, is_higher in better.items() if is_higher is False)
    is_array = head.lstrip().startswith("[")

    def rows(texts: bool) -> Iterator[LogRow]:
        for number, sample in enumerate(_array(file), 1) if is_array else objects_of(file):
            if "doc_id" not in sample:
                raise FixError(f"{file}: sample {number}: expected a doc_id, found {', '.join(sample)}")
            yield _row(sample, model, task, cluster, texts)

    return Log(file, rows, settings, lower)


def is_results(head: str) -> bool:
    """True if a file has the results of lm-eval, which are read with its samples."""
    return _RESULTS.match(head) is not None


def _row(sample: Mapping[str, Any], model: str, task: str, cluster: str | None, texts: bool) -> LogRow:
    names: Iterable[str] = sample.get("metrics") or [
        name for name, value in sample.items() if name not in _BESIDE and isinstance(value, float | int)
    ]
    scores: dict[str, float] = {}
    for name in names:
        value = number_of(sample.get(name))
        if value is not None:
            scores[name] = value
    id = f"{sample['doc_id']}"
    own = cluster_in(sample.get("doc"), cluster, id)
    of = sample.get("filter", "")
    if not texts:
        return LogRow(model, task, id, scores, "" if of == "none" else of, cluster=own)
    prompt, answer = _texts(sample)
    return LogRow(model, task, id, scores, "" if of == "none" else of, cluster=own, prompt=prompt, answer=answer)


def _texts(sample: Mapping[str, Any]) -> tuple[str, str]:
    """The prompt, and the raw answer; of a choice the most likely answer."""
    arguments = sample.get("arguments") or [[""]]
    calls: list[list[Any]] = [
        [*call.values()] if isinstance(call, Mapping) else [*call]
        for call in (arguments.values() if isinstance(arguments, Mapping) else arguments)
    ]
    replies = sample.get("resps") or [[""]]
    if len(calls) > 1:
        likelihoods = [_likelihood(reply) for reply in sample.get("filtered_resps") or replies]
        best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
        return f"{calls[0][0]}", f"{calls[best][1]}".strip()
    reply = replies[0]
    return f"{calls[0][0]}", f"{reply[0] if isinstance(reply, Sequence) and not isinstance(reply, str) else reply}"


def _likelihood(reply: Any) -> float:
    while isinstance(reply, Sequence) and not isinstance(reply, str):
        reply = reply[0]
    return float(reply)


def _array(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from json.loads(file.read_bytes())
    except ValueError as error:
        raise FixError(f"{file}: expected a JSON array of samples: {error}") from None


def _results_beside(file: Path) -> Mapping[str, Any]:
    """The results of the same run: of the same time, or the only results of the folder; {} without."""
    files = sorted(file.parent.glob("results*.json"))
    same = [results for results in files if file.stem.endswith(results.stem.removeprefix("results"))]
    chosen = [results for results in same if results.stem != "results"] or (files if len(files) == 1 else [])
    return _read(chosen[0]) if chosen else {}


@lru_cache(maxsize=256)
def _read(file: Path) -> Mapping[str, Any]:
    try:
        results = json.loads(file.read_bytes())
    except ValueError as error:
        raise FixError(f"{file}: expected results of lm-eval: {error}") from None
    return results if isinstance(results, dict) else {}


def _task_of(file: Path, results: Mapping[str, Any]) -> str:
    tasks = [task for task in results.get("configs", {}) if re.search(rf"_{re.escape(task)}(_|$)", file.stem)]
    if tasks:
        return max(tasks, key=len)
    named = _NAME.fullmatch(file.stem)
    return file.stem if named is None else named[1]


def _model_of(file: Path, task: str, results: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The model's name, and the settings of its run."""
    config = results.get("config", {})
    args: dict[str, Any] | str = config.get("model_args") or {}
    if isinstance(args, str):
        args = {name: value for name, _, value in (part.partition("=") for part in args.split(",") if part)}
    args = {**args}
    own = next(filter(None, [args.pop(name, "") for name in ("pretrained", "model", "path")]), "")
    # Without arguments that name a model, the name in the results is one of chance.
    model = (results.get("model_name") if own else None) or own or config.get("model")
    model = model or file.parent.name.replace("__", "/")
    shots = results.get("n-shot", {}).get(task, "")
    settings = {
        **args,
        "shots": shots,
        "gen_kwargs": config.get("gen_kwargs") or "",
        "limit": config.get("limit") or "",
    }
    started = results.get("date")
    time = datetime.fromtimestamp(started, UTC).isoformat() if isinstance(started, float) else f"{started or ''}"
    return f"{model}", {name: f"{value}" for name, value in settings.items()} | {"time": time}
