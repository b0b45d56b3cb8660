"""The index policies of decisions.md §3, each a function (arms, told, rng) → position of the arm to sample.

All arms passed in are active and have an estimate: `policy.Policy` sees to it. Ties go to the arm with the fewest
samples told and pending, then to the first (equations.md §3b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optimist.policies.arms import Arm, losses, optimistic, selection_errors, sign

Rng = Callable[[], np.random.Generator]
"""Makes a round's random numbers, for those rules alone that draw any: it costs as much as all else of a pick."""


def ucb(arms: Sequence[Arm], told: int, rng: Rng) -> int:
    """Optimism in the face of uncertainty: the best end of the interval, narrowed by what is on its way."""
    del rng
    return _least(_indices(arms, told), arms)


def greedy(arms: Sequence[Arm], told: int, rng: Rng) -> int:
    """The best value, uncertainty ignored."""
    del told, rng
    return _least(losses(arms), arms)


def uniform(arms: Sequence[Arm], told: int, rng: Rng) -> int:
    """Round robin: the fewest samples told and pending."""
    del told, rng
    return fewest_samples(arms)


def thompson(arms: Sequence[Arm], told: int, rng: Rng) -> int:
    """The best of one draw a generator from value + sd_select·N(0, 1)."""
    del told
    noise = rng().standard_normal(len(arms)).tolist()
    known = zip(arms, losses(arms), selection_errors(arms), noise, strict=True)
    return _least([value + error * arm.shrink * draw for arm, value, error, draw in known], arms)


def fewest_samples(arms: Sequence[Arm]) -> int:
    """Position of the arm with the fewest samples told and pending, the first of them on a tie."""
    return min(range(len(arms)), key=lambda i: arms[i].samples + arms[i].pending_samples)


def _indices(arms: Sequence[Arm], told: int) -> list[float]:
    by = sign(arms)
    ends = [by * optimistic(arm.estimate, told) for arm in arms if arm.estimate is not None]
    return [value - abs(value - end) * arm.shrink for arm, value, end in zip(arms, losses(arms), ends, strict=True)]


def _least(keys: Sequence[float], arms: Sequence[Arm]) -> int:
    return min(range(len(arms)), key=lambda i: (keys[i], arms[i].samples + arms[i].pending_samples))
