"""Kernels in memory: the settings of a declared kernel, plus arrays, which the wire does not allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator

from optimist.metrics.feature_maps import check_sigma
from optimist.metrics.real_arrays import real_array
from optimist.numerics.batches import check_rows
from optimist.numerics.checks import check_number, check_whole
from optimist_client.errors import FixError
from optimist_client.metrics import Kernel, Metric
from optimist_client.metrics.kernel import MEDIAN
from optimist_client.validation import in_words

AnyMetric = TypeVar("AnyMetric", bound=Metric)


class KernelSettings(Kernel):
    """A kernel that may also be given by its frequencies or landmarks, or be exact (`features` None)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    features: Annotated[int, Field(ge=1)] | None = 1000  # pyright: ignore[reportIncompatibleVariableOverride]
    """r, or the number of landmarks; None is the exact kernel by its n × n matrix."""
    omegas: NDArray[np.float64] | None = None
    """Frequencies (d, r) of the gaussian kernel, in place of σ and a seed."""
    landmarks: NDArray[np.float64] | None = None
    """Rows (m, d) of the nystrom kernel."""

    @classmethod
    def of(cls, kernel: Any, field: str = "kernel") -> KernelSettings:
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
        for key, least in (("features", 1), ("seed", 0)):
            if key in given and (key, given[key]) != ("features", None):
                given[key] = check_whole(f"{field}: {key}", given[key], least)
        if given.get("sigma") is not None and given["sigma"] != MEDIAN:
            given["sigma"] = _bandwidth(f"{field}: sigma", given["sigma"])
        for key in ("omegas", "landmarks"):
            given[key] = _matrix(f"{field}: {key}", given.get(key))
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
            raise FixError("features=None, the exact kernel: expected 'gaussian' with sigma, or 'cosine'")
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
        """Whether the kernel has a bandwidth σ; given frequencies replace it."""
        return super().has_bandwidth and self.omegas is None

    @property
    def is_exact(self) -> bool:
        """Whether it is to be computed as an n × n matrix, which is possible for one batch, not for a stream."""
        return self.features is None

    @property
    def is_open(self) -> bool:
        """Whether its bandwidth or its landmarks have still to be computed from samples."""
        return self.sigma == MEDIAN or (self.name == "nystrom" and self.landmarks is None)

    @property
    def multiplies(self) -> bool:
        """Whether the product of two kernels of this kind is of the same kind; for exact kernels it always is."""
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
    changes = {field: KernelSettings.of(kernel, field) for field, kernel in kernels.items() if kernel is not None}
    return metric.model_copy(update=changes) if changes else metric


def _bandwidth(name: str, sigma: Any) -> float:
    if isinstance(sigma, str):
        raise FixError(f"{name}: expected a number or {MEDIAN!r}, got {sigma!r}")
    return check_sigma(check_number(name, sigma))


def _matrix(name: str, values: Any) -> NDArray[np.float64] | None:
    if values is None:
        return None
    matrix = real_array(name, values)
    if matrix.ndim != 2 or matrix.size == 0:
        raise FixError(f"{name}: expected a matrix with entries, got shape {matrix.shape}")
    check_rows(name, matrix, matrix.shape[1])
    return matrix
