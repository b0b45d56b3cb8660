"""The reasons of a decision: a verdict for each rival, the hardest one, and the samples that are still needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimist.arrays import Bools, Floats
from optimist.estimates.clusters import clusters_to_decide
from optimist.estimates.prompted import differing
from optimist.policies.arms import Arm
from optimist.policies.contrasts import contrasts_among
from optimist.policies.policy import Policy
from optimist.policies.stopping import FEWEST_SAMPLES, Decision, fewest_of_leader, is_early, rarer_than
from optimist_client.models.decisions import HardestRival, Verdict, VerdictCode

ERRORS = 2.0 / 3.0
"""Standard errors by which the differences are assumed larger and smaller for the range of samples still needed. About
7 of 10 simulated runs end within the range (rules/stopping.md)."""
WIDEST = 100.0
"""Nothing is said about the samples that are needed if the ends of the range differ by a larger factor."""
_SPLITS = np.linspace(0.98, 0.02, 49)
"""Parts of the allowed variance that the best arm may have; the cheapest one is taken."""


_quietly = np.errstate(over="ignore", divide="ignore", invalid="ignore")


@_quietly
def explained(policy: Policy, arms: Sequence[Arm], told: int) -> Decision:
    """The decision on these contenders after `told` batches, with its verdicts and the hardest rival if it has any."""
    decision = policy.stopping.decide(arms, told)
    if decision.best is not None and contrasts_among(arms).are_strict:
        return replace(decision, verdicts=_by_intervals(policy, arms))
    if decision.confidence is None:
        return decision
    state = _Rivals(policy, arms, told)
    return replace(decision, verdicts=state.verdicts(), hardest=state.hardest(decision.decided))


def _by_intervals(policy: Policy, arms: Sequence[Arm]) -> tuple[Verdict, ...]:
    """The verdict on every rival by intervals that all hold at once, in the order of the arms."""
    contrasts, tolerated = contrasts_among(arms), policy.stopping.tolerated(arms)
    worse, better = contrasts.ends
    best = contrasts.best

    def code(rival: int) -> VerdictCode:
        if better[rival] > worse[best]:
            return "worse"
        return "equal" if worse[rival] - better[best] <= tolerated else "close"

    rivals = (index for index in range(len(arms)) if index != best)
    return tuple(Verdict(generator=arms[rival].name, verdict=code(rival)) for rival in rivals)


@_quietly
def deciding_tolerance(policy: Policy, arms: Sequence[Arm], told: int) -> float | None:
    """The tolerance on the estimates' scale above which the decision would be made now; None if none is enough."""
    if policy.stopping.decide(arms, told).confidence is None:
        return None
    state = _Rivals(policy, arms, told)
    tolerance = float((state.needed * state.errors - state.differences).max())
    return tolerance if math.isfinite(tolerance) and state.is_reliable.all() else None


