"""Kernels: their settings in memory, what samples fix of them, and their feature maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from optimist.anomalies.batches import LARGEST, check_number, check_whole
from optimist.metrics.feature_maps import (
    Cosine,
    ExactKernel,
    FeatureMap,
    GaussianFourier,
    Nystrom,
    check_sigma,
    matrix_of,
)
from optimist_client.errors import FixError
from optimist_client.metrics import Kernel, Metric
from optimist_client.metrics.kernel import EXACT, MEDIAN
from optimist_client.validation import in_words

AnyMetric = TypeVar("AnyMetric", bound=Metric)


class KernelSettings(Kernel):
    """A kernel that may also be given by its frequencies or landmarks, or be exact."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    features: Annotated[int, Field(ge=1)] | Literal["exact"] = 1000  # pyright: ignore[reportIncompatibleVariableOverride]
    """r, or the number of landmarks; "exact" is the kernel itself by its n × n matrix."""
    omegas: NDArray[np.float64] | None = None
    """Frequencies (d, r) of the gaussian kernel, in place of σ and a seed."""
    landmarks: NDArray[np.float64] | None = None
    """Rows (m, d) of the nystrom kernel."""

    @classmethod
    def from_kernel(cls, kernel: Any, field: str = "kernel") -> KernelSettings:
        """The settings in a mapping or a declared kernel.

        A setting that the kernel does not have must be missing or None. Raises FixError, beginning with `field`, for
        invalid settings.
        """
        if isinstance(kernel, cls):
            return kernel
        if isinstance(kernel, Kernel):
            return cls(**{name: getattr(kernel, name) for name in kernel.model_fields_set})
        if not isinstance(kernel, Mapping):
            raise FixError(f"{field}: expected a mapping such as dict(name='gaussian', sigma=10.0), got {kernel!r}")
        foreign = [f"{key}" for key in kernel if key not in cls.model_fields]
        if foreign:
            raise FixError(f"{field}: expected {', '.join(cls.model_fields)}; got {', '.join(sorted(foreign))}")
        # Numbers may be numpy's, which pydantic would refuse; strings are refused.
        given = dict(kernel)
        for key, minimum in (("features", 1), ("seed", 0)):
            if key in given and (key, given[key]) != ("features", EXACT):
                given[key] = check_whole(f"{field}: {key}", given[key], minimum)
        if given.get("sigma") is not None and given["sigma"] != MEDIAN:
            given["sigma"] = _bandwidth(f"{field}: sigma", given["sigma"])
        for key in ("omegas", "landmarks"):
            if given.get(key) is not None:
                given[key] = matrix_of(f"{field}: {key}", given[key])
        try:
            return cls(**given)
        except ValidationError as error:
            raise FixError(in_words(error, field)) from None

    @model_validator(mode="after")
    def _arrays_belong(self) -> Self:
        for name, owner in (("omegas", "gaussian"), ("landmarks", "nystrom")):
            if getattr(self, name) is not None and self.name != owner:
                raise FixError(f"the {self.described} has no {name}")
        if self.is_exact and (self.name == "nystrom" or self.omegas is not None):
            raise FixError("features='exact', the kernel itself: expected 'gaussian' with sigma, or 'cosine'")
        if self.omegas is None:
            return self
        frequencies = self.omegas.shape[1]
        if "features" in self.model_fields_set and self.features != frequencies:
            raise FixError(f"features: expected the {frequencies} of omegas, got {self.features}")
        object.__setattr__(self, "features", frequencies)
        self.model_fields_set.add("features")
        return self

    @property
    def described(self) -> str:
        """The kernel in words."""
        return "kernel with omegas" if self.name == "gaussian" and self.omegas is not None else super().described

    @property
    def has_bandwidth(self) -> bool:
        """True if the kernel has a bandwidth σ; given frequencies replace it."""
        return super().has_bandwidth and self.omegas is None

    @property
    def is_exact(self) -> bool:
        """True if it is to be computed as an n × n matrix, which is possible for one batch, not for a stream."""
        return self.features == EXACT

    @property
    def is_open(self) -> bool:
        """True while its bandwidth or its landmarks have to be computed from samples."""
        return self.sigma == MEDIAN or (self.name == "nystrom" and self.landmarks is None)

    @property
    def multiplies(self) -> bool:
        """True if the product of two kernels of this kind is of the same kind; for exact kernels it always is."""
        return super().multiplies or (self.is_exact and self.name == "cosine")

    @property
    def dimension(self) -> int | None:
        """d, if the settings determine it."""
        if self.omegas is not None:
            return self.omegas.shape[0]
        return None if self.landmarks is None else self.landmarks.shape[1]

    def width(self, dimension: int | None) -> int | None:
        """Entries of φ, as `Kernel.width`; None for the exact kernel, which has no feature map."""
        if self.is_exact:
            return None
        return len(self.landmarks) if self.landmarks is not None else super().width(dimension)


