"""The true loss of every blend of some sources, and the weights of the least one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from optimist.estimation.question import Question
from optimist.numerics.programme import Floats, minimise
from optimist.simulation.asked import Asked
from optimist.simulation.sources import Draw, Source
from optimist.simulation.truth import SAMPLES
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class TrueBlends:
    """What is true of the blends of generators, in their order."""

    loss: Callable[[Floats], float]
    """The loss of weights (G,) on the metric's scale: the score where lower is better, else minus the score."""
    weights: Floats
    """Those of the least loss (G,)."""
    origin: str = "given"
    """A text that says how it was obtained."""


def checked_truth(truth: object, asked: Asked) -> TrueBlends | None:
    """The truth that a caller gave, if one was. Raises FixError unless it is of blends of these generators."""
    if truth is None:
        return None
    if not isinstance(truth, TrueBlends):
        raise FixError(f"truth: expected TrueBlends for the goal 'mixture', got {type(truth).__name__}")
    count = len(asked.sources)
    if len(truth.weights) != count:
        raise FixError(f"truth: expected the weights of {count} generators, got {len(truth.weights)}")
    return truth


def true_blends(sources: Mapping[str, Source], question: Question, seed: int) -> TrueBlends:
    """The de-biased loss by all samples of each source, with the given kernels, as mixtures compute it.

    From an unlimited source `SAMPLES` samples are drawn, separate from all trials. Raises FixError, naming the
    source, if its samples cannot be scored.
    """
    statistics = []
    bound, counts = None, []
    for name, source in sources.items():
        count = SAMPLES if source.samples is None else source.samples
        rows = source.stream(Draw(seed, None, name, shuffle=source.samples is None)).take(count)
        assert rows is not None
        own = question.own({array: torch.from_numpy(np.asarray(part, np.float64)) for array, part in rows.items()})
        if bound is None:
            bound = question.bound_for({array: part.shape[1] for array, part in own.items()})
        statistic = bound.statistic()
        try:
            statistic.update(*(own[array] for array in bound.metric.widths))
        except ValueError as error:
            raise FixError(f"{source.origin}: {error}") from None
        statistics.append(statistic)
        counts.append(count)
    assert bound is not None
    objective = bound.metric.objective(statistics)
    most, least = max(counts), min(counts)
    origin = f"de-biased, {f'{least:,} to ' * (least < most)}{most:,} samples of each"
    return TrueBlends(lambda weights: objective.analyse(weights).loss, minimise(objective), origin)