class _Rivals:
    """The best arm compared with all others after `told` batches. Every arm must have an estimate.

    Arrays are of the arms (G,), where a comment does not say that they are of the rivals (G − 1,).
    """

    def __init__(self, policy: Policy, arms: Sequence[Arm], told: int) -> None:
        self.policy, self.arms, self.told = policy, arms, told
        self.contrasts = contrasts_among(arms)
        self.best = self.contrasts.best
        self.against = self.contrasts.against(self.best)
        self._is_rival = np.arange(len(arms)) != self.best
        self.deviations = np.array(self.contrasts.stopping_errors)
        self.differences = self._rivals(np.array(self.against.differences))  # of the rivals
        self.reductions = self._rivals(np.array(self.against.stopping_reductions))  # of the rivals
        errors = np.hypot(self._rivals(self.deviations), self.deviations[self.best])
        self.errors = errors * np.sqrt(self.reductions)  # of the rivals
        self.tolerated = policy.stopping.tolerated(arms)
        self.needed = policy.stopping.threshold(len(arms), told)
        self.scored = np.array([float(estimate.samples) for estimate in self.contrasts.estimates])
        """Samples behind each estimate."""
        of_leader = fewest_of_leader(self.contrasts)
        self.fewest = np.where(self._is_rival, FEWEST_SAMPLES, max(FEWEST_SAMPLES, of_leader))
        """Samples that each estimate needs for a decision."""
        is_enough = self._is_rival | (self.scored >= of_leader)
        self.is_reliable = is_enough & [not is_early(estimate) for estimate in self.contrasts.estimates]
        """A mask of the estimates that suffice for a decision."""

    def _rivals(self, of_arms: Floats) -> Floats:
        return of_arms[self._is_rival]

    @property
    def _names(self) -> list[str]:
        return [arm.name for index, arm in enumerate(self.arms) if index != self.best]

    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on every rival, in the order of the arms; "close" while one of the two has few samples."""
        reliable = self.is_reliable[self._is_rival] & self.is_reliable[self.best]
        margins = self.needed * self.errors
        exactly = np.array(self.contrasts.are_equal(self.best))[self._is_rival]
        worse = reliable & (self.differences > margins) & ~exactly
        equal = (reliable & (self.differences + margins <= self.tolerated)) | exactly
        codes = np.where(worse, "worse", np.where(equal, "equal", "close")).tolist()
        return tuple(Verdict(generator=name, verdict=code) for name, code in zip(self._names, codes, strict=True))

    def hardest(self, decided: bool) -> HardestRival | None:
        """The contrast with the rival that the stopping rule looks at; None if its error is not known yet, and where
        all scores are exact."""
        separations = self.policy.stopping.separations(self.arms, "stopping")
        if all(estimate.is_exact for estimate in self.contrasts.estimates):
            return None
        index = int(self._rivals(np.array(separations)).argmin())
        if not math.isfinite(self.errors[index]):
            return None
        more_prompts = None if decided else self.more_prompts(int(np.flatnonzero(self._is_rival)[index]))
        return HardestRival(
            generator=self._names[index],
            difference=float(self.differences[index]),
            standard_error=float(self.errors[index]),
            tolerance=self.tolerated,
            needed=self.needed,
            more_samples=None if decided or more_prompts else self.more_samples(),
            holds_until=self.policy.stopping.holds_until,
            rarer=rarer_than(self.contrasts),
            more_prompts=more_prompts,
            more_audits=None if decided else self.more_audits(),
        )

    def more_audits(self) -> tuple[int, int] | None:
        """The prompts that people have to score for a decision, as `more_samples` has the samples. None where they
        audit no judge.

        The variance of a difference falls as 1/n of its audits.
        """
        audits = [estimate.units[0] for estimate in self.contrasts.estimates if estimate.audited]
        if not audits or not np.isfinite(self.errors).all():
            return None
        n, ends, gaps = min(audits), list[int](), self.differences + self.tolerated
        for assumed in (gaps + ERRORS * self.errors, gaps - ERRORS * self.errors):
            with np.errstate(divide="ignore"):
                times = float(np.square(self.needed * self.errors / np.maximum(assumed, 0.0)).max())
            if not math.isfinite(times):
                return None
            ends.append(max(math.ceil(n * (times - 1.0)), FEWEST_SAMPLES - n, 0))
        low, high = ends
        return (low, high) if high <= WIDEST * max(low, FEWEST_SAMPLES) else None

    def more_prompts(self, index: int) -> int | None:
        """The further prompts that would decide between the best and this rival, where more samples of the present ones
        will not; None where they may.

        index: among the arms.
        """
        own, other = (self.contrasts.estimates[at].prompted for at in (self.best, index))
        if own is None or other is None or own.kind != "sample":
            return None
        contrast = differing(other, own)
        if not contrast.lasting > 0.5 * contrast.parts.total:
            return None
        difference = self.against.differences[index] + self.tolerated
        needed = clusters_to_decide(difference, contrast.parts.total, contrast.clusters, self.needed)
        return needed if needed is not None and needed > own.length - contrast.clusters else None

    def more_samples(self) -> tuple[int, int] | None:
        """The samples that a decision takes if all differences are `ERRORS` errors larger, and if they are smaller.

        sd_stop² of each generator falls as 1/n. None if the larger number is unbounded or says nothing, and where
        people audit a judge, so that samples alone do not decide.
        """
        samples = sum(arm.samples for arm in self.arms)
        if any(estimate.audited for estimate in self.contrasts.estimates):
            return None
        if not samples or not np.isfinite(self.deviations).all():
            return None
        left = self._left_of_list()
        gaps, ends = self.differences + self.tolerated, list[float]()
        for assumed in (gaps + ERRORS * self.errors, gaps - ERRORS * self.errors):
            more = 0.0
            for _ in range(3):  # the threshold grows with log t
                batches = self.told + round(more * self.told / samples)
                needed = self.policy.stopping.threshold(len(self.arms), batches)
                more = self._more_for(np.square(np.maximum(assumed, 0.0) / needed))
                if not math.isfinite(more):
                    if left is None:
                        return None
                    break
            ends.append(more if left is None else min(more, left))
        low, high = math.ceil(ends[0]), math.ceil(ends[1])
        return (low, high) if high <= WIDEST * max(low, FEWEST_SAMPLES) else None

    def _left_of_list(self) -> int | None:
        """Samples until all scores are exact; None where they never are."""
        means = [estimate.prompted for estimate in self.contrasts.estimates]
        left = [mean.length - len(mean.prompts) for mean in means if mean is not None and mean.kind == "repeatable"]
        return sum(left) if len(left) == len(means) else None

    def _more_for(self, allowed: Floats) -> float:
        """Samples that bring the variances of the contrasts down to `allowed` (of the rivals); ∞ if none do.

        `top-two` splits them about as is cheapest, the other policies are taken to go on in the proportions so far.
        """
        has = np.array([float(arm.samples) for arm in self.arms])
        active = np.array([arm.active for arm in self.arms])
        fewest = np.maximum(has, self.fewest)
        spread = self.scored * np.square(self.deviations)  # the variance of n samples is spread/n
        if ((self.scored < self.fewest) & ~active).any():
            return math.inf
        if self.policy.name == "top-two":
            even = self._rivals(np.array(self.against.even_reductions))  # paired rivals are sampled about equally
            n = self._cheapest(spread, fewest, active, allowed / even)
        else:
            fixed = np.where(active, 0.0, spread / self.scored)
            falling = spread / self.scored - fixed
            left = allowed / self.reductions - self._rivals(fixed) - fixed[self.best]
            growth = _quotient(self._rivals(falling) + falling[self.best], left).max()
            n = np.where(active, np.maximum(fewest, self.scored * max(1.0, growth)), self.scored)[None, :]
        return float(np.where(active | np.isinf(n), n - has, 0.0).sum(axis=1).min())

    def _cheapest(self, spread: Floats, fewest: Floats, active: Bools, allowed: Floats) -> Floats:
        """Samples of every arm for each of some splits (splits, G), ∞ where a split cannot do it."""
        rivals, best = self._is_rival, self.best
        smallest = float((allowed - np.where(active, 0.0, spread / self.scored)[rivals]).min())
        own = np.maximum(fewest[best], spread[best] / (_SPLITS * smallest)) if smallest > 0.0 else np.full(1, math.inf)
        own = own if active[best] else np.full(1, self.scored[best])
        enough = _quotient(spread[rivals], allowed - (spread[best] / own)[:, None])
        n = np.empty((len(own), len(self.arms)))
        n[:, best] = own
        short = ~active[rivals] & (enough > self.scored[rivals])
        n[:, rivals] = np.maximum(fewest[rivals], enough)
        n[short.any(axis=1), best] = math.inf
        return n


def _quotient(part: Floats, whole: Floats) -> Floats:
    """part/whole, 0 where there is no part, ∞ where the whole is not positive."""
    return np.where(whole > 0.0, part / whole, np.where(part > 0.0, math.inf, 0.0))
