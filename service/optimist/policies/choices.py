"""The index policies of decisions.md §3, each a function (arms, told, rng) → position of the arm to sample.

All arms passed in are active and have an estimate: `policy.Policy` sees to it. Ties go to the arm with the fewest
samples told and pending, then to the first (equations.md §3b).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimist.policies.arms import Arm, Floats, losses, optimistic, selection_errors, shrinks, sign


def ucb(arms: Sequence[Arm], told: int, rng: np.random.Generator) -> int:
    """Optimism in the face of uncertainty: the best end of the interval, narrowed by what is on its way."""
    del rng
    return _least(_indices(arms, told), arms)


def greedy(arms: Sequence[Arm], told: int, rng: np.random.Generator) -> int:
    """The best value, uncertainty ignored."""
    del told, rng
    return _least(losses(arms), arms)


def uniform(arms: Sequence[Arm], told: int, rng: np.random.Generator) -> int:
    """Round robin: the fewest samples told and pending."""
    del told, rng
    return fewest_samples(arms)


def thompson(arms: Sequence[Arm], told: int, rng: np.random.Generator) -> int:
    """The best of one draw a generator from value + sd_select·N(0, 1)."""
    del told
    draws = losses(arms) + selection_errors(arms) * shrinks(arms) * rng.standard_normal(len(arms))
    return _least(draws, arms)


def fewest_samples(arms: Sequence[Arm]) -> int:
    """Position of the arm with the fewest samples told and pending, the first of them on a tie."""
    return min(range(len(arms)), key=lambda i: arms[i].samples + arms[i].pending_samples)


def _indices(arms: Sequence[Arm], told: int) -> Floats:
    ends = np.array([optimistic(arm.estimate, told) for arm in arms if arm.estimate is not None])
    values = losses(arms)
    return values - np.abs(values - sign(arms) * ends) * shrinks(arms)


def _least(keys: Floats, arms: Sequence[Arm]) -> int:
    return min(range(len(arms)), key=lambda i: (keys[i], arms[i].samples + arms[i].pending_samples))
