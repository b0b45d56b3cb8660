"""Scores of a generator: from a statistic to the value the papers publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimist.metrics.base import Metric
from optimist.metrics.exact import exact_spectrum
from optimist.metrics.frechet import FrechetDistance
from optimist.metrics.inception import InceptionScore
from optimist.metrics.reference import Reference
from optimist.metrics.vendi import RenyiKernelEntropy, VendiScore, log_vendi
from optimist.statistics import Cosine, FeatureMap, GaussianFourier, Nystrom

METRICS = ("fid", "is", "rke", "vendi")
"""The names `make_metric` knows."""


def make_metric(
    name: str,
    dimension: int | None = None,
    *,
    reference: Reference | None = None,
    order: float = 1.0,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
) -> Metric:
    """The metric of that name. `dimension` is the features' width or the number of classes; "fid" has its reference's.

    `order` and `truncation` are those of "vendi", `kernel` is that of "rke" and "vendi" (see `make_feature_map`).
    Raises ValueError on an unknown name, on values that make no sense, and where something needed is missing.
    """
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}: one of {', '.join(METRICS)}")
    if name == "fid":
        if reference is None:
            raise ValueError("the metric 'fid' needs a reference")
        return FrechetDistance(reference)
    if dimension is None:
        raise ValueError(f"the metric {name!r} needs a dimension")
    if name == "is":
        return InceptionScore(dimension)
    if kernel is None:
        raise ValueError(f"the metric {name!r} needs a kernel, such as dict(name='gaussian', sigma=10.0)")
    feature_map = make_feature_map(kernel, dimension)
    return RenyiKernelEntropy(feature_map) if name == "rke" else VendiScore(feature_map, order, truncation)


def make_feature_map(kernel: Mapping[str, Any], dimension: int) -> FeatureMap:
    """The feature map of a kernel given as a mapping, for rows of `dimension` columns (equations.md §3).

    name: "gaussian" (default; random Fourier features) with `sigma`, `features` (r, default 1000) and `seed`, or with
    `omegas` (d, r) as they are; "nystrom" with `landmarks` (m, d) and `sigma`; or "cosine". Raises ValueError on
    anything else.
    """
    wanted = dict(kernel)
    name = wanted.pop("name", "gaussian")
    sigma, features, seed = wanted.pop("sigma", None), wanted.pop("features", 1000), wanted.pop("seed", 0)
    omegas, landmarks = wanted.pop("omegas", None), wanted.pop("landmarks", None)
    if wanted:
        known = "name, sigma, features, seed, omegas, landmarks"
        raise ValueError(f"kernel: expected {known}; got {', '.join(sorted(wanted))}")
    if name == "cosine":
        return Cosine(dimension)
    if name not in ("gaussian", "nystrom"):
        raise ValueError(f"kernel: expected name 'gaussian', 'nystrom' or 'cosine', got {name!r}")
    if name == "gaussian" and omegas is not None:
        return GaussianFourier(omegas)
    if sigma is None:
        raise ValueError(f"kernel: the {name} kernel needs sigma, its bandwidth")
    if name == "nystrom":
        if landmarks is None:
            raise ValueError("kernel: the nystrom kernel needs landmarks (m, d)")
        return Nystrom(landmarks, sigma)
    return GaussianFourier.draw(dimension, features, sigma, seed)


__all__ = [
    "METRICS",
    "FrechetDistance",
    "InceptionScore",
    "Metric",
    "Reference",
    "RenyiKernelEntropy",
    "VendiScore",
    "exact_spectrum",
    "log_vendi",
    "make_feature_map",
    "make_metric",
]
