"""The gain of sending each prompt to the right model over the best single one, by the answers that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.evaluating.play import EvaluationResult
from optimist.routing.gain.reports import RouteReport, route_arrays
from optimist_client.chat.calls import text_of
from optimist_client.errors import FixError
from optimist_client.tolerance import share_of


def routed(result: EvaluationResult, contexts: NDArray[Any]) -> RouteReport | FixError:
    """The gain of routing the prompts that were answered, with dollars as costs; or why it is not known.

    contexts: embeddings (m, d) of all prompts, in their order. Where the cheapest model that is good enough is asked
    for, prompts go to the cheapest models that keep as much of the best single score.
    """
    names, ids = [*result.plan.models], [*result.questions]
    scores, dollars = (np.full((len(ids), len(names)), np.nan) for _ in range(2))
    for row_index, id in enumerate(ids):
        for column_index, name in enumerate(names):
            if (row := result.rows.get((name, id))) is not None:
                scores[row_index, column_index], dollars[row_index, column_index] = row.value, row.dollars
    answered = ~np.isnan(scores).all(1)
    arrays: dict[str, NDArray[Any]] = {
        "names": np.array(names),
        "contexts": np.asarray(contexts)[answered],
        "scores": scores[answered],
        "prompts": np.array([text_of(question.prompt) for question in result.questions.values()])[answered],
    }
    try:
        if untold := [name for name, column in zip(names, scores.T, strict=True) if np.isnan(column).all()]:
            raise FixError(f"no answers of {', '.join(untold)}")
        arrays["costs"] = np.nanmean(dollars, axis=0)
        return route_arrays(
            arrays, Path(result.plan.prompts), at_least=_kept(result, float(np.nanmean(scores, axis=0).max()))
        )
    except FixError as error:
        return error


def _kept(result: EvaluationResult, best: float) -> float | None:
    """The part of the best single score that a router is to keep; None where the best score is asked for."""
    allowed = result.plan.good_enough
    if allowed is None or best <= 0.0:
        return None
    share = share_of(allowed)
    return max(1e-9, 1.0 - (float(allowed) / best if share is None else share))
