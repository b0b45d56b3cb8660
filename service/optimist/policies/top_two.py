"""top-two: samples the leader and its closest rival, to find the best generator fastest (decisions.md §3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimist.policies.arms import Arm, losses, ratio, selection_errors, stopping_errors
from optimist.policies.choices import Rng, fewest_samples, greedy, ucb
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping


def top_two(arms: Sequence[Arm], told: int, rng: Rng, stopping: Stopping) -> int:
    """Position of the arm to sample: the leader with probability sd_l²/(sd_l² + sd_c²), else the challenger.

    The challenger has the least ½ (e_j − e_l)₊²/(sd_j² + sd_l²) + log(picks_j). Once the stopping rule would stop with
    sd_select, sd_stop is used instead, and the leader is the best estimate. This samples what still prevents the
    stop, first of all an arm with fewer than `FEWEST_SAMPLES` samples.
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
    variances = [(error * arm.shrink) ** 2 for arm, error in zip(arms, errors, strict=True)]
    values = losses(arms)

    def cost(rival: int) -> float:
        gap = max(values[rival] - values[leader], 0.0)
        fit = ratio(gap**2, 2.0 * (variances[rival] + variances[leader]))
        return fit + math.log(max(1, arms[rival].batches + arms[rival].pending_batches))

    challenger = min((rival for rival in range(len(arms)) if rival != leader), key=cost)
    leads = rng().random() * (variances[leader] + variances[challenger]) < variances[leader]
    return leader if leads else challenger
