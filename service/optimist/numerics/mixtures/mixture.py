"""What is known of the best blend of some generators. Free of torch: policies and the API use it, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimist.numerics.estimate import Scale, natural
from optimist.numerics.mixtures.quadratic import Quadratic

LEAST_SAMPLES = 4
"""Samples that each generator of a mixture needs: two in each half. As in `records.LEAST_MIXED`."""


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
    """By how much the loss of the best blend without this generator is higher, by `model`."""
    model: Quadratic
    """Second-order model, at `weights`, of the loss that the weights minimise, by all samples; exact for RKE and MMD.
    Its unit may be another than that of `scale`: 1/RKE for RKE. For published policies it is that of the papers'
    estimates, at the weights that are best by these."""
    deviations: tuple[float, ...]
    """Standard deviation of what a sample of each generator adds to its own entry of the gradient, in the unit of
    `model`; divided by √samples it is that entry's standard error."""
    bounds: tuple[tuple[float, float], ...] = ()
    """Pairs (z, `Improvement.bound(z)`) with rising z, computed once, as each takes some quadratic programmes."""
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
        """Upper bound of how much better another blend is, with z standard errors: between two of `bounds` on the line
        that joins them, beyond the last the largest slack with its errors.
        """
        if self.bounds and z <= self.bounds[-1][0]:
            points, values = zip(*self.bounds, strict=True)
            return float(np.interp(z, points, values))
        ends = (slack + z * error for slack, error in zip(self.slacks, self.slack_errors, strict=True))
        return max(0.0, *ends)

    def is_sound(self) -> bool:
        """Whether it may be stored: all numbers are finite, no error is negative, the weights sum to 1."""
        numbers = (self.value, self.best_value, self.gain, *self.slacks, *self.contributions, self.model.constant)
        errors = (self.error, self.gain_error, *self.slack_errors, *self.deviations)
        arrays = (*self.model.matrix.flat, *self.model.linear)
        arrays += tuple(bound for _, bound in self.bounds)
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
        return fields | tuples | {"model": self.model.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Mixture:
        """The inverse of `to_dict`. Fields of later versions are ignored."""
        known = {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        known["bounds"] = tuple((z, bound) for z, bound in fields.get("bounds", ()))
        known["model"] = Quadratic.from_dict(fields["model"])
        return cls(**known)
