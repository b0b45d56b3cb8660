"""What is known of the best blend of some generators. Free of torch: policies and the API use it, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from optimist.numerics.estimate import Scale, natural
from optimist.numerics.mixtures.improvement import Improvement
from optimist.numerics.mixtures.quadratic import Floats, Quadratic


@dataclass(frozen=True, eq=False)
class Mixture:
    """The best weights, what the blend scores and gains, and by what a policy goes on.

    Values, errors, `gain` and `gap` are on the metric's `scale`; a loss is the value where lower is better, else minus
    the value. Each half of the samples (by even and odd place in the log) fits weights, and the other half scores them:
    `weights` are the mean of both, and no score is of samples that took part in the choice of its weights.
    """

    generators: tuple[str, ...]
    samples: tuple[int, ...]
    """Samples of each generator that it was made from."""
    weights: tuple[float, ...]
    """At least 0; they sum to 1."""
    value: float
    """De-biased score of the blend."""
    error: float
    """Standard error of `value`."""
    best: str
    """The best single generator, as the whole of the samples has it."""
    best_value: float
    """Its de-biased score by the same samples."""
    gain: float
    """Loss of the best single generator minus that of the blend: above 0 if blending helps."""
    gain_error: float
    slacks: tuple[float, ...]
    """h̄ − h_i: how fast the loss falls as the weight of a generator grows, by samples that took no part in the choice
    of the weights. The duality gap is the largest: no blend is better than this one by more than that."""
    slack_errors: tuple[float, ...]
    contributions: tuple[float, ...]
    """By how much the loss of the best blend without this generator is higher."""
    model: Quadratic
    """Second-order model, at `weights`, of the loss that the weights minimise, by all samples; exact for RKE and MMD.
    Its unit may be another than that of `scale`: 1/RKE for RKE."""
    deviations: tuple[float, ...]
    """Standard deviation of what a sample of each generator adds to its own entry of the gradient, in the unit of
    `model`; divided by √samples it is that entry's standard error."""
    curvature: Floats | None = None
    """K (G, G), positive semidefinite: weights that differ by d add dᵀKd to the loss on `scale` beyond the first order.
    None counts as 0."""
    covariance: Floats | None = None
    """(G, G): of the errors in the gradient on `scale`, up to a number that all entries share; None: not known."""
    scale: Scale = "linear"
    lower_is_better: bool = True
    floor: float | None = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Samples of all generators together."""
        return sum(self.samples)

    @property
    def score(self) -> float:
        """`value` on the natural scale."""
        return natural(self.value, self.scale, self.floor)

    @property
    def gap(self) -> float:
        """By how much another blend may be better, as far as the samples show."""
        return self.gap_bound(0.0)

    def gap_bound(self, z: float) -> float:
        """Upper bound of how much better another blend is, with z standard errors: `Improvement.bound`."""
        # Rounded up, so that few bounds are computed while z grows with the logarithm of time.
        return _bound(self, math.ceil(50.0 * z) / 50.0)

    def is_sound(self) -> bool:
        """Whether it may be stored: all numbers are finite, no error is negative, the weights sum to 1."""
        numbers = (self.value, self.best_value, self.gain, *self.slacks, *self.contributions, self.model.constant)
        errors = (self.error, self.gain_error, *self.slack_errors, *self.deviations)
        arrays = (*self.model.matrix.flat, *self.model.linear)
        arrays += tuple(
            number for matrix in (self.curvature, self.covariance) if matrix is not None for number in matrix.flat
        )
        return (
            all(math.isfinite(number) for number in (*numbers, *arrays))
            and all(math.isfinite(error) and error >= 0.0 for error in errors)
            and all(0.0 <= weight <= 1.0 for weight in self.weights)
            and abs(sum(self.weights) - 1.0) < 1e-9
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        tuples = {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
        tuples |= {name: value.tolist() for name, value in fields.items() if isinstance(value, np.ndarray)}
        return fields | tuples | {"model": self.model.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Mixture:
        """The inverse of `to_dict`. Fields of later versions are ignored."""
        known = {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        known |= {name: np.array(known[name]) for name in ("curvature", "covariance") if known.get(name) is not None}
        known["model"] = Quadratic.from_dict(fields["model"])
        return cls(**known)


@lru_cache(maxsize=64)
def _bound(mixture: Mixture, z: float) -> float:
    weights = np.array(mixture.weights)
    none = np.zeros((len(weights), len(weights)))
    known = Improvement(
        weights,
        np.array(mixture.slacks),
        np.array(mixture.slack_errors),
        mixture.covariance,
        none if mixture.curvature is None else mixture.curvature,
    )
    return known.bound(z)
