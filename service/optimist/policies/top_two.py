"""top-two: samples the leader and its closest rival, to find the best generator fastest (decisions.md §3).

Generators that share their seeds or prompts are sampled in `lockstep` instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimist.policies.arms import Arm, prices, ratio
from optimist.policies.choices import fewest_samples, greedy, ucb
from optimist.policies.contrasts import Contrasts, contrasts_among
from optimist.policies.draws import Draws
from optimist.policies.lockstep import UNRELATED, lockstep
from optimist.policies.paired import Errors
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping


def top_two(arms: Sequence[Arm], told: int, draws: Draws, stopping: Stopping) -> int:
    """Position of the arm to sample: the one of `lockstep`, if all arms that are still in question are related.

    Otherwise it is the leader with probability gain_l/(gain_l + gain_c), else the challenger.
    The challenger has the least ½ D_j₊²/Var(D_j) + log(picks_j), D_j its contrast with the leader. The gain of an arm
    is what another sample takes off that variance; sd² if the two are not paired. Once the stopping rule would stop
    with sd_select, sd_stop is used instead, and the leader is the best arm. This samples what still prevents the stop,
    first of all an arm with fewer than `FEWEST_SAMPLES` samples.

    Where all arms have a cost c, and none is correlated with the leader, a gain is what a unit of cost takes off the
    variance, gain/c, and the challenger has the least ½ D_j₊²/Var(D_j) + log(c_j · picks_j). The samples of two arms
    are then in the ratio that is cheapest, (σ_l/σ_c)·√(c_c/c_l).
    """
    if len(arms) == 1:
        return 0
    together = lockstep(arms, told, stopping)
    if together is not None:
        return together
    contrasts = contrasts_among(arms)
    kind: Errors = "selection"
    if stopping.is_unblocked(arms, told):
        rarest = fewest_samples(arms)
        if arms[rarest].samples + arms[rarest].pending_samples < FEWEST_SAMPLES:
            return rarest
        leader, best, kind = greedy(arms, told, draws), contrasts.best, "stopping"
        if contrasts.losses[leader] != contrasts.losses[best]:
            leader = best
    else:
        leader = ucb(arms, told, draws)
    variances = [(error * arm.shrink) ** 2 for arm, error in zip(arms, contrasts.errors_of(kind), strict=True)]
    against = contrasts.against(leader)
    differences, reductions = against.differences, against.reductions(kind)
    costs = prices(arms) if max(against.rho) <= UNRELATED else None

    def misfit(rival: int) -> float:
        gap = max(differences[rival], 0.0)
        fit = ratio(gap**2, 2.0 * ((variances[rival] + variances[leader]) * reductions[rival]))
        spent = max(1, arms[rival].batches + arms[rival].pending_batches)
        return fit + math.log(spent if costs is None else spent * costs[rival])

    challenger = min((rival for rival in range(len(arms)) if rival != leader), key=misfit)
    of_leader, of_challenger = variances[leader], variances[challenger]
    if kind == "stopping":
        of_leader, of_challenger = (
            part[challenger] * arms[place].shrink ** 2
            for part, place in ((against.own, leader), (against.each, challenger))
        )
    if against.rho[challenger] > 0.0:
        of_leader, of_challenger = gains(arms, contrasts, leader, challenger, kind)
    if costs is not None:
        of_leader, of_challenger = of_leader / costs[leader], of_challenger / costs[challenger]
    leads = draws.uniform() * (of_leader + of_challenger) < of_leader
    return leader if leads else challenger


def gains(arms: Sequence[Arm], contrasts: Contrasts, leader: int, challenger: int, kind: Errors) -> tuple[float, float]:
    """What another sample of the leader, and of the challenger, would take off the variance of their contrast.

    Both are to be paired. Open picks count as samples. The one with fewer has [(1 − ρ²) V]/n, the other one
    (√V − ρ √V_other)²/n, V the variance of a sample; the variance that is not from sampling is added.
    """
    rho = max(contrasts.against(leader).rho[challenger], 0.0)
    n = [arms[place].samples + arms[place].pending_samples for place in (leader, challenger)]
    one = [contrasts.variances(place, kind) for place in (leader, challenger)]
    deviations = [
        math.sqrt(sampled * contrasts.estimates[place].samples)
        for place, (sampled, _) in zip((leader, challenger), one, strict=True)
    ]

    def gain(own: int) -> float:
        deviation, other = deviations[own], deviations[1 - own]
        is_shorter = n[own] < n[1 - own]
        part = (1.0 - rho * rho) * deviation**2 if is_shorter else (deviation - rho * other) ** 2
        return part / n[own] + one[own][1]

    return gain(0), gain(1)
