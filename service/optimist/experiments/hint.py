"""What would decide an experiment that has been undecided for long."""

from __future__ import annotations

import math
from dataclasses import replace

from optimist.experiments.goals.goal import ForBest
from optimist.experiments.state import PolicyState
from optimist.policies import explained, rivals
from optimist_client.models import DecisionInfo
from optimist_client.models.decisions import ClosestRival, about

MANY = 10
"""Generators from which on the best and its neighbours, such as checkpoints, are often too close to be told apart."""
RECOMMENDED = "1% is recommended, because training a model again moves its FID by 1 to 2%"


def hint_of(state: PolicyState, decision: DecisionInfo, after: int | None) -> str | None:
    """What would end an undecided experiment of at least `after` samples; None otherwise, or if nothing is known."""
    if after is None or state.samples < after or decision.decided:
        return None
    found = state.goal.deciding_tolerance(state.arms, state.stored.told)
    if decision.closest is None and (found is None or state.goal.mixture is None):
        return None
    said = [f"Undecided after {state.samples:,} samples."]
    if found is not None:
        said.append(
            f"A tolerance of {_rounded_up(state, *found)} would decide it now; it is set when an experiment is created "
            f"({RECOMMENDED})."
        )
    if decision.closest is not None:
        said.append(_more(decision.closest))
    said += _with_tolerance(state)
    if not state.has_ended and state.max_cost is None:
        said.append(f"Its budget is {state.budget:,} samples." if state.budget else "A budget would end it undecided.")
    return " ".join(said)


def _more(closest: ClosestRival) -> str:
    if closest.more_samples is None:
        return "How many more samples would decide it cannot be said: the difference may be too small."
    return f"{about(closest.more_samples)} more samples would decide it."


def _with_tolerance(state: PolicyState) -> list[str]:
    """Of many generators without a tolerance: the samples that a decision would take with the one that is usual."""
    goal, contenders = state.goal, rivals(state.arms)
    if not isinstance(goal, ForBest) or goal.stopping.tolerance or not state.config.metric.positive:
        return []
    tolerant = replace(goal.policy, stopping=replace(goal.stopping, tolerance="1%"))
    closest = explained(tolerant, contenders, state.stored.told).closest if len(contenders) >= MANY else None
    if closest is None or closest.more_samples is None:
        return []
    more = about(closest.more_samples).lower()
    return [f'Neighbours are nearly tied: with tolerance="1%" {more} more samples would decide it.']


def _rounded_up(state: PolicyState, tolerance: float, value: float) -> str:
    """The tolerance to two digits, as a share of this value where the metric allows it."""
    if state.config.metric.scale == "log":
        share = math.expm1(min(tolerance, 700.0))
    else:
        share = tolerance / value if value > 0.0 else math.inf
    is_share = state.config.metric.positive and share < 0.995
    number = 100.0 * share if is_share else tolerance
    step = 10.0 ** (math.floor(math.log10(number)) - 1) if number > 0.0 else 1.0
    text = f"{math.ceil(number / step * (1.0 + 1e-9)) * step:.2g}"
    return f"{text}%" if is_share else text
