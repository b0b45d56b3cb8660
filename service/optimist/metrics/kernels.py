"""Kernels given as mappings: their feature maps, and those of their settings that samples fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist.kernels import DEFAULT_FEATURES, MEDIAN
from optimist.statistics import Cosine, FeatureMap, GaussianFourier, Nystrom

LARGEST_FIT = 1000
"""Rows whose pairwise distances have a median taken: half a million pairs."""


def make_feature_map(kernel: Mapping[str, Any], dimension: int) -> FeatureMap:
    """The feature map of a kernel given as a mapping, for rows of `dimension` columns (equations.md §3).

    name: "gaussian" (default; random Fourier features) with `sigma`, `features` (r, default 1000) and `seed`, or with
    `omegas` (d, r) as they are; "nystrom" with `landmarks` (m, d) and `sigma`; or "cosine". Raises ValueError on
    anything else, and on what only samples can fix (see `fit_kernel`).
    """
    wanted = dict(kernel)
    name = wanted.pop("name", "gaussian")
    sigma, features = wanted.pop("sigma", None), wanted.pop("features", DEFAULT_FEATURES)
    seed, omegas, landmarks = wanted.pop("seed", 0), wanted.pop("omegas", None), wanted.pop("landmarks", None)
    if wanted:
        known = "name, sigma, features, seed, omegas, landmarks"
        raise ValueError(f"kernel: expected {known}; got {', '.join(sorted(wanted))}")
    if name == "cosine":
        return Cosine(dimension)
    if name not in ("gaussian", "nystrom"):
        raise ValueError(f"kernel: expected name 'gaussian', 'nystrom' or 'cosine', got {name!r}")
    if name == "gaussian" and omegas is not None:
        return GaussianFourier(omegas)
    if sigma is None or isinstance(sigma, str):
        raise ValueError(f"kernel: the {name} kernel needs sigma, its bandwidth, as a number or {MEDIAN!r}")
    if name == "nystrom":
        if landmarks is None:
            raise ValueError("kernel: the nystrom kernel needs landmarks (m, d)")
        return Nystrom(landmarks, sigma)
    return GaussianFourier.draw(dimension, features, sigma, seed)


def pair_maps(
    kernel: Mapping[str, Any], prompt_kernel: Mapping[str, Any], dimension: int, prompt_dimension: int
) -> tuple[GaussianFourier, GaussianFourier]:
    """The feature maps of samples and of prompts, with the kernel's number of frequencies, drawn apart.

    Raises ValueError as `make_feature_map` does, and on kernels that are not gaussian.
    """
    features = make_feature_map(kernel, dimension)
    # One stream of normals for both would tie the frequencies of samples and prompts together.
    apart = {"seed": (prompt_kernel.get("seed", 0), 1), "features": kernel.get("features", DEFAULT_FEATURES)}
    prompts = make_feature_map({**prompt_kernel, **apart}, prompt_dimension)
    if not isinstance(features, GaussianFourier) or not isinstance(prompts, GaussianFourier):
        raise ValueError("kernel: scores of pairs need gaussian kernels, whose product is one again")
    return features, prompts


def fit_kernel(kernel: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """The kernel with what samples fix: `sigma` "median" as the median distance, and landmarks, from `rows` (n, d).

    The median is over the pairs that differ among the first 1000 rows, and 1 where none does; the landmarks of a
    nystrom kernel are the first `features` rows.
    """
    fixed = dict(kernel)
    if fixed.get("sigma") == MEDIAN:
        distances = torch.pdist(rows[:LARGEST_FIT])
        distances = distances[distances > 0.0]
        fixed["sigma"] = float(np.median(distances.cpu().numpy())) if len(distances) else 1.0
    if fixed.get("name") == "nystrom" and fixed.get("landmarks") is None:
        fixed["landmarks"] = rows[: fixed.get("features", DEFAULT_FEATURES)]
    return fixed
