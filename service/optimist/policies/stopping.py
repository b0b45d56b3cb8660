"""When the answer is sure: the stopping rule of decisions.md §3 and what it says in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from optimist.policies.arms import Arm, least, losses, ratio, selection_errors, stopping_errors

FEWEST_SAMPLES = 20
"""No decision while a contender has fewer samples: its standard error is not to be trusted yet."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The best generator so far, how sure that is (None without standard errors), and why it is decided or not."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop when min over j ≠ best of (e_j − e_b + tolerance)/√(sd_b² + sd_j²) exceeds a z that grows with log t.

    `delta` is the accepted probability of a wrong answer, `tolerance` the difference that does not matter to the
    user, on the estimates' scale.
    """

    delta: float = 0.05
    tolerance: float = 0.0

    def threshold(self, contenders: int, told: int) -> float:
        """z(1 − δ/((G − 1)(1 + log t))): Bonferroni over the rivals, and over time by 1 + log t."""
        return -NormalDist().inv_cdf(self.delta / _looks(contenders, told))  # by the tail: 1 − δ/… may round to 1

    def separations(self, values: Sequence[float], errors: Sequence[float]) -> list[float]:
        """z_j of every arm against the best value; +inf at the best itself. Smaller `values` are better."""
        best = least(values)
        z = [
            ratio(value - values[best] + self.tolerance, math.hypot(errors[best], error))
            for value, error in zip(values, errors, strict=True)
        ]
        z[best] = math.inf
        return z

    def is_unblocked(self, arms: Sequence[Arm], told: int) -> bool:
        """Whether sd_select alone would stop: from here on top-two samples what keeps sd_stop from stopping."""
        return min(self.separations(losses(arms), selection_errors(arms))) > self.threshold(len(arms), told)

    def decide(self, arms: Sequence[Arm], told: int) -> Decision:
        """The decision on these contenders after `told` batches; pure, latching is the caller's."""
        if any(arm.estimate is None for arm in arms) or not arms:
            waiting = ", ".join(arm.name for arm in arms if arm.estimate is None) or "every generator"
            return Decision(None, None, False, f"no estimate yet of {waiting}")
        values = losses(arms)
        best = arms[least(values)]
        if any(arm.estimate.standard_error is None for arm in arms if arm.estimate is not None):
            return Decision(best.name, None, False, "this bound has no standard error: it runs to the budget")
        if len(arms) == 1:
            return Decision(best.name, None, False, "one generator: there is nothing to compare it with")
        separation = min(self.separations(values, stopping_errors(arms)))
        threshold = self.threshold(len(arms), told)
        doubt = _looks(len(arms), told) * 0.5 * math.erfc(separation / math.sqrt(2.0))
        confidence = min(1.0, max(0.0, 1.0 - doubt))
        few = [arm.name for arm in arms if arm.estimate is not None and arm.estimate.samples < FEWEST_SAMPLES]
        if few:
            reason = f"fewer than {FEWEST_SAMPLES} samples of {', '.join(few)}"
        elif separation > threshold:
            reason = f"every rival is at least {separation:.2f} standard errors behind; {threshold:.2f} are needed"
            return Decision(best.name, confidence, True, reason)
        else:
            reason = f"the closest rival is {separation:.2f} standard errors behind; {threshold:.2f} are needed"
        return Decision(best.name, confidence, False, reason)

    def uniform_samples(self, arms: Sequence[Arm], told: int) -> int | None:
        """About how many samples in all an even split would need to stop, by the errors and gaps known now.

        sd_stop² falls as 1/n, so n generators' samples each must reach z²·(n_b sd_b² + n_j sd_j²)/(gap + tolerance)²
        for every rival j. None while that cannot be said (no errors, one arm, or a rival with no gap).
        """
        if len(arms) < 2 or told < 1 or any(arm.estimate is None for arm in arms):
            return None
        values = losses(arms)
        best = least(values)
        known = [arm.estimate for arm in arms if arm.estimate is not None]
        spread = [e.samples * error**2 for e, error in zip(known, stopping_errors(arms), strict=True)]
        gaps = [value - values[best] + self.tolerance for value in values]
        rivals = [i for i in range(len(arms)) if i != best]
        if not all(map(math.isfinite, spread)) or any(gaps[i] <= 0.0 for i in rivals):
            return None
        needed = max(ratio(spread[best] + spread[i], gaps[i] ** 2) for i in rivals)
        if not math.isfinite(needed):
            return None
        batch = sum(arm.samples for arm in arms) / told
        each = float(FEWEST_SAMPLES)
        for _ in range(50):  # the threshold grows with log t, so a few rounds reach the fixed point
            each = max(FEWEST_SAMPLES, needed * self.threshold(len(arms), max(1, round(each * len(arms) / batch))) ** 2)
        return math.ceil(each * len(arms))


def _looks(contenders: int, told: int) -> float:
    return (contenders - 1) * (1.0 + math.log(max(told, 1)))
