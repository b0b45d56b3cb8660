"""Modes and groups of prompts as plain data, each with the samples that represent it best."""

from __future__ import annotations

from dataclasses import dataclass

from optimist.numerics.estimate import natural


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """A sample, by the caller's id, and its weight in the mode or group that it is listed under."""

    id: str
    weight: float


@dataclass(frozen=True, slots=True)
class Mode:
    """An eigenvector v of C (equations.md §3c)."""

    share: float
    """Its eigenvalue; the eigenvalues of all modes sum to 1."""
    samples: tuple[WeightedSample, ...]
    """The samples of the largest u(x) = vᵀφ(x), which is their weight, −1 … 1, descending."""


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """An eigenvector v of K_T/n: a type of prompt, and how diverse the outputs to it are (equations.md §4)."""

    share: float
    """Its eigenvalue; the eigenvalues of all groups sum to 1."""
    log_score: float
    """log Vendi_α of K_X ⊙ vvᵀ."""
    prompts: tuple[WeightedSample, ...]
    """The samples whose prompts have the largest v_j², which is their weight, 0 … 1, descending."""

    @property
    def score(self) -> float:
        """Vendi_α of K_X ⊙ vvᵀ: how many kinds of output the group's prompts get."""
        return natural(self.log_score, "log")
