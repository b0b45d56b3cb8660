"""When the best mixture is known well enough, and the mixture as users see it (rules/mixtures.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from optimist.estimates.estimate import natural
from optimist.estimates.mixture import Mixture
from optimist.policies.arms import Arm
from optimist.policies.stopping import FEWEST_SAMPLES, Decision, Stopping
from optimist_client import models
from optimist_client.metrics import Metric
from optimist_client.models.decisions import shown
from optimist_client.models.mixtures import ONE


def decide_mixture(stopping: Stopping, arms: Sequence[Arm], mixture: Mixture | None, told: int) -> Decision:
    """The decision on the mixture of these contenders after `told` batches. A pure function, as `Stopping.decide`.

    It is made when `Mixture.gap_bound`, with as many errors as `Stopping.threshold` asks for, is at most the tolerance:
    then no other mixture is better by more. `best` is the best single generator, and the confidence that the mixture
    beats it.
    """
    names = () if mixture is None else mixture.generators
    missing = [arm.name for arm in arms if arm.active and arm.name not in names]
    if mixture is None or missing:
        return Decision(None, None, False, f"no mixture has been made yet with {', '.join(missing) or 'any generator'}")
    if gone := sorted(set(names) - {arm.name for arm in arms}):
        return Decision(None, None, False, f"no mixture has been made yet without {', '.join(gone)}")
    if len(names) == 1:
        return Decision(mixture.best, None, False, "there is no other generator to blend it with")
    bound = mixture.gap_bound(stopping.threshold(len(names), told))
    tolerated = stopping.tolerated_of(mixture.value, mixture.scale)
    confidence = gain_confidence(mixture, stopping.correction(2, told))
    few = [name for name, count in zip(names, mixture.samples, strict=True) if count < FEWEST_SAMPLES]
    if few:
        return Decision(mixture.best, confidence, False, f"fewer than {FEWEST_SAMPLES} samples of {', '.join(few)}")
    if bound <= tolerated:
        return Decision(mixture.best, confidence, True, _known(mixture, bound))
    reason = f"another mixture may be better by up to {shown(bound, mixture.scale)}"
    if tolerated:
        reason += f", and the tolerance is {shown(tolerated, mixture.scale)}"
    else:
        reason += "; a tolerance of 0 is met only where one generator alone is best"
    return Decision(mixture.best, confidence, False, reason)


def gain_confidence(mixture: Mixture, correction: float = 1.0) -> float:
    """The confidence, in [0, 1], that the mixture beats the best single generator: by a one-sided test of the gain.

    correction: how many single tests count as many as all that were made (`Stopping.correction`).
    """
    if mixture.gain_error == 0.0:
        return 1.0 if mixture.gain > 0.0 else 0.0
    doubt = correction * 0.5 * math.erfc(mixture.gain / mixture.gain_error / math.sqrt(2.0))
    return max(0.0, 1.0 - doubt)


def is_one_alone(mixture: Mixture) -> bool:
    """True if no mixture is better than the best single generator alone, as far as the samples show."""
    return mixture.gain <= 0.0 or mixture.weights[mixture.generators.index(mixture.best)] >= ONE


def _known(mixture: Mixture, bound: float) -> str:
    """A part of a sentence, which says how well the best mixture is known."""
    more = f" by more than {shown(bound, mixture.scale)}" if bound else ""
    if is_one_alone(mixture):
        return f"no mixture is better than {mixture.best} alone{more}"
    return f"no other mixture is better than this one{more}"


def shown_mixture(
    mixture: Mixture,
    metric: Metric,
    stopping: Stopping,
    told: int | None = None,
    *,
    experiment: str | None = None,
    label: str | None = None,
    positions: Sequence[int] = (),
    stale: bool = False,
) -> models.Mixture:
    """The mixture by this metric, with an interval of 1 − δ, and bound and confidence as `decide_mixture` has them.

    told: batches so far; None: the samples are looked at once, not again and again as they come. label: by default the
    metric's own.
    """
    z = -NormalDist().inv_cdf(stopping.delta / 2.0)
    # As many errors as `gain_confidence` takes for 1 − δ, so that the interval is above 0 where it says so.
    tested = -NormalDist().inv_cdf(stopping.delta) if told is None else stopping.threshold(2, told)
    ends = [natural(mixture.value + side * z * mixture.error, mixture.scale, mixture.floor) for side in (-1.0, 1.0)]
    rows = zip(mixture.generators, mixture.weights, mixture.samples, mixture.contributions, strict=True)
    names = ("generator", "weight", "samples", "contribution")
    # Without validation: names of files may be longer than generators' names.
    return models.Mixture.model_construct(
        experiment=experiment,
        label=label or metric.shown_label,
        title=metric.shown_title,
        lower_is_better=mixture.lower_is_better,
        scale=mixture.scale,
        weights=[models.MixtureWeight.model_construct(**dict(zip(names, row, strict=True))) for row in rows],
        score=mixture.score,
        standard_error=mixture.error * mixture.score if mixture.scale == "log" else mixture.error,
        lower=ends[0],
        upper=ends[1],
        best=mixture.best,
        best_score=natural(mixture.best_value, mixture.scale, mixture.floor),
        gain=mixture.gain,
        gain_standard_error=mixture.gain_error,
        gain_lower=mixture.gain - tested * mixture.gain_error,
        gain_upper=mixture.gain + tested * mixture.gain_error,
        confidence=gain_confidence(mixture, 1.0 if told is None else stopping.correction(2, told)),
        gap=mixture.gap,
        gap_bound=mixture.gap_bound(stopping.threshold(len(mixture.generators), told or 1)),
        samples=mixture.total,
        positions=list(positions),
        stale=stale,
        warnings=mixture.warnings,
    )
