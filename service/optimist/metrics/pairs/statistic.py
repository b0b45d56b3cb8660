"""The feature maps and the statistic of pairs: kernel statistics of outputs, of prompts, and of both together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from optimist.metrics.base import Statistic
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.rows import check_rows
from optimist.metrics.vendi.kernels import Device, KernelSettings, feature_map_of
from optimist.metrics.vendi.listed import ListedPrompts
from optimist.metrics.vendi.statistic import KernelStatistic
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
    features = feature_map_of(KernelSettings.from_kernel(kernel), dimension, device)
    # With one stream of normals the frequencies of samples and prompts would be dependent.
    prompts = feature_map_of(KernelSettings.from_kernel(prompt_kernel, "prompt_kernel"), prompt_dimension, device, 1)
    if not (isinstance(features, GaussianFourier) and isinstance(prompts, GaussianFourier)):
        raise FixError("kernel: scores of pairs need gaussian kernels, whose product is gaussian, too")
    return features, prompts


EntropyName = str
"""An entropy by its statistic: "joint", "prompts" or "features"."""


def joint_map(features: GaussianFourier, prompts: GaussianFourier) -> GaussianFourier:
    """φ_XT of rows [x, t] (n, d + d_t): frequency i is (ω_X,i, ω_T,i) (equations.md §4).

    Raises FixError unless both maps have the same r.
    """
    if features.width != prompts.width:
        counts = f"{features.width // 2} and {prompts.width // 2}"
        raise FixError(f"features and prompts need the same number of frequencies, not {counts}")
    return GaussianFourier(torch.cat([features.omegas, prompts.omegas.to(features.device)]), features.device)


class JointStatistic(Statistic):
    """Σ φφᵀ of φ_XT, of φ_T and, unless `marginal` is False, of φ_X, over a stream of pairs (x, t) (equations.md §4).

    Each is a `KernelStatistic` of the same pairs in the same order, with the same `last` and `halves`. Without the
    marginal `features` is None: Conditional-Vendi does not need it, and it is a third of the work and the memory.
    `joint` is the `joint_map` of both where it is made already: statistics of one metric share it. `list_length`: of
    the list that the prompts are, if they are one. Raises FixError on maps of different r, or on `last` below 0.
    """

    held = ("samples", "joint", "prompts", "features")

    def __init__(
        self,
        features: GaussianFourier,
        prompts: GaussianFourier,
        *,
        last: int = 512,
        halves: bool = False,
        marginal: bool = True,
        joint: GaussianFourier | None = None,
        list_length: int | None = None,
    ) -> None:
        self.joint = KernelStatistic(
            joint or joint_map(features, prompts), last=last, halves=halves, prompts=list_length
        )
        self.prompts = KernelStatistic(prompts, last=last, halves=halves, prompts=list_length)
        self.features = KernelStatistic(features, last=last, halves=halves, prompts=list_length) if marginal else None
        self.list_length = list_length
        self.dimension, self.prompt_dimension = features.dimension, prompts.dimension
        self.width = self.joint.width
        """2r, the columns of every φ."""
        self.layout = (features.dimension, prompts.dimension, self.width, last)

    @property
    def listed(self) -> ListedPrompts | None:
        """Which prompt of a fixed list each pair belongs to, if there is one."""
        return self.joint.listed

    def update(self, features: Tensor, prompts: Tensor, *, listed: Tensor | None = None) -> None:
        """Add a batch of pairs: rows (b, d) and (b, d_t) of any real dtype, b ≥ 1; `listed` as in `KernelStatistic`.

        Raises FixError, changing nothing, on anything else.
        """
        check_rows("features", features, self.dimension)
        check_rows("prompts", prompts, self.prompt_dimension)
        if len(features) != len(prompts):
            raise FixError(f"expected as many prompts as features, not {len(prompts)} for {len(features)}")
        # Converted to float64 here, so that neither is rounded to the other's dtype.
        features, prompts = (rows.to(self.joint.feature_map.device, torch.float64) for rows in (features, prompts))
        self.joint.update(torch.cat([features, prompts], -1), listed=listed)
        self.prompts.update(prompts, listed=listed)
        if self.features is not None:
            self.features.update(features, listed=listed)
        self.samples = self.joint.samples
