"""One generator in the standings of a report, by the metric that decides or a watched one. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimist.policies import Arm
from optimist.store import GeneratorState
from optimist_client.models import Standing


def standing_of(
    arm: Arm,
    generator: GeneratorState,
    told: int,
    *,
    warnings: Sequence[str] = (),
    damage: str | None = None,
    cost: float | None = None,
) -> Standing:
    """The standing of an arm after `told` batches that count.

    warnings: besides those of the estimate. damage: why the metric cannot score it. cost: of one sample.
    """
    estimate = arm.estimate
    error = lower = upper = bracket = None
    if estimate is not None:
        bracket = estimate.bracket and (estimate.natural(estimate.bracket[0]), estimate.natural(estimate.bracket[1]))
        lower, upper = _finite(estimate.natural(estimate.lower)), _finite(estimate.natural(estimate.upper))
        if estimate.stopping_error is not None:
            # On the log scale an error is relative: d exp(v) = exp(v) dv.
            error = estimate.stopping_error * (estimate.score if estimate.scale == "log" else 1.0)
    said = [*(estimate.warnings if estimate else ()), *warnings]
    said += [f"not scored: {damage}"] if damage else []
    return Standing(
        generator=arm.name,
        state=generator.state,
        score=_finite(estimate.score) if estimate else None,
        error=error,
        lower=lower,
        upper=upper,
        samples=arm.samples,
        batches=arm.batches,
        pick_ratio=arm.batches / told if told else 0.0,
        pending=arm.pending_samples,
        scored_samples=estimate.samples if estimate else 0,
        warnings=tuple(said),
        damaged=bool(generator.aside_count or damage),
        bracket=bracket,
        cost_per_sample=cost,
        cost=None if cost is None else cost * (arm.samples + generator.retracted),
    )


def aside_warnings(generator: GeneratorState) -> list[str]:
    """A warning about the batches of a generator that cannot be read, if there are any."""
    if not generator.aside_count:
        return []
    positions = ", ".join(str(entry.seq) for entry in generator.aside[:3])
    return [f"batches that cannot be read are left out: {generator.aside_count}, as at position {positions}"]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
