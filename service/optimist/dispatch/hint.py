"""What would decide an experiment that has been undecided for long."""

from __future__ import annotations

import math

from optimist.dispatch.state import PolicyState
from optimist.policies import deciding_tolerance
from optimist_client.models import DecisionInfo
from optimist_client.models.decisions import about

RECOMMENDED = "1% is recommended, because training a model again moves its FID by 1 to 2%"


def hint_of(state: PolicyState, decision: DecisionInfo, after: int | None) -> str | None:
    """What would end an undecided experiment of at least `after` samples; None otherwise, and without verdicts."""
    if after is None or state.samples < after or decision.decided or decision.closest is None:
        return None
    said = [f"Undecided after {state.samples:,} samples."]
    if (tolerance := deciding_tolerance(state.policy, state.rivals, state.stored.told)) is not None:
        said.append(
            f"A tolerance of {_rounded_up(state, decision, tolerance)} would decide it now; it is set when an "
            f"experiment is created ({RECOMMENDED})."
        )
    if decision.closest.more_samples is None:
        said.append("How many more samples would decide it cannot be said: the difference may be too small.")
    else:
        said.append(f"{about(decision.closest.more_samples)} more samples would decide it.")
    if not state.has_ended and state.max_cost is None:
        said.append(f"Its budget is {state.budget:,} samples." if state.budget else "A budget would end it undecided.")
    return " ".join(said)


def _rounded_up(state: PolicyState, decision: DecisionInfo, tolerance: float) -> str:
    """The tolerance to two digits, as a share of the best score where the metric allows it."""
    if state.config.kind.scale == "log":
        share = math.expm1(min(tolerance, 700.0))
    else:
        best = next(arm.estimate.value for arm in state.rivals if arm.estimate and arm.name == decision.best)
        share = tolerance / best if best > 0.0 else math.inf
    is_share = state.config.declared.positive and share < 0.995
    number = 100.0 * share if is_share else tolerance
    step = 10.0 ** (math.floor(math.log10(number)) - 1) if number > 0.0 else 1.0
    text = f"{math.ceil(number / step * (1.0 + 1e-9)) * step:.2g}"
    return f"{text}%" if is_share else text
