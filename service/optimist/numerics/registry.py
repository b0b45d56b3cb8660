"""Scores of a generator: from a statistic to the value the papers publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from optimist.numerics.fid.reference import Reference
from optimist.numerics.fid.score import FrechetDistance
from optimist.numerics.inception.score import InceptionScore
from optimist.numerics.kernel.entropy import log_vendi
from optimist.numerics.kernel.exact import exact_spectrum
from optimist.numerics.kernel.maps import fit_kernel, make_feature_map
from optimist.numerics.kernel.score import RenyiKernelEntropy, VendiScore
from optimist.numerics.metric import Metric
from optimist.numerics.pairs.exact import exact_spectra
from optimist.numerics.pairs.maps import pair_maps
from optimist.numerics.pairs.score import ConditionalVendi, ConditionedScore, InformationVendi

PAIRS: dict[str, type[ConditionedScore]] = {score.name: score for score in (ConditionalVendi, InformationVendi)}
"""The scores of pairs of a sample and its prompt."""
METRICS = ("fid", "is", "rke", "vendi", *PAIRS)
"""The names `make_metric` knows."""


def make_metric(
    name: str,
    dimension: int | None = None,
    *,
    reference: Reference | None = None,
    order: float = 1.0,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_dimension: int | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
) -> Metric:
    """The metric of that name. `dimension` is the features' width or the number of classes; "fid" has its reference's.

    Its statistics, and all that is made of them, live on the `device`; those of "fid" where its reference does.

    `order` is that of all Vendi scores, `truncation` that of "vendi" alone, `kernel` that of "rke" and all Vendi
    scores (see `make_feature_map`); scores of pairs need `prompt_dimension` and `prompt_kernel`, too. Raises ValueError
    on an unknown name, on values that make no sense, and where something needed is missing.
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
        return InceptionScore(dimension, device=device)
    if kernel is None:
        raise ValueError(f"the metric {name!r} needs a kernel, such as dict(name='gaussian', sigma=10.0)")
    if name in PAIRS:
        if prompt_kernel is None or prompt_dimension is None:
            raise ValueError(f"the metric {name!r} needs prompts: a prompt kernel and their dimension")
        maps = pair_maps(kernel, prompt_kernel, dimension, prompt_dimension, device)
        return PAIRS[name](*maps, order)
    feature_map = make_feature_map(kernel, dimension, device)
    return RenyiKernelEntropy(feature_map) if name == "rke" else VendiScore(feature_map, order, truncation)


__all__ = [
    "METRICS",
    "PAIRS",
    "ConditionalVendi",
    "ConditionedScore",
    "FrechetDistance",
    "InceptionScore",
    "InformationVendi",
    "Metric",
    "Reference",
    "RenyiKernelEntropy",
    "VendiScore",
    "exact_spectra",
    "exact_spectrum",
    "fit_kernel",
    "log_vendi",
    "make_feature_map",
    "make_metric",
    "pair_maps",
]
