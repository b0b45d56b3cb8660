"""Results of promptfoo (`promptfoo eval -o results.json`), of versions 2 and 3 of its format."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimist.datasets.logs.rows import Log, LogRow, cluster_in
from optimist_client.cells import number_of
from optimist_client.errors import FixError

_HEAD = re.compile(r'\s*\{\s*(?:"evalId":|"results":\s*\{\s*"version":|"version":\s*\d+,\s*"timestamp":)')


def opened(file: Path, head: str, cluster: str | None) -> Log | None:
    """The log that a file is; None for another file.

    head: the beginning of its text. cluster: the variable that similar questions share.
    """
    if _HEAD.match(head) is None:
        return None
    return Log(file, lambda texts: _rows(file, cluster, texts))


def _rows(file: Path, cluster: str | None, texts: bool) -> Iterator[LogRow]:
    """The rows. Results with the same variables are epochs of one question."""
    try:
        document = json.loads(file.read_bytes())
    except ValueError as error:
        raise FixError(f"{file}: expected results of promptfoo: {error}") from None
    summary = document.get("results", document)
    results: list[dict[str, Any]] = (summary if isinstance(summary, dict) else document).get("results", [])
    task = (document.get("config") or {}).get("description") or "promptfoo"
    labels = {_label(result) for result in results}
    epochs = Counter[tuple[str, str, str]]()
    for result in sorted(results, key=lambda result: result.get("testIdx", 0)):
        provider = result["provider"]
        model = provider if isinstance(provider, str) else provider.get("label") or provider["id"]
        variables: dict[str, Any] = result.get("vars") or {}
        id = ", ".join(f"{value}" for value in variables.values()) or f"{result.get('testIdx', '')}"
        variant = _label(result) if len(labels) > 1 else ""
        epochs[model, variant, id] += 1
        # Failure reason 2 is a call that failed; reason 1 is an answer that does not pass.
        has_failed = result.get("failureReason", None if "response" in result else 2) == 2
        response = result.get("response") or {}
        yield LogRow(
            model,
            task,
            id,
            {} if has_failed else _scores(result),
            variant=variant,
            epoch=epochs[model, variant, id],
            cluster=cluster_in(variables, cluster, id),
            cost=result.get("cost", math.nan),
            seconds=result.get("latencyMs", math.nan) / 1000.0,
            prompt=f"{(result.get('prompt') or {}).get('raw', '')}" if texts else "",
            answer=_text(response.get("output", result.get("error", ""))) if texts else "",
        )


def _scores(result: Mapping[str, Any]) -> dict[str, float]:
    named = {name: number_of(value) for name, value in (result.get("namedScores") or {}).items()}
    scores = {"pass": number_of(result.get("success")), "score": number_of(result.get("score")), **named}
    return {name: value for name, value in scores.items() if value is not None}


def _label(result: Mapping[str, Any]) -> str:
    prompt = result.get("prompt") or {}
    return f"{prompt.get('label') or prompt.get('display') or ''}"


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
