"""Lockstep elimination: generators of common seeds are sampled equally often until each is sure to be worse."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.policies.arms import Arm, prices
from optimist.policies.contrasts import contrasts_among
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping

UNRELATED = 0.25
"""Correlation ρ_L up to which two generators count as unrelated. Above it a contrast at unequal counts loses more than
unequal counts can save."""
POSTPONED = 0.5
"""An arm that is this close to the threshold, in standard errors, is sampled once only such ones are left."""


def lockstep(arms: Sequence[Arm], told: int, stopping: Stopping) -> int | None:
    """Position of the arm to sample: the one with the fewest samples, told and open, of the best and those in question.

    In question are the arms with fewer than `FEWEST_SAMPLES` samples, and those that are not beyond the threshold of
    the stopping rule less `POSTPONED`; if there are none, those that are not beyond the threshold. On a tie the
    cheapest arm comes first, where costs are weighed. None where nothing is in question, or an arm in question is
    unrelated to the best one. The pick is a function of the estimates and counts: an arm comes back when its contrast
    with the best one, which may be another by then, is no longer enough.
    """
    contrasts = contrasts_among(arms)
    best = contrasts.best
    rho = contrasts.against(best).rho
    if max(rho) <= UNRELATED:  # no rival can be related: this is cheap
        return None
    separations, threshold = stopping.separations(arms, "stopping"), stopping.threshold(len(arms), told)
    few = [estimate.samples < FEWEST_SAMPLES for estimate in contrasts.estimates]
    for enough in (threshold - POSTPONED, threshold):
        rivals = [i for i in range(len(arms)) if i != best and (few[i] or few[best] or separations[i] <= enough)]
        if rivals:
            break
    else:
        return None
    if min(rho[rival] for rival in rivals) <= UNRELATED:
        return None
    costs = prices(arms) or [0.0] * len(arms)
    return min(sorted([best, *rivals]), key=lambda i: (arms[i].samples + arms[i].pending_samples, costs[i]))
