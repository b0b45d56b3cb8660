"""The feature maps of pairs of a sample and its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from optimist.numerics.feature_maps import GaussianFourier
from optimist.numerics.kernel.maps import feature_map_of
from optimist.numerics.kernel.settings import pair_settings


def pair_maps(
    kernel: Mapping[str, Any],
    prompt_kernel: Mapping[str, Any],
    dimension: int,
    prompt_dimension: int,
    device: torch.device | str = "cpu",
) -> tuple[GaussianFourier, GaussianFourier]:
    """The feature maps of samples and of prompts, with the kernel's number of frequencies, drawn apart.

    Raises ValueError as `make_feature_map` does, and on kernels that are not gaussian, or not of one r.
    """
    of_samples, of_prompts = pair_settings(kernel, prompt_kernel)
    features = feature_map_of(of_samples, dimension, device)
    # One stream of normals for both would tie the frequencies of samples and prompts together.
    prompts = feature_map_of(of_prompts, prompt_dimension, device, 1)
    assert isinstance(features, GaussianFourier), "pair_settings takes no others"
    assert isinstance(prompts, GaussianFourier), "pair_settings takes no others"
    return features, prompts
