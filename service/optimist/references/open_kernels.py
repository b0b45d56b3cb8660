"""Open kernels, which the first samples fix once: how many samples are needed. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable

from optimist_client.metrics import Kernel
from optimist_client.metrics.kernel import MEDIAN


def map_size(kernel: Kernel, dimension: int) -> int:
    """Size in numbers of a kernel's feature map, for rows of `dimension` columns."""
    # Landmarks, and the root of their kernel.
    sizes = {
        "gaussian": dimension * kernel.features,
        "nystrom": (dimension + kernel.features) * kernel.features,
        "cosine": 0,
    }
    return sizes[kernel.name]


def rows_to_fit(kernels: Iterable[Kernel], generators: int) -> int:
    """The number of samples that each of `generators` must have before `kernels` can be fixed: 0 where nothing is open.

    The first samples of every generator's log are used, so that every process computes the same kernels at any time.
    """
    needed = 0
    for kernel in kernels:
        if kernel.is_open:
            landmarks = kernel.features if kernel.name == "nystrom" else 0
            # The distances of 256 samples, of all generators together, give the bandwidth `median`.
            needed = max(needed, landmarks, 256 if kernel.sigma == MEDIAN else 0)
    return max(2, -(-needed // generators)) if needed else 0
