"""The gate: whether one generator is at least as good as another one, but for a margin (rules/limits.md). No torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from optimist.estimates.estimate import Estimate
from optimist.policies.limits import Margins, gate, margins_of, threshold
from optimist_client.errors import FixError
from optimist_client.limits import Limit
from optimist_client.metrics import Metric
from optimist_client.models import Gate
from optimist_client.models.decisions import LimitVerdict

_CANDIDATE, _BASELINE = "candidate", "baseline"
"""The names of the two while they are compared: names of files may be longer than generators' names."""
_NONE = np.zeros(2, bool)


class GateSides(NamedTuple):
    """The sides of a gate by one metric: the estimates of the candidate and the baseline, None without one."""

    metric: Metric
    candidate: Estimate | None
    baseline: Estimate | None


def gate_of(
    candidate: str,
    baseline: str,
    compared: Mapping[str, GateSides],
    margins: Mapping[str, float | str],
    delta: float,
    told: int | None,
) -> Gate:
    """The answer whether the candidate is at least as good as the baseline by all these metrics, but for their margins.

    compared, margins: by the labels of metrics. told: batches, at each of which somebody may have looked; None: this is
    the only look. Raises FixError for a label that is not compared, for a share of a score that is not above 0, and
    where both are the same generator.
    """
    if candidate == baseline:
        raise FixError(f"expected two different generators, got {candidate!r} twice")
    if unknown := [label for label in margins if label not in compared]:
        raise FixError(f"margin: unknown metric {unknown[0]!r}; expected {' or '.join(compared)}")
    asked = {label: compared[label] for label in margins}
    for label, sides in asked.items():
        score = None if sides.baseline is None or sides.metric.positive else sides.baseline.score
        if isinstance(margins[label], str) and score is not None and score <= 0.0:
            raise FixError(
                f"margin: {margins[label]} of {baseline}'s score of {score:g} means nothing; expected a number"
            )
    margins_by_metric = [
        margins_of(
            Limit("generator", margins[label], _BASELINE),
            (_CANDIDATE, _BASELINE),
            (sides.candidate, sides.baseline),
            sides.metric.limits.get("values"),
        )
        for label, sides in asked.items()
    ]
    answer = gate(margins_by_metric, 0, delta, told)
    of_no = threshold(delta, len(margins_by_metric), told)
    of_yes = threshold(delta, 1, told) if answer == "yes" else of_no
    named = {"generator": candidate, "against": baseline}
    estimates = [sides for each in asked.values() for sides in (each.candidate, each.baseline) if sides is not None]
    samples, units = min((sides.units for sides in estimates), default=(0, "samples"))
    if units == "samples":
        units = "pairs" if any(sides.pairing is not None for sides in estimates) else "samples of each"
    return Gate(
        candidate=candidate,
        baseline=baseline,
        answer=answer,
        verdicts=[
            _verdict(label if len(asked) > 1 else "", sides.metric, each, (of_yes, of_no)).model_copy(
                update={**named, "limit": f"within {margins[label]} of {baseline}"}
            )
            for (label, sides), each in zip(asked.items(), margins_by_metric, strict=True)
        ],
        samples=samples,
        units=units,
        delta=delta,
        warnings=(*dict.fromkeys(_warnings(candidate, baseline, asked.values())),),
    )


def _verdict(label: str, metric: Metric, margins: Margins, quantiles: tuple[float, float]) -> LimitVerdict:
    """The verdict by one metric. quantiles: for a margin that is met, and for one that is not."""
    is_met, is_missed = margins.accepted(quantiles[0], _NONE)[0], margins.refused(quantiles[1])[0]
    (_, upper), (lower, _) = (margins.ends(z, _NONE)[0][0].tolist() for z in quantiles)
    numbers = {"value": margins.values[0, 0], "lower": lower, "upper": upper, "allowed": margins.allowed[0, 0]}
    finite: dict[str, Any] = {name: float(number) for name, number in numbers.items() if math.isfinite(number)}
    return LimitVerdict(
        generator=_CANDIDATE,
        label=label,
        title=metric.shown_title,
        limit=f"{margins.limit}",
        verdict="met" if is_met else "not met" if is_missed else "open",
        scale=metric.scale,
        **finite,
    )


def _warnings(candidate: str, baseline: str, compared: Iterable[GateSides]) -> Iterable[str]:
    for sides in compared:
        for name, estimate in ((candidate, sides.candidate), (baseline, sides.baseline)):
            yield from (f"{name}: {warning}" for warning in (() if estimate is None else estimate.warnings))
