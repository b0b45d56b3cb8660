"""top-two: sample the leader and the rival hardest to tell from it, to name a winner soonest (decisions.md §3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimist.policies.arms import Arm, losses, selection_errors, shrinks, stopping_errors
from optimist.policies.choices import fewest_samples, greedy, ucb
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping


def top_two(arms: Sequence[Arm], told: int, rng: np.random.Generator, stopping: Stopping) -> int:
    """Position of the arm to sample: the leader with probability sd_l²/(sd_l² + sd_c²), else the challenger.

    The challenger has the least ½ (e_j − e_l)₊²/(sd_j² + sd_l²) + log(picks_j). Once the answer would be sure by
    sd_select, sd_stop takes its place and the leader is the best estimate, so that what blocks the stop is sampled:
    first of all an arm with too few samples to stop at all.
    """
    if len(arms) == 1:
        return 0
    if stopping.is_unblocked(arms, told):
        rarest = fewest_samples(arms)
        if arms[rarest].samples + arms[rarest].pending_samples < FEWEST_SAMPLES:
            return rarest
        leader, errors = greedy(arms, told, rng), stopping_errors(arms)
    else:
        leader, errors = ucb(arms, told, rng), selection_errors(arms)
    variances = (errors * shrinks(arms)) ** 2
    values = losses(arms)
    picks = np.array([max(1, arm.batches + arm.pending_batches) for arm in arms])
    cost = np.maximum(values - values[leader], 0.0) ** 2 / (2.0 * (variances + variances[leader])) + np.log(picks)
    cost[leader] = np.inf
    challenger = int(np.argmin(cost))
    leads = rng.random() * (variances[leader] + variances[challenger]) < variances[leader]
    return leader if leads else challenger
