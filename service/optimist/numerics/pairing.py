"""What an estimate carries to be compared with a generator of the same seeds or prompts (paired sampling). No torch.

Index i means the same prompt and the same seed for every generator. The influence values of the same indices therefore
show how much the chance in two estimates is the same.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

COMMON = 256
"""Indices 0 … 255 are compared: all generators have them in common, whatever their counts."""
TRAIL = 64
"""Earlier estimates that are kept."""
TRAIL_GROWTH = 0.04
"""An estimate joins the trail once the samples have grown by this fraction since the last one there. It is the default
growth of estimates: of generators in lockstep the one ahead then has an earlier estimate at the count of the other.
Where every second one was missing (0.08), more exact ties were decided."""


class Earlier(NamedTuple):
    """An estimate of the same generator from fewer samples, which had all indices from 0 on."""

    samples: int
    value: float
    variance: float
    """Variance of the estimate by sampling, sd_select² without the systematic part."""
    first_order: float
    """As in `Pairing`."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The part of an estimate that is needed to compare it with others by index.

    All of it belongs to the estimate's own position in the log, so that the same log gives the same numbers.
    """

    influence: NDArray[np.float32]
    """Influence of the samples of indices 0 … 255 on the value, linearised at this estimate (256,); NaN where not told.
    An additive constant has no meaning."""
    first_order: float
    """Share of the sampling variance that is linear in the samples, V₁/(V₁ + V₂), in [0, 1]."""
    systematic_selection: float = 0.0
    """The part of sd_select that more samples in common do not reduce, a standard deviation."""
    systematic_stopping: float = 0.0
    """The same of sd_stop."""
    end: int = 0
    """1 + the largest index told; equal to the samples if none is missing."""
    unindexed: int = 0
    """Samples that count without an index of their own: told without a pick, or beyond what it asked for."""
    trail: tuple[Earlier, ...] = ()
    """Earlier estimates at counts that depend on nothing else, by samples."""
    reference: NDArray[np.float32] | None = None
    """`Analysis.reference` (k,): what the choice of the reference adds to the variance of a difference; None: 0."""

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Pairing) else NotImplemented

    def is_sound(self) -> bool:
        """Whether every number may be stored; an influence may be NaN."""
        numbers = [self.first_order, self.systematic_selection, self.systematic_stopping]
        numbers += [number for past in self.trail for number in (past.value, past.variance, past.first_order)]
        infinite = bool(np.isinf(self.influence).any())
        return all(map(math.isfinite, numbers)) and not infinite and bool(np.isfinite(self.reference_values).all())

    @property
    def reference_values(self) -> NDArray[np.float32]:
        """`reference`, or no values."""
        return np.zeros(0, np.float32) if self.reference is None else self.reference

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: arrays as base64 of little-endian float32 (influence) and float64 (trail, (k, 4))."""
        trail = [(past.samples, past.value, past.variance, past.first_order) for past in self.trail]
        found = {
            "influence": _packed(self.influence, "<f4"),
            "first_order": self.first_order,
            "systematic": [self.systematic_selection, self.systematic_stopping],
            "end": self.end,
            "unindexed": self.unindexed,
            "trail": _packed(np.array(trail), "<f8"),
        }
        return found if self.reference is None else {**found, "reference": _packed(self.reference, "<f4")}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Pairing:
        """The inverse of `to_dict`. Fields of later versions are ignored."""
        selection, stopping = fields["systematic"]
        trail = _unpacked(fields["trail"], "<f8").reshape(-1, 4).tolist()
        return cls(
            influence=_unpacked(fields["influence"], "<f4"),
            first_order=fields["first_order"],
            systematic_selection=selection,
            systematic_stopping=stopping,
            end=fields["end"],
            unindexed=fields["unindexed"],
            trail=tuple(Earlier(int(samples), *rest) for samples, *rest in trail),
            reference=_unpacked(fields["reference"], "<f4") if "reference" in fields else None,
        )


def _packed(array: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(array.astype(dtype).tobytes()).decode()


def _unpacked(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype)
