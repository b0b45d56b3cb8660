"""The stopping rule of rules/stopping.md, and the text that explains its decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from optimist.estimates.estimate import Estimate, Scale
from optimist.policies.arms import Arm, ratio
from optimist.policies.contrasts import RARE, Contrasts, contrasts_among
from optimist.policies.paired import Errors
from optimist_client.models.decisions import UNSEEN, HardestRival, LimitVerdict, Verdict
from optimist_client.tolerance import share_of

FEWEST_SAMPLES = 20
"""No decision is made while a contender has fewer samples, because its standard error is not reliable yet."""
FEWEST_UNBOUNDED = 100
"""The same of a leader whose values can be of any size (`Estimate.is_unbounded`): among as many samples values of a
share of 3 % are missing with a chance of 5 %. Rivals need no more, as such values of theirs only confirm the lead."""
HOLDS_UNTIL = ((0.2, 500_000), (0.1, 15_000), (0.05, 4_000), (0.01, 900), (0.001, 250))
"""δ, and the samples of each generator up to which at most δ of the runs name the wrong one, however small the
difference is (docs/calibration.md, made by benchmarks/horizons.py)."""
ALONE = "there is no other generator to compare it with"
"""The reason why nothing is decided about a single generator."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The best generator so far, the confidence in it (None without standard errors), and the reason."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str
    verdicts: tuple[Verdict, ...] = ()
    """A verdict for each rival, if the decision was `explained`."""
    hardest: HardestRival | None = None
    """The comparison with the hardest rival, if the decision was `explained`."""
    awaited: Mapping[str, int] = field(default_factory=dict[str, int])
    """Batches on their way that it waits for, by generator, as of `DecisionInfo`."""
    limits: tuple[LimitVerdict, ...] = ()
    """With the goal "cheapest", the verdicts by each limit, if the decision was `explained`."""
    none_meets: bool = False
    """With the goal "cheapest", whether no generator meets all limits."""


def is_early(estimate: Estimate) -> bool:
    """True if an estimate has fewer than `FEWEST_SAMPLES` of what its error is made from, and is not exact."""
    return estimate.units[0] < FEWEST_SAMPLES and not estimate.is_exact


def _exactly(arms: Sequence[Arm]) -> str:
    """The reason of a decision by scores that are all exact."""
    contrasts = contrasts_among(arms)
    best = contrasts.best
    are_equal = contrasts.are_equal(best)
    equal = [arm.name for index, arm in enumerate(arms) if are_equal[index]]
    if len(equal) > 1:
        return f"equal on this list, exactly: {', '.join(equal)}"
    return f"{arms[best].name} is better on this list, exactly"


def fewest_of_leader(contrasts: Contrasts) -> int:
    """The samples that the best estimate needs for a decision, beside what all need (`is_early`)."""
    return FEWEST_UNBOUNDED if contrasts.estimates[contrasts.best].is_unbounded else 0


