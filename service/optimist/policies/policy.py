"""A policy of an experiment: first a warm-up, then generators without an estimate, then the policy's own rule.

The rules (rules/stopping.md) are functions (arms, told, draws) → position of the arm to sample. All arms that they get
are active and have an estimate, which `Policy` ensures. On a tie they choose the arm with the fewest samples, recorded
and pending, then the first (equations.md §3b). The rule top-two samples the leader and its hardest rival; generators
that share their seeds or prompts are sampled in `lockstep` instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from optimist.policies.arms import Arm, active_among, losses, optimistic, prices, ratio, selection_errors, sign
from optimist.policies.contrasts import Contrasts, contrasts_among
from optimist.policies.paired import UNRELATED, Errors
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping, fewest_of_leader, is_early

if TYPE_CHECKING:
    from optimist_client.metrics import Metric


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of a round of the policy with this seed: the same each time, with any numpy (NEP 19)."""

    seed: int
    round_: int

    def uniform(self) -> float:
        """A number from [0, 1)."""
        return np.random.default_rng((self.seed, self.round_)).random()

    def normals(self, count: int) -> list[float]:
        """`count` standard normal numbers."""
        return np.random.default_rng((self.seed, self.round_)).standard_normal(count).tolist()


def ucb(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best optimistic value (upper confidence bound), with intervals narrowed by the open picks."""
    return _least(_indices(arms, told), arms)


def greedy(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best value, ignoring uncertainty."""
    return _least(losses(arms), arms)


def uniform(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """Round robin: the fewest samples, recorded and pending."""
    return fewest_samples(arms)


def thompson(arms: Sequence[Arm], told: int, draws: Draws) -> int:
    """The best of one random draw per generator from value + sd_select·N(0, 1)."""
    noise = draws.normals(len(arms))
    scored = zip(arms, losses(arms), selection_errors(arms), noise, strict=True)
    return _least([value + error * arm.shrink * draw for arm, value, error, draw in scored], arms)


def fewest_samples(arms: Sequence[Arm]) -> int:
    """Position of the arm with the fewest samples, recorded and pending; on a tie, of the first one."""
    return min(range(len(arms)), key=lambda i: arms[i].all_samples)


def _indices(arms: Sequence[Arm], told: int) -> list[float]:
    by, indices = sign(arms), list[float]()
    for arm in arms:
        if arm.estimate is not None:
            value, end = by * arm.estimate.value, by * optimistic(arm.estimate, told)
            indices.append(value - abs(value - end) * arm.shrink)
    return indices


def _least(keys: Sequence[float], arms: Sequence[Arm]) -> int:
    return min(range(len(arms)), key=lambda i: (keys[i], arms[i].all_samples))


def lockstep(arms: Sequence[Arm], told: int, stopping: Stopping, postponed: float = 0.5) -> int | None:
    """Position of the arm to sample: the one with the fewest samples, recorded and open, of the best and those in
    question.

    In question are the arms with fewer than `FEWEST_SAMPLES` samples, and those that are not beyond the threshold of
    the stopping rule less `postponed` standard errors; if there are none, those that are not beyond the threshold; all,
    while the best one has fewer samples than it needs. On a tie the cheapest arm comes first, where costs are weighed.
    None where nothing is in question, or an arm in question is unrelated to the best one, unless people audit a judge:
    an audit is of the samples of one index of all arms in question. The pick is a function of the estimates and counts:
    an arm comes back when its contrast with the best one, which may be another by then, no longer suffices.
    """
    contrasts = contrasts_among(arms)
    best = contrasts.best
    rho, is_audited = contrasts.against(best).rho, contrasts.estimates[best].audited is not None
    if max(rho) <= UNRELATED and not is_audited:  # no rival can be related: this is cheap
        return None
    separations, threshold = stopping.separations(arms, "stopping"), stopping.threshold(len(arms), told)
    few = [is_early(estimate) for estimate in contrasts.estimates]
    few[best] |= contrasts.estimates[best].samples < fewest_of_leader(contrasts)
    for enough in (threshold - postponed, threshold):
        rivals = [i for i in range(len(arms)) if i != best and (few[i] or few[best] or separations[i] <= enough)]
        if rivals:
            break
    else:
        return None
    if min(rho[rival] for rival in rivals) <= UNRELATED and not is_audited:
        return None
    costs = prices(arms) or [0.0] * len(arms)
    return min(sorted([best, *rivals]), key=lambda i: (arms[i].all_samples, costs[i]))


def top_two(arms: Sequence[Arm], told: int, draws: Draws, stopping: Stopping) -> int:
    """Position of the arm to sample: the one of `lockstep`, if all arms that are still in question are related.

    Otherwise it is the leader with probability gain_l/(gain_l + gain_c), else the challenger.
    The challenger has the least ½ D_j₊²/Var(D_j) + log(picks_j), D_j its contrast with the leader. The gain of an arm
    is what another sample takes off that variance; sd² if the two are not paired. Once the stopping rule would stop
    with sd_select, sd_stop is used instead, and the leader is the best arm. This samples what still prevents the stop,
    first of all an arm with fewer samples than it needs.

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
        for index, fewest in ((fewest_samples(arms), FEWEST_SAMPLES), (contrasts.best, fewest_of_leader(contrasts))):
            if arms[index].all_samples < fewest:
                return index
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
        spent = max(1, arms[rival].all_batches)
        return fit + math.log(spent if costs is None else spent * costs[rival])

    challenger = min((*range(leader), *range(leader + 1, len(arms))), key=misfit)
    of_leader, of_challenger = variances[leader], variances[challenger]
    if kind == "stopping":
        of_leader, of_challenger = (
            part[challenger] * arms[index].shrink ** 2
            for part, index in ((against.own, leader), (against.each, challenger))
        )
    if against.rho[challenger] > 0.0:
        of_leader, of_challenger = gains(arms, contrasts, leader, challenger, kind)
    if costs is not None:
        of_leader, of_challenger = of_leader / costs[leader], of_challenger / costs[challenger]
    leads = draws.uniform() * (of_leader + of_challenger) < of_leader
    return leader if leads else challenger


def gains(arms: Sequence[Arm], contrasts: Contrasts, leader: int, challenger: int, kind: Errors) -> tuple[float, float]:
    """The reductions, by another sample of the leader and of the challenger, of the variance of their contrast.

    Both are to be paired. Open picks count as samples. The one with fewer has [(1 − ρ²) V]/n, the other one
    (√V − ρ √V_other)²/n, V the variance of a sample; the variance that is not from sampling is added.
    """
    rho = max(contrasts.against(leader).rho[challenger], 0.0)
    n = [arms[index].all_samples for index in (leader, challenger)]
    variances = [contrasts.variances(index, kind) for index in (leader, challenger)]
    deviations = [
        math.sqrt(sampled * contrasts.estimates[index].samples)
        for index, (sampled, _) in zip((leader, challenger), variances, strict=True)
    ]

    def gain(own: int) -> float:
        deviation, other = deviations[own], deviations[1 - own]
        is_shorter = n[own] < n[1 - own]
        part = (1.0 - rho * rho) * deviation**2 if is_shorter else (deviation - rho * other) ** 2
        return part / n[own] + variances[own][1]

    return gain(0), gain(1)


def warmup_batches(
    metric: type[Metric], bound: str, given: int | None = None, needed: int = 0, batch_size: int = 1
) -> int:
    """Batches per generator before the policy decides.

    They are `given`, or by default what rules/stopping.md has for the metric under bounds with standard errors, and one
    under the papers' bounds; and at least as many batches of `batch_size` as bring the samples `needed` to fix open
    kernels.
    """
    default = metric.warmup if metric.has_errors(bound) else 1
    return max(default if given is None else given, -(-needed // batch_size))


@dataclass(frozen=True, slots=True)
class Policy:
    """Chooses the next pick: a pure function of (arms, told, round, seed).

    `warmup` is in batches per generator. Random numbers depend only on (`seed`, round), so that a pick can be
    reproduced from the estimates that it was based on.
    """

    name: str
    warmup: int
    stopping: Stopping
    seed: int = 0

    def pick(self, arms: Sequence[Arm], told: int, round_: int) -> int:
        """Position in `arms` of the generator to sample in round `round_`, after `told` batches in total.

        Raises FixError if no arm is active.
        """
        active = active_among(arms)
        begun = {i: arms[i].all_batches for i in active}
        if min(begun.values()) < self.warmup:
            return min(active, key=begun.__getitem__)
        unknown = [i for i in active if arms[i].estimate is None]
        if unknown:
            return unknown[fewest_samples([arms[i] for i in unknown])]
        follow_top_two = partial(top_two, stopping=self.stopping)
        rules = {"top-two": follow_top_two, "ucb": ucb, "greedy": greedy, "uniform": uniform, "thompson": thompson}
        return active[rules[self.name]([arms[i] for i in active], told, Draws(self.seed, round_))]
