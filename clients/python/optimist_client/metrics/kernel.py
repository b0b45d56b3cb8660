"""Kernels, and the scores of one kernel: RKE and Vendi."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from optimist_client.errors import FixError
from optimist_client.metrics.base import Dimension, Metric, declare
from optimist_client.validation import brief, is_mapping
from optimist_client.wire import Wire

MEDIAN = "median"
"""The bandwidth that is fitted to the first samples: the median of the generators' median distances."""
EXACT = "exact"
"""In place of r: the kernel itself, by its n × n matrix."""
MAX_FEATURES = 8192
"""The largest r of an experiment."""
Bandwidth = Annotated[float, Field(ge=1e-29, le=1e30, strict=True)]
"""σ of a kernel. Within these limits the size of its frequencies, normals divided by σ, is accepted."""
EntropyOrder = Annotated[float, Field(ge=1e-6)]
Truncation = Annotated[int, Field(ge=1)]


class Kernel(Wire):
    """A kernel by its feature map: `gaussian` by random Fourier features, `nystrom` or `cosine` (equations.md §3)."""

    name: Literal["gaussian", "nystrom", "cosine"] = "gaussian"
    """`gaussian` and `nystrom` approximate the same kernel; `cosine` is exact."""
    sigma: Bandwidth | Literal["median"] | None = None
    """Bandwidth of the Gaussian kernel exp(−‖x − y‖²/(2σ²)), or "median" (of the generators' median distances)."""
    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)] = 1000
    """r, the number of random frequencies (φ has 2r entries); for `nystrom` the number of landmarks."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the frequencies, which are the same in every process."""

    @model_validator(mode="before")
    @classmethod
    def _settings(cls, data: Any) -> Any:
        if isinstance(data, Kernel) or is_mapping(data):
            return data
        example = "Gaussian(sigma=10), or {'name': 'gaussian', 'sigma': 10}"
        raise FixError(f"expected a kernel with its settings, such as {example}; got {brief(data)}")

    @field_validator("features", mode="before")
    @classmethod
    def _suits_a_stream(cls, features: Any) -> Any:
        if features == EXACT and cls is Kernel:
            raise FixError(
                f"{EXACT!r}, the kernel itself by the n × n matrix of all samples, is for RKE, Vendi and scores of "
                "pairs in memory (`score`, `contrast`, `compare`); an experiment scores a stream of any length: give r"
            )
        return features

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.has_bandwidth and self.sigma is None:
            raise FixError(f"the {self.name} kernel needs sigma, its bandwidth: a number above 0, or {MEDIAN!r}")
        if not self.has_bandwidth and self.sigma is not None:
            raise FixError(f"the {self.described} has no sigma")
        # Compared with the defaults instead of `model_fields_set`: a stored kernel sets all of its fields.
        drawn = [name for name in ("features", "seed") if getattr(self, name) not in (EXACT, _default(name))]
        if self.name == "cosine" and drawn:
            raise FixError(f"{', '.join(drawn)}: the cosine kernel draws nothing, its features are the rows themselves")
        return self

    @property
    def described(self) -> str:
        """The kernel's name for messages."""
        return f"{self.name} kernel"

    @property
    def has_bandwidth(self) -> bool:
        """True if the kernel has a σ."""
        return self.name != "cosine"

    @property
    def is_open(self) -> bool:
        """True if its bandwidth or its landmarks are still to be fitted to the first samples."""
        return self.sigma == MEDIAN or self.name == "nystrom"

    @property
    def multiplies(self) -> bool:
        """True if its product with another kernel of this kind is again of this kind, as scores of pairs require."""
        return self.name == "gaussian"

    def width(self, dimension: int | None) -> int | None:
        """Entries of φ for features of this dimension: the largest rank that the kernel's covariance can have.

        None for the cosine kernel if the dimension is unknown.
        """
        return {"gaussian": 2 * self.features, "nystrom": self.features, "cosine": dimension}[self.name]


def _default(field: str) -> object:
    return Kernel.model_fields[field].default


def Gaussian(sigma: float | Literal["median"], features: int = 1000, seed: int = 0) -> Kernel:
    """The kernel exp(−‖x − y‖²/(2σ²)) by random Fourier features: `features` frequencies drawn from `seed`."""
    return Kernel(name="gaussian", sigma=_as_sigma(sigma), features=features, seed=seed)


def Nystrom(sigma: float | Literal["median"], features: int = 1000) -> Kernel:
    """The Gaussian kernel, approximated from `features` landmarks: the first samples of all generators together."""
    return Kernel(name="nystrom", sigma=_as_sigma(sigma), features=features)


def Cosine() -> Kernel:
    """The kernel xᵀy / (‖x‖ ‖y‖), exact."""
    return Kernel(name="cosine")


def _as_sigma(sigma: float | Literal["median"]) -> float | Literal["median"]:
    return float(sigma) if isinstance(sigma, int) and not isinstance(sigma, bool) else sigma


class OneKernel(Metric):
    """The base class of the scores of one kernel."""

    arrays = {"features": "dimension"}
    scale = "log"
    floor = 0.0
    positive = True
    bounds = {"influence": frozenset(), "theorem": frozenset()}
    needs = frozenset({"dimension", "kernel"})
    kernels = {"kernel": "features"}
    offers = frozenset({"modes", "mixtures"})

    dimension: Dimension | None = None
    """Number of columns of the features; required for an experiment."""
    kernel: Kernel | None = None
    """Kernel of the features; required for an experiment."""


@declare
class RKE(OneKernel):
    """The number of modes, by the order-2 entropy of their shares."""

    name = "rke"
    implementation = "optimist.metrics.vendi.declared"
    title = "RKE"
    presets = {"rke-ucb": "theorem"}

    @property
    def scores_lists(self) -> bool:
        """Always, as its order is 2."""
        return True


class _Offered:
    """Displays of a Vendi score: a mixture only where the score is a smooth function of the whole spectrum."""

    def __get__(self, metric: Vendi | None, kind: type[Vendi]) -> frozenset[str]:
        is_smooth = metric is None or (metric.truncation is None and metric.order < math.inf)
        return OneKernel.offers if is_smooth else OneKernel.offers - {"mixtures"}


@declare
class Vendi(OneKernel):
    """The diversity of the samples: the exponential of the entropy of the kernel's spectrum."""

    name = "vendi"
    implementation = "optimist.metrics.vendi.declared"
    title = "Vendi"
    presets = {"vendi-ucb": "theorem"}
    offers = _Offered()  # pyright: ignore[reportAssignmentType]

    order: EntropyOrder = 1.0
    """α of the Vendi score, at least 1e-6; with infinity, only the largest eigenvalue counts."""
    truncation: Truncation | None = None
    """t of the truncated Vendi score: only the t largest eigenvalues count."""

    @model_validator(mode="after")
    def _truncates(self) -> Self:
        width = None if self.kernel is None else self.kernel.width(self.dimension)
        if self.truncation is not None and width is not None and self.truncation > width:
            raise FixError(f"truncation must lie between 1 and the {width} features, not {self.truncation}")
        return self

    @property
    def scores_lists(self) -> bool:
        """Only at order 2, where it is RKE."""
        return self.order == 2.0 and self.truncation is None

    def check_bound(self, bound: str) -> None:
        """Raise FixError if there is no such bound, and for `theorem` if the order is below 1."""
        super().check_bound(bound)
        if bound == "theorem" and self.order < 1:
            raise FixError(f"order: no theorem bounds the Vendi score of order {self.order:g}; it needs at least 1")
