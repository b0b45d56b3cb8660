"""The influence bound of prompt-conditioned scores, in log, derived from that of each entropy (decisions.md §2).

A score is a signed sum of entropies (equations.md §4), and each entropy is de-biased by the recipe of its order (see
`kernel_influence`). The estimate is the signed sum of theirs. Its errors:

- First order: the influence function of a sum is the sum of the influence functions. All entropies see the same pairs
  in the same order, so IF_i = Σ ± IF_i of each over the last 512, and Var(IF)/n has every covariance in it.
- Second order: at order 2 the same, over the pairs of the last φ. The other recipes have a variance alone: these add.
- Systematic (what the ridge extrapolates, and the part of each correction that is in doubt, e): H(X, T) and H(X) miss
  the same rare outputs, so what is wrong with the one's correction is nearly as wrong with the other's and cancels in
  H(X) − H(X, T); H(T) stands alone. Squared: (Σ_outputs ± e)² + e_T², and a tenth of every e, squared, for what cancels
  only nearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from optimist.numerics.bound import check_delta, two_sided
from optimist.numerics.estimate import Estimate
from optimist.numerics.kernel.influence import (
    EntropyInfluence,
    KernelInfluence,
    entropy_influence,
    pair_variance,
    with_errors,
)
from optimist.numerics.pairs.score import ConditionedScore, Part
from optimist.numerics.pairs.statistic import JointStatistic

UNSHARED = 0.1
"""The part of every systematic error that does not cancel between entropies."""


class ConditionalInfluenceBound:
    """value ± z(1 − δ/2) · sd_stop around the de-biased log score of any order, sd_select as `standard_error`.

    One pair has no estimate: its value is the plug-in, without errors, in an infinite interval. Where prompts are gone
    through without repeats the interval is too wide, for it takes them as drawn anew each time.

    Calibration of sd_stop: root-mean-square z over 40 repeats at n = 50, 100, 200 and 500 against 50,000 pairs, on
    Gaussian mixtures and on ReLU features of digits with their class as prompt, φ of 200 … 1000 columns. Orders 2 and
    3: 0.45 … 1.35. Order 1.5: 0.2 … 1.15, below 0.6 mostly on digits, whose corrections are trusted too little.
    Order 1: Conditional-Vendi 0.1 … 1.9, as log Vendi_1 of the pairs has: the power law beyond the data misses on
    mixtures and is doubted needlessly on digits; Information-Vendi, where this cancels, 0.2 … 1.2. Order 0.5: too wide,
    0.03 … 0.95. Order ∞: 0.5 … 1.35, but up to 2.5 under a bandwidth so small that kinds of prompt hardly overlap and
    are equally frequent: the largest eigenvalues of C_XT and C_T are then of one kind or of two by chance.
    """

    name = "influence"

    def __init__(self, metric: ConditionedScore, delta: float = 0.05) -> None:
        self.metric = metric
        self.delta = check_delta(delta)

    def statistic(self) -> JointStatistic:
        """See `Bound.statistic`."""
        return self.metric.statistic(halves=self.metric.needs_halves)

    def estimate(self, statistic: JointStatistic) -> Estimate:
        """See `Bound.estimate`."""
        metric, n = self.metric, statistic.samples
        if n < 2:
            plug_in = metric.plug_in(statistic)
            notes = ("at least 2 samples are needed for an interval",)
            return two_sided(metric, n, plug_in, plug_in, None, self.delta, notes)
        found = analyse_conditioned(metric, statistic)
        errors, notes = (found.selection_error, found.stopping_error), _warnings(metric, n, found)
        return two_sided(metric, n, found.estimate, found.plug_in, errors, self.delta, notes)


def analyse_conditioned(metric: ConditionedScore, statistic: JointStatistic) -> KernelInfluence:
    """From n ≥ 2 pairs. Raises ValueError on fewer, on a statistic of another metric, and on missing halves."""
    parts = metric.parts(statistic)
    found = {part: entropy_influence(metric.entropies[part], of_part) for part, of_part in parts.items()}
    return with_errors(_signed_sum(found, metric.terms), statistic.samples)


def _signed_sum(found: Mapping[Part, EntropyInfluence], signs: Mapping[Part, float]) -> EntropyInfluence:
    """What the entropies' recipes say of Σ ± H; its systematic errors have no sign left."""
    terms = [(signs[part], entropy) for part, entropy in found.items()]
    pairs = [sign * entropy.pairs for sign, entropy in terms if entropy.pairs is not None]

    def together(error: Callable[[EntropyInfluence], float]) -> float:
        errors = {part: signs[part] * error(entropy) for part, entropy in found.items()}
        unshared = UNSHARED**2 * sum(each**2 for each in errors.values())
        return math.sqrt(errors.pop("prompts") ** 2 + sum(errors.values()) ** 2 + unshared)

    return EntropyInfluence(
        plug_in=sum(sign * entropy.plug_in for sign, entropy in terms),
        estimate=sum(sign * entropy.estimate for sign, entropy in terms),
        influence=torch.stack([sign * entropy.influence for sign, entropy in terms]).sum(0),
        second_order=(
            pair_variance(torch.stack(pairs).sum(0)) if pairs else sum(entropy.second_order for _, entropy in terms)
        ),
        extrapolated=together(lambda entropy: entropy.extrapolated),
        selection_doubt=together(lambda entropy: entropy.selection_doubt),
        stopping_doubt=together(lambda entropy: entropy.stopping_doubt),
        # A list of prompts may be short: only repeated outputs are a bad sign.
        repeated=max(entropy.repeated for part, entropy in found.items() if part != "prompts"),
    )


def _warnings(metric: ConditionedScore, n: int, analysis: KernelInfluence) -> tuple[str, ...]:
    """What a reader of an influence estimate must know of its n pairs."""
    found: list[str] = []
    if metric.order < 2.0 and n < metric.width:
        found.append(f"fewer samples than features: {n} samples for {metric.width}; the rest is extrapolated")
        if analysis.repeated:
            found.append(f"{analysis.repeated} of {n} samples repeat others: the interval may be too narrow")
    return tuple(found)
