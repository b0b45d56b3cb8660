"""Kernels that are fixed once, from the first samples: what has to be fixed, and when. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MEDIAN = "median"
MEDIAN_ROWS = 256
"""Samples, of all generators together, whose distances give the bandwidth `median`."""
DEFAULT_FEATURES = 1000


def is_open(kernel: Mapping[str, Any]) -> bool:
    """Whether the kernel's bandwidth is `median`, or its landmarks are still to be taken from samples."""
    return kernel.get("sigma") == MEDIAN or (kernel.get("name") == "nystrom" and kernel.get("landmarks") is None)


def map_size(kernel: Mapping[str, Any], dimension: int) -> int:
    """Numbers that the feature map of a kernel holds, for rows of `dimension` columns."""
    features = kernel.get("features", DEFAULT_FEATURES)
    # Landmarks, and the root of their kernel.
    sizes = {"gaussian": dimension * features, "nystrom": (dimension + features) * features, "cosine": 0}
    return sizes[kernel.get("name", "gaussian")]


def rows_to_fit(kernels: Iterable[Mapping[str, Any]], generators: int) -> int:
    """How many samples each of `generators` must have before `kernels` can be fixed: 0 where nothing is open.

    The first so many of every generator's log are taken, so that whoever fixes the kernels, whenever, gets the same.
    """
    needed = 0
    for kernel in filter(is_open, kernels):
        landmarks = kernel.get("features", DEFAULT_FEATURES) if kernel.get("name") == "nystrom" else 0
        needed = max(needed, landmarks, MEDIAN_ROWS if kernel.get("sigma") == MEDIAN else 0)
    return max(2, -(-needed // generators)) if needed else 0
