"""One generator in the standings of a report, by the metric that decides or a watched one. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.policies import Arm, reports
from optimist.records import GeneratorState
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
    """The standing of an arm after `told` batches that count, with what the store knows of its generator.

    The other arguments are as of `policies.reports.standing_of`.
    """
    return reports.standing_of(
        arm,
        told,
        state=generator.state,
        warnings=warnings,
        damage=damage,
        damaged=bool(generator.aside_count),
        cost=cost,
        retracted=generator.retracted,
    )


def aside_warnings(generator: GeneratorState) -> list[str]:
    """A warning about the batches of a generator that cannot be read, if there are any."""
    if not generator.aside_count:
        return []
    positions = ", ".join(str(entry.seq) for entry in generator.aside[:3])
    return [f"batches that cannot be read are left out: {generator.aside_count}, as at position {positions}"]