def with_settings(metric: AnyMetric) -> AnyMetric:
    """The metric with its kernels as `KernelSettings`."""
    kernels = {field: metric.setting(field) for field in metric.kernels}
    changes = {
        field: KernelSettings.from_kernel(kernel, field) for field, kernel in kernels.items() if kernel is not None
    }
    return metric.model_copy(update=changes) if changes else metric


def _bandwidth(name: str, sigma: Any) -> float:
    if isinstance(sigma, str):
        raise FixError(f"{name}: expected a number or {MEDIAN!r}, got {sigma!r}")
    return check_sigma(check_number(name, sigma))


LARGEST_FIT = 1000
"""Number of rows for the median of pairwise distances: half a million pairs."""


Device = torch.device | str


def make_feature_map(kernel: Kernel | Mapping[str, Any], dimension: int, device: Device = "cpu") -> FeatureMap:
    """The feature map of a kernel for rows of `dimension` columns (equations.md §3).

    A mapping holds name: "gaussian" (default; random Fourier features) with `sigma`, `features` (r, default 1000) and
    `seed`, or with `omegas` (d, r) as they are; "nystrom" with `landmarks` (m, d) and `sigma`; or "cosine". Raises
    FixError on anything else, and on what only samples can fix (see `fit_kernel`).
    """
    return feature_map_of(KernelSettings.from_kernel(kernel), dimension, device)


def feature_map_of(kernel: KernelSettings, dimension: int, device: Device, *stream: int) -> FeatureMap:
    """The feature map of checked settings; `stream` makes frequencies of one seed independent.

    Raises FixError as `make_feature_map` does.
    """
    if kernel.name == "cosine":
        return Cosine(dimension, device)
    if kernel.omegas is not None:
        return GaussianFourier(kernel.omegas, device)
    sigma = _fixed(kernel)
    if not isinstance(kernel.features, int):
        return ExactKernel([(dimension, sigma)], device)
    if kernel.name == "nystrom":
        if kernel.landmarks is None:
            raise FixError("kernel: the nystrom kernel needs landmarks (m, d)")
        return Nystrom(kernel.landmarks, sigma, device)
    seed = (kernel.seed, *stream) if stream else kernel.seed
    return GaussianFourier.draw(dimension, kernel.features, sigma, seed, device)


def exact_map(kernel: KernelSettings, dimension: int, device: Device) -> ExactKernel:
    """A kernel itself, as a factor of others. Raises FixError while its bandwidth is open."""
    return ExactKernel([(dimension, None if kernel.name == "cosine" else _fixed(kernel))], device)


def _fixed(kernel: KernelSettings) -> float:
    if not isinstance(kernel.sigma, float):
        raise FixError(f"kernel: sigma is {kernel.sigma!r}, which samples must fix first")
    return kernel.sigma


def fit_kernel(kernel: Kernel | Mapping[str, Any], *logs: Tensor) -> KernelSettings:
    """The kernel with `sigma` "median" and landmarks fixed by the first rows (n, d) of each generator.

    A generator's median distance is that over the pairs that differ among its first 1000 rows. The bandwidth is the
    lower median of the generators' own, and 1 where no rows differ. The landmarks of a nystrom kernel are the first
    `features` rows of all generators in turn. Raises FixError if the median is beyond 1e±30.
    """
    settings, fixed = KernelSettings.from_kernel(kernel), dict[str, Any]()
    if settings.sigma == MEDIAN:
        medians = sorted(distance for log in logs if (distance := _median_distance(log[:LARGEST_FIT])) is not None)
        # The lower of two middle ones: of two generators an absurdly wide one does not count.
        median = medians[(len(medians) - 1) // 2] if medians else 1.0
        if not 1.0 / LARGEST <= median <= LARGEST:
            expected = f"expected from {1.0 / LARGEST:g} to {LARGEST:g}"
            raise FixError(f"sigma: the median distance of the first samples is {median:g}, {expected}: scale them")
        fixed["sigma"] = median
    if settings.name == "nystrom" and settings.landmarks is None and isinstance(settings.features, int):
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
    """The median distance over the pairs of rows (n, d) that differ; None where none does."""
    distances = torch.pdist(rows)
    distances = distances[distances > 0.0]
    return float(np.median(distances.cpu().numpy())) if len(distances) else None
