"""Results of promptfoo (`promptfoo eval -o results.json`), of versions 2 and 3 of its format."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimist.datasets.logs.rows import Log, Row, cluster_in
from optimist_client.cells import number_of
from optimist_client.errors import FixError

_HEAD = re.compile(r'\s*\{\s*(?:"evalId":|"results":\s*\{\s*"version":|"version":\s*\d+,\s*"timestamp":)')
_ERROR = 2
"""The failure reason of a call that failed; 1 is that of an answer that does not pass."""


def opened(file: Path, head: str, cluster: str | None) -> Log | None:
    """The log that a file is; None for another file.

    head: the beginning of its text. cluster: the variable by which questions that are alike are known.
    """
    if _HEAD.match(head) is None:
        return None
    return Log(file, lambda texts: _rows(file, cluster, texts))


def _rows(file: Path, cluster: str | None, texts: bool) -> Iterator[Row]:
    """The rows. A question is what has the same variables, so that repeated ones are epochs."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError as error:
        raise FixError(f"{file}: expected results of promptfoo: {error}") from None
    summary = found.get("results", found)
    results: list[dict[str, Any]] = (summary if isinstance(summary, dict) else found).get("results", [])
    task = (found.get("config") or {}).get("description") or "promptfoo"
    labels = {_label(one) for one in results}
    epochs = Counter[tuple[str, str, str]]()
    for one in sorted(results, key=lambda one: one.get("testIdx", 0)):
        provider = one["provider"]
        model = provider if isinstance(provider, str) else provider.get("label") or provider["id"]
        variables: dict[str, Any] = one.get("vars") or {}
        id = ", ".join(f"{value}" for value in variables.values()) or f"{one.get('testIdx', '')}"
        variant = _label(one) if len(labels) > 1 else ""
        epochs[model, variant, id] += 1
        has_failed = one.get("failureReason") == _ERROR or ("failureReason" not in one and "response" not in one)
        response = one.get("response") or {}
        yield Row(
            model,
            task,
            id,
            {} if has_failed else _scores(one),
            variant=variant,
            epoch=epochs[model, variant, id],
            cluster=cluster_in(variables, cluster, id),
            cost=one.get("cost", math.nan),
            seconds=one.get("latencyMs", math.nan) / 1000.0,
            prompt=f"{(one.get('prompt') or {}).get('raw', '')}" if texts else "",
            answer=_text(response.get("output", one.get("error", ""))) if texts else "",
        )


def _scores(one: Mapping[str, Any]) -> dict[str, float]:
    named = {name: number_of(value) for name, value in (one.get("namedScores") or {}).items()}
    scores = {"pass": number_of(one.get("success")), "score": number_of(one.get("score")), **named}
    return {name: value for name, value in scores.items() if value is not None}


def _label(one: Mapping[str, Any]) -> str:
    prompt = one.get("prompt") or {}
    return f"{prompt.get('label') or prompt.get('display') or ''}"


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
