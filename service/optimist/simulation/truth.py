"""The true scores of the generators, from which regret is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimist.estimation.question import Question
from optimist.local.single import score
from optimist.numerics.estimate import natural
from optimist.simulation.sources.base import Draw, Source
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.tolerance import share_of

SAMPLES = 20_000
"""Number of samples drawn from an unlimited source whose score has no closed form."""


@dataclass(frozen=True, slots=True)
class TrueScore:
    """A generator's true score on the natural scale, and a text that says how it was obtained."""

    score: float
    origin: str


def true_score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    """The score in closed form if there is one, else the de-biased estimate from all samples with the given kernels.

    From an unlimited source `SAMPLES` samples are drawn, separate from all trials. Raises FixError, naming the
    source, if its samples cannot be scored.
    """
    exact = source.exact(question)
    if exact is not None:
        return TrueScore(natural(exact, question.metric.scale, question.metric.floor), "closed form")
    count = SAMPLES if source.samples is None else source.samples
    rows = source.stream(Draw(seed, None, name, shuffle=source.samples is None)).take(count)
    assert rows is not None
    try:
        estimate = score(rows, question.metric)
    except (ValueError, ArithmeticError) as error:
        raise FixError(f"{source.origin}: {error}") from None
    return TrueScore(estimate.score, f"de-biased, {'' if source.samples is None else 'all '}{count:,} samples")


def given_scores(given: Mapping[str, float], names: Mapping[str, Any], metric: Metric) -> dict[str, TrueScore]:
    """The true scores given by the caller. Raises FixError unless there is a valid one for each name and no other."""
    if set(given) != set(names):
        raise FixError(f"truth: expected scores of {', '.join(names)}; got {', '.join(given) or 'none'}")
    least = -math.inf if metric.scale == "linear" else 0.0
    wrong = {name: value for name, value in given.items() if not (math.isfinite(value) and value > least)}
    if wrong:
        name, value = next(iter(wrong.items()))
        raise FixError(f"truth: expected a finite score of {metric.name!r} for {name!r}, got {value}")
    return {name: TrueScore(float(given[name]), "given") for name in names}


def gaps(truth: Mapping[str, TrueScore], metric: Metric, tolerance: float | str) -> tuple[Any, Any]:
    """The difference between each generator's score and the best one (G,), ≥ 0, and whether it counts as best (G,).

    Gaps are on the natural scale, like the regret of the papers (equations.md §5); a `tolerance` that is a
    number is on the estimates'.
    """
    scores = np.array([each.score for each in truth.values()])
    behind = scores - scores.min() if metric.lower_is_better else scores.max() - scores
    share = share_of(tolerance)
    if metric.scale == "linear":
        best = scores.min() if metric.lower_is_better else scores.max()
        return behind, behind <= (tolerance if share is None else share * best)
    logs = np.log(scores)
    apart = logs - logs.min() if metric.lower_is_better else logs.max() - logs
    return behind, apart <= (tolerance if share is None else math.log1p(share))
