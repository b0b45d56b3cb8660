"""A mixture as users see it: the model of the SDK, made from what the numerics know."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from optimist.numerics.estimate import natural
from optimist.numerics.mixtures.mixture import Mixture
from optimist.policies.blend_stopping import gain_confidence
from optimist.policies.stopping import Stopping
from optimist_client import models
from optimist_client.metrics import Metric


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
    ends = [natural(mixture.value + side * z * mixture.error, mixture.scale, mixture.floor) for side in (-1.0, 1.0)]
    rows = zip(mixture.generators, mixture.weights, mixture.samples, mixture.contributions, strict=True)
    names = ("generator", "weight", "samples", "contribution")
    # Without validation: names of files may be longer than those of generators.
    return models.Mixture.model_construct(
        experiment=experiment,
        label=label or metric.shown_label,
        title=metric.shown_title,
        lower_is_better=mixture.lower_is_better,
        scale=mixture.scale,
        weights=[models.MixtureWeight.model_construct(**dict(zip(names, row, strict=True))) for row in rows],
        score=mixture.score,
        error=mixture.error * mixture.score if mixture.scale == "log" else mixture.error,
        lower=ends[0],
        upper=ends[1],
        best=mixture.best,
        best_score=natural(mixture.best_value, mixture.scale, mixture.floor),
        gain=mixture.gain,
        gain_error=mixture.gain_error,
        confidence=gain_confidence(mixture, 1.0 if told is None else stopping.correction(2, told)),
        gap=mixture.gap,
        gap_bound=mixture.gap_bound(stopping.threshold(len(mixture.generators), told or 1)),
        samples=mixture.total,
        positions=list(positions),
        stale=stale,
        warnings=mixture.warnings,
    )
