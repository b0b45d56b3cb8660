"""Feature maps of kernels, and the settings of kernels that samples fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist.metrics.feature_maps import Cosine, FeatureMap, GaussianFourier, Nystrom
from optimist.metrics.vendi.settings import KernelSettings
from optimist.numerics.batches import LARGEST
from optimist_client.errors import FixError
from optimist_client.metrics import Kernel
from optimist_client.metrics.kernel import MEDIAN

LARGEST_FIT = 1000
"""Number of rows for the median of pairwise distances: half a million pairs."""


Device = torch.device | str


def make_feature_map(kernel: Kernel | Mapping[str, Any], dimension: int, device: Device = "cpu") -> FeatureMap:
    """The feature map of a kernel for rows of `dimension` columns (equations.md §3).

    A mapping holds name: "gaussian" (default; random Fourier features) with `sigma`, `features` (r, default 1000) and
    `seed`, or with `omegas` (d, r) as they are; "nystrom" with `landmarks` (m, d) and `sigma`; or "cosine". Raises
    FixError on anything else, and on what only samples can fix (see `fit_kernel`).
    """
    return feature_map_of(KernelSettings.of(kernel), dimension, device)


def feature_map_of(kernel: KernelSettings, dimension: int, device: Device, *stream: int) -> FeatureMap:
    """The feature map of checked settings; `stream` makes frequencies of one seed independent.

    Raises FixError as `make_feature_map` does.
    """
    if kernel.features is None:
        raise FixError("kernel: features=None, the exact kernel, has no feature map")
    if kernel.name == "cosine":
        return Cosine(dimension, device)
    if kernel.omegas is not None:
        return GaussianFourier(kernel.omegas, device)
    if not isinstance(kernel.sigma, float):
        raise FixError(f"kernel: sigma is {kernel.sigma!r}, which samples must fix first")
    if kernel.name == "nystrom":
        if kernel.landmarks is None:
            raise FixError("kernel: the nystrom kernel needs landmarks (m, d)")
        return Nystrom(kernel.landmarks, kernel.sigma, device)
    seed = (kernel.seed, *stream) if stream else kernel.seed
    return GaussianFourier.draw(dimension, kernel.features, kernel.sigma, seed, device)


def fit_kernel(kernel: Kernel | Mapping[str, Any], *logs: Tensor) -> KernelSettings:
    """The kernel with `sigma` "median" and landmarks fixed by the first rows (n, d) of each generator.

    A generator's median distance is that over the pairs that differ among its first 1000 rows. The bandwidth is the
    lower median of the generators' own, and 1 where no rows differ. The landmarks of a nystrom kernel are the first
    `features` rows of all generators in turn. Raises FixError if the median is beyond 1e±30.
    """
    settings, fixed = KernelSettings.of(kernel), dict[str, Any]()
    if settings.sigma == MEDIAN:
        medians = sorted(found for log in logs if (found := _median_distance(log[:LARGEST_FIT])) is not None)
        # The lower of two middle ones, so that of two generators an absurdly wide one does not count.
        median = medians[(len(medians) - 1) // 2] if medians else 1.0
        if not 1.0 / LARGEST <= median <= LARGEST:
            expected = f"expected from {1.0 / LARGEST:g} to {LARGEST:g}"
            raise FixError(f"sigma: the median distance of the first samples is {median:g}, {expected}: scale them")
        fixed["sigma"] = median
    if settings.name == "nystrom" and settings.landmarks is None and settings.features is not None:
        fixed["landmarks"] = in_turn(logs, settings.features).cpu().numpy()
    return settings.model_copy(update=fixed)


def in_turn(logs: Sequence[Tensor], count: int) -> Tensor:
    """The first `count` rows of logs (n, d) taken in turn: the first row of every log stands before the second of any.

    Every initial part has equally many rows of each log, as long as the log has rows.
    """
    rows = [log[:count] for log in logs]
    turns = torch.cat([torch.arange(len(part)) for part in rows])
    return torch.cat(rows)[turns.argsort(stable=True)[:count]]


def _median_distance(rows: Tensor) -> float | None:
    """Over the pairs of rows (n, d) that differ; None where none does."""
    distances = torch.pdist(rows)
    distances = distances[distances > 0.0]
    return float(np.median(distances.cpu().numpy())) if len(distances) else None
