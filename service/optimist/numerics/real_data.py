"""What is known of real data, and the interface of what a metric makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.batches import check_rows
from optimist.numerics.moments import moments_of_features
from optimist.numerics.plausibility import reference_scale
from optimist_client.errors import FixError
from optimist_client.references import Moments, moments_from, some_of


@dataclass(frozen=True, eq=False)
class RealData:
    """Real data as it is stored: the moments of all its features, float64, and the rows where they were kept.

    A metric that needs rows refuses data without them, see `Implementation.reference`. `samples` and `some_rows` follow
    from the rows where these are given.
    """

    mean: NDArray[Any]
    """(d,)"""
    covariance: NDArray[Any]
    """(d, d), the unbiased one where it was computed from rows."""
    rows: NDArray[Any] | None = None
    """(m, d)"""
    samples: int | None = None
    """m, the number of real samples behind the moments; None if it is not known."""
    some_rows: NDArray[Any] | None = None
    """A random choice of the rows (k ≤ 256, d), float32 (`references.some_of`); None where only moments are known."""

    def __post_init__(self) -> None:
        if self.rows is not None:
            object.__setattr__(self, "samples", len(self.rows))
            object.__setattr__(self, "some_rows", some_of(self.rows))

    @classmethod
    def of_rows(cls, name: str, rows: NDArray[np.floating]) -> Self:
        """Real features (m ≥ 2, d ≥ 1) with their moments. Raises `FixError`, beginning with `name`, for others."""
        mean, covariance = moments_of_features(name, rows)
        return cls(mean, covariance, np.asarray(rows, dtype=np.float64))

    @classmethod
    def of_moments(cls, moments: Moments) -> Self:
        """Moments with what is known of their rows. Raises FixError for such rows that no reference may have.

        The numbers of the moments are not checked.
        """
        if moments.some_rows is not None:
            check_rows("some_rows", moments.some_rows, len(moments.mean))
        mean, covariance, samples, some_rows = moments
        return cls(mean, covariance, samples=samples, some_rows=some_rows)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The data in `arrays`. Raises FixError for others."""
        rest = dict(arrays)
        rows = rest.pop("features", None)
        moments = moments_from(rest)
        if moments is None:
            raise FixError(f"expected mean and covariance, found {', '.join(arrays)}")
        if rows is None:
            return cls.of_moments(moments)
        return cls(moments.mean, moments.covariance, rows.astype(np.float64))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The data by name, as it is stored: moments, and `features` where rows are held, or what is known of them."""
        if self.rows is None:
            return self.moments.arrays
        return {"mean": self.mean, "covariance": self.covariance, "features": self.rows}

    @property
    def moments(self) -> Moments:
        """The data with some of its rows only, which take little memory."""
        return Moments(self.mean, self.covariance, self.samples, self.some_rows)

    def without_rows(self) -> Self:
        """The same as real data."""
        return replace(self, rows=None)

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.mean)

    @property
    def scale(self) -> float:
        """The root mean square of the features' entries, as `plausibility.reference_scale` has it."""
        return reference_scale(self.mean, self.covariance)

    def rows_for(self, metric: str) -> NDArray[Any]:
        """The rows (m, d). Raises FixError, naming the metric that needs them, if they were not kept."""
        if self.rows is None:
            raise FixError(
                f"reference: metric {metric!r} compares samples with the rows of real features (n, d), "
                "and only their mean and covariance are known"
            )
        return self.rows


@runtime_checkable
class Reference(Protocol):
    """What a metric has made of real data, once: moments with their eigenbasis, a mean map, rows, radii."""

    @property
    def dimension(self) -> int:
        """The columns of the features that it is compared with."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes of its tensors, including those computed on demand so far."""
        ...
