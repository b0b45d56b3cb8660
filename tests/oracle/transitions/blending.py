"""Samples shared out between generators, so that all that were ever shared out make the mixture."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.policies.mixture_policy import blend_counts
from optimist.records import NotFound
from tests.oracle.oracle import Oracle
from tests.oracle.rows import BLENDED, BLENDS, EndRow
from tests.oracle.transitions.controls import root_of


def blend(oracle: Oracle, request: str, weights: Mapping[int, float], size: int) -> dict[int, int]:
    """How many of the next `size` samples each generator makes. weights: by ordinal, at least 0.

    request: a repeat gets the same answer, as long as it is among the newest. Raises NotFound for an unknown generator.
    """
    root_of(oracle)
    if (before := oracle.read(BLENDS, request)) is not None:
        return dict(zip(weights, before.answer, strict=False))
    if unknown := [g for g in weights if g not in oracle.tables.generators]:
        raise NotFound(f"there is no generator {unknown[0]}")
    credits = [oracle.read(BLENDED, g) or 0.0 for g in weights]
    counts, credits = blend_counts(list(weights.values()), credits, size)
    for g, credit in zip(weights, credits, strict=True):
        oracle.put(BLENDED, g, credit)
    oracle.put(BLENDS, request, EndRow("", "", tuple(counts)))
    return dict(zip(weights, counts, strict=True))