def rarer_than(contrasts: Contrasts) -> int | None:
    """n/3, for n samples of the generator that has the fewest: rarer values than one in so many may not have come. None
    where the estimates are no means, and where it is known how far values can be."""
    if any(estimate.farthest is None for estimate in contrasts.estimates):
        return None
    return min(estimate.samples for estimate in contrasts.estimates) // round(RARE)


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop when min over j ≠ best of (D_j + tolerance)/sd(D_j) exceeds a z that grows with log t.

    D_j is how much worse j is than the best one, by their contrast: e_j − e_b with √(sd_b² + sd_j²) if they are not
    paired. `delta` is the accepted probability of a wrong answer, `tolerance` the difference that does not matter to
    the user, on the estimates' scale, or a share of the best score such as "1%".
    """

    delta: float = 0.05
    tolerance: float | str = 0.0

    def threshold(self, contenders: int, told: int) -> float:
        """z(1 − δ/`correction`), for `contenders` generators after `told` batches."""
        return -NormalDist().inv_cdf(self.delta / self.correction(contenders, told))  # 1 − δ/… might round to 1

    def correction(self, contenders: int, told: int) -> float:
        """The number of single tests that count as many as all that were made: max(3, 1.25 (G − 1))·(1 + log t).

        1 + log t covers the looks over time, G − 1 the rivals. Two generators that are nearly tied need the factor 3:
        one pair passes the threshold in one direction more often than 1 + log t covers (docs/calibration.md).
        """
        return max(3.0, 1.25 * (contenders - 1)) * (1.0 + math.log(max(told, 1)))

    def tolerated(self, arms: Sequence[Arm]) -> float:
        """The tolerance on the estimates' scale: a share s is log(1 + s) of logarithms, else s times the best value.

        Every arm must have an estimate. A best value below 0, which a de-biased distance can have, counts as 0.
        """
        if not isinstance(self.tolerance, str):
            return float(self.tolerance)
        contrasts = contrasts_among(arms)
        best = contrasts.estimates[contrasts.best]
        return self.tolerated_of(best.value, best.scale)

    def tolerated_of(self, value: float, scale: Scale) -> float:
        """The tolerance of a value on this scale, as `tolerated` has it of the best one."""
        share = share_of(self.tolerance)
        if share is None:
            return float(self.tolerance)
        return math.log1p(share) if scale == "log" else share * max(value, 0.0)

    def separations(self, arms: Sequence[Arm], kind: Errors) -> list[float]:
        """z_j of every arm against the best one; +inf at the best itself, and where the scores of both are exact, so
        that they are equal where they do not differ. Every arm must have an estimate.
        """
        contrasts = contrasts_among(arms)
        separations = contrasts.separations(self.tolerated(arms), kind)
        estimates = contrasts.estimates
        if not estimates[contrasts.best].is_exact:
            return separations
        return [math.inf if estimate.is_exact else each for estimate, each in zip(estimates, separations, strict=True)]

    def is_unblocked(self, arms: Sequence[Arm], told: int) -> bool:
        """True if the rule would stop with sd_select. If so, top-two samples what keeps sd_stop too large."""
        return min(self.separations(arms, "selection")) > self.threshold(len(arms), told)

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision on these contenders after `told` batches. A pure function: the caller makes it permanent."""
        unknown = [arm.name for arm in arms if arm.estimate is None]
        if unknown or not arms:
            return Decision(None, None, False, f"no estimate yet of {', '.join(unknown) or 'every generator'}")
        contrasts = contrasts_among(arms)
        if contrasts.are_strict:
            return self._by_intervals(arms)
        best = arms[contrasts.best]
        if math.inf in contrasts.selection_errors and not any(one.audited for one in contrasts.estimates):
            reason = "this bound has no standard errors, so the experiment runs until its budget is spent"
            return Decision(best.name, None, False, reason)
        if len(arms) == 1:
            return Decision(best.name, None, False, ALONE)
        separation = min(self.separations(arms, "stopping"))
        threshold = self.threshold(len(arms), told)
        confidence = None
        if math.inf not in contrasts.selection_errors:
            doubt = self.correction(len(arms), told) * 0.5 * math.erfc(separation / math.sqrt(2.0))
            confidence = min(1.0, max(0.0, 1.0 - doubt))
        few = [arm.name for arm in arms if arm.estimate is not None and is_early(arm.estimate)]
        rarer = rarer_than(contrasts)
        unseen = "" if rarer is None else UNSEEN.format(rarer)[:-1].lower()
        if few:
            reason = f"fewer than {FEWEST_SAMPLES} {contrasts.estimates[0].units[1]} of {', '.join(few)}"
        elif all(estimate.is_exact for estimate in contrasts.estimates):
            return Decision(best.name, confidence, True, _exactly(arms))
        elif separation <= threshold:
            reason = f"the hardest rival is {separation:.2f} standard errors worse; {threshold:.2f} are needed"
        elif contrasts.estimates[contrasts.best].samples < fewest_of_leader(contrasts):
            reason = f"fewer than {FEWEST_UNBOUNDED} samples of {best.name}, whose values may be of any size: {unseen}"
        elif (rival := self._overturned(arms)) is not None:
            reason = f"{unseen}; as far from their mean as others have been, they would overturn the lead over {rival}"
        else:
            reason = f"every rival is at least {separation:.2f} standard errors worse; {threshold:.2f} are needed"
            return Decision(best.name, confidence, True, reason if rarer is None else f"{reason}; {unseen}")
        return Decision(best.name, confidence, False, reason)

    def _overturned(self, arms: Sequence[Arm]) -> str | None:
        """A rival that the best arm would not lead with values that have not come; None if there is none."""
        contrasts, tolerated = contrasts_among(arms), self.tolerated(arms)
        leads = zip(contrasts.against(contrasts.best).differences, contrasts.unseen(), strict=True)
        left = (arm.name for arm, (lead, lost) in zip(arms, leads, strict=True) if 0.0 < lost >= lead + tolerated)
        return next((name for name in left if name != arms[contrasts.best].name), None)

    @property
    def holds_until(self) -> int:
        """The samples of each generator up to which the promise of δ holds at every look (`HOLDS_UNTIL`)."""
        return next((samples for delta, samples in HOLDS_UNTIL if delta <= self.delta), FEWEST_UNBOUNDED)

    def overlaps(self, arms: Sequence[Arm]) -> list[float]:
        """The part of each arm's interval that reaches beyond the worse end of the best one's, the tolerance taken off.

        Not above 0 where the two are apart; −∞ at the best itself. Every arm must have an estimate.
        """
        contrasts, tolerated = contrasts_among(arms), self.tolerated(arms)
        best = contrasts.best
        worse, better = contrasts.ends
        overlaps = [worse[best] - end - tolerated for end in better]
        overlaps[best] = -math.inf
        return overlaps

    def _by_intervals(self, arms: Sequence[Arm]) -> Decision:
        """The decision by intervals that hold at all sample sizes and for all generators at once.

        Neither the looks over time nor the rivals need a correction, and few samples have wide intervals.
        """
        best = arms[contrasts_among(arms).best].name
        if len(arms) == 1:
            return Decision(best, None, False, ALONE)
        overlaps = self.overlaps(arms)
        largest = max(overlaps)
        rival = arms[overlaps.index(largest)].name
        tolerated = " by more than the tolerance" if self.tolerated(arms) else ""
        if largest <= 0.0:
            reason = f"no interval overlaps the one of {best}{tolerated}, and all intervals hold at any time"
            return Decision(best, 1.0 - self.delta, True, reason)
        reason = f"the intervals of {rival} and {best} overlap{tolerated}, by {largest:.3g}"
        return Decision(best, None, False, reason)

    def uniform_samples(self, arms: Sequence[Arm], told: int) -> int | None:
        """Estimate of the total samples that uniform sampling would need to stop, given the current errors and gaps.

        sd_stop² falls as 1/n, so the samples of each generator must reach z²·n Var(D_j)/(D_j + tolerance)² for every
        rival j, with the variance at equal counts: n Var(D_j) = n_b sd_b² + n_j sd_j² if the two are not paired. None
        if this is unknown (no errors, strict intervals, one arm, or a rival without a gap).
        """
        if len(arms) < 2 or told < 1 or any(arm.estimate is None or arm.estimate.audited for arm in arms):
            return None
        contrasts = contrasts_among(arms)
        best = contrasts.best
        against = contrasts.against(best)
        errors = zip(contrasts.estimates, contrasts.stopping_errors, strict=True)
        spread = [estimate.samples * error**2 for estimate, error in errors]
        tolerated = self.tolerated(arms)
        gaps = [difference + tolerated for difference in against.differences]
        rivals = [i for i in range(len(arms)) if i != best]
        if contrasts.are_strict or not all(map(math.isfinite, spread)) or any(gaps[i] <= 0.0 for i in rivals):
            return None
        even = against.even_reductions
        needed = max(ratio((spread[best] + spread[i]) * even[i], gaps[i] ** 2) for i in rivals)
        if not math.isfinite(needed):
            return None
        batch = sum(arm.samples for arm in arms) / told
        each = float(FEWEST_SAMPLES)
        for _ in range(50):  # the threshold grows with log t, so this converges to a fixed point
            each = max(FEWEST_SAMPLES, needed * self.threshold(len(arms), max(1, round(each * len(arms) / batch))) ** 2)
        return math.ceil(each * len(arms))
