"""The wait of a decision for answers that are on their way, where scores go with the time that an answer takes.

Answers on their way are then unlike those that have been told: the slow answers of a generator are open while its quick
ones count. So once the stopping rule is satisfied no picks are opened, those that are open are waited for, and the rule
looks again at estimates of all that was told. Every pick is waited for a limited time after it was opened, whoever
renews its lease. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimist.estimates.timing import Timing
from optimist.policies import Arm
from optimist.records import OpenPick
from optimist_client.models import Pick

PATIENCE = 100.0
"""Times the median time of as many samples of its generator for which a pick is waited for. Answers of which one in a
hundred takes longer than that have a mean that few samples cannot show."""


def waits_until(pick: Pick, leased: OpenPick, lease: float, timing: Timing | None) -> float:
    """When an open pick is no longer waited for, in Unix seconds: `PATIENCE` after it was opened, and not after its
    lease, as it was at first and as it is now. lease: in seconds."""
    # A process, or a network, may pause for a second, however quick answers are.
    longest = lease if timing is None else min(lease, max(1.0, PATIENCE * timing.pace * pick.size))
    return min(leased.opened + longest, leased.deadline)


def waiting_text(awaited: Mapping[str, int], may_be_slow: bool = True) -> str:
    """The wait of a decision: these batches on their way, by generator, or else the estimates."""
    if not awaited:
        return "it waits for estimates of all that was told"
    return f"it waits for {_batches(awaited)} on their way{', which may be slow answers' if may_be_slow else ''}"


def missing_text(missing: Mapping[str, int]) -> str:
    """The warning about picks without a batch, by generator."""
    return (
        f"answers are missing, perhaps the slowest: {_batches(missing)} given up, or not sent within the lease or "
        f"{PATIENCE:g} times the usual time"
    )


def censored_warnings(arms: Sequence[Arm], best: str | None) -> tuple[str, ...]:
    """A warning where values that are only known to be at least what was told might change which generator is best.

    Their true mean is higher than what is shown. Where lower is better this speaks against the generator itself, so
    that only values of the best one matter; where higher is better it speaks for it, so that only values of others
    matter.
    """
    doubtful = {
        arm.name: arm.estimate.censored
        for arm in arms
        if arm.estimate is not None and arm.estimate.censored and (arm.name == best) == arm.estimate.lower_is_better
    }
    if best is None or not doubtful:
        return ()
    named = ", ".join(f"{count:,} of {name}" for name, count in doubtful.items())
    return (f"values were cut off ({named}): {best} is best by the values as sent; the true ones may say otherwise",)


def _batches(counts: Mapping[str, int]) -> str:
    named = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
    total = sum(counts.values())
    return f"{total:,} batch{'' if total == 1 else 'es'} ({named})"
