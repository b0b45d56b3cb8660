"""The feature maps of pairs of a sample and its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.vendi.maps import Device, feature_map_of
from optimist.metrics.vendi.settings import KernelSettings
from optimist_client.errors import FixError
from optimist_client.metrics import Kernel


def pair_maps(
    kernel: Kernel | Mapping[str, Any],
    prompt_kernel: Kernel | Mapping[str, Any],
    dimension: int,
    prompt_dimension: int,
    device: Device = "cpu",
) -> tuple[GaussianFourier, GaussianFourier]:
    """The feature maps of samples and of prompts, each with its own number of frequencies, drawn apart.

    Raises FixError as `make_feature_map` does, and on kernels that are not gaussian.
    """
    features = feature_map_of(KernelSettings.of(kernel), dimension, device)
    # With one stream of normals the frequencies of samples and prompts would be dependent.
    prompts = feature_map_of(KernelSettings.of(prompt_kernel, "prompt_kernel"), prompt_dimension, device, 1)
    if not (isinstance(features, GaussianFourier) and isinstance(prompts, GaussianFourier)):
        raise FixError("kernel: scores of pairs need gaussian kernels, whose product is gaussian, too")
    return features, prompts
