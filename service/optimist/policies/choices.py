"""The index policies of decisions.md §3, each a function (arms, told, draws) → position of the arm to sample.

All arms must be active and have an estimate; `policy.Policy` ensures this. On a tie they choose the arm with the fewest
samples (told and pending), then the first (equations.md §3b).
"""

from __future__ import annotations

from collections.abc import Sequence

from optimist.policies.arms import Arm, losses, optimistic, selection_errors, sign
from optimist.policies.draws import Draws


def ucb(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best optimistic value (upper confidence bound), with intervals narrowed by the open picks."""
    del draws
    return _least(_indices(arms, told), arms)


def greedy(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best value, ignoring uncertainty."""
    del told, draws
    return _least(losses(arms), arms)


def uniform(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """Round robin: the fewest samples, told and pending."""
    del told, draws
    return fewest_samples(arms)


def thompson(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best of one random draw per generator from value + sd_select·N(0, 1)."""
    del told
    noise = draws.normals(len(arms))
    known = zip(arms, losses(arms), selection_errors(arms), noise, strict=True)
    return _least([value + error * arm.shrink * draw for arm, value, error, draw in known], arms)


def fewest_samples(arms: Sequence[Arm]) -> int:
    """Position of the arm with the fewest samples, told and pending; on a tie, of the first one."""
    return min(range(len(arms)), key=lambda i: arms[i].samples + arms[i].pending_samples)


def _indices(arms: Sequence[Arm], told: int) -> list[float]:
    by = sign(arms)
    ends = [by * optimistic(arm.estimate, told) for arm in arms if arm.estimate is not None]
    return [value - abs(value - end) * arm.shrink for arm, value, end in zip(arms, losses(arms), ends, strict=True)]


def _least(keys: Sequence[float], arms: Sequence[Arm]) -> int:
    return min(range(len(arms)), key=lambda i: (keys[i], arms[i].samples + arms[i].pending_samples))
