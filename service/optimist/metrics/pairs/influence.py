"""De-biased prompt-conditioned scores and their errors, from those of each entropy (decisions.md §2).

A score is a signed sum of entropies (equations.md §4), and each entropy is de-biased by the recipe of its order (see
`kernel.influence`). The estimate is the signed sum of theirs. Its errors:

- First order: the influence function of a sum is the sum of the influence functions. All entropies see the same pairs
  in the same order, so IF_i = Σ ± IF_i of each over the last 512, and Var(IF)/n includes all covariances.
- Second order: at order 2 the same, over the pairs of the last φ. The other recipes give only a variance: they add.
- The part of each correction that is in doubt, e, above order 2: H(X, T) and H(X) miss the same rare outputs, so the
  errors of their corrections are nearly equal and cancel in H(X) − H(X, T); that of H(T) does not. Squared:
  (Σ_outputs ± e)² + e_T², plus the square of a tenth of every e, because the cancellation is not exact.
- Systematic, below order 2: the errors of the entropies add in squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optimist.metrics.pairs.statistic import JointStatistic, Part
from optimist.metrics.vendi.influence import (
    EntropyInfluence,
    KernelAnalysis,
    entropy_influence,
    few_rows,
    pair_variance,
    with_errors,
)

if TYPE_CHECKING:
    from optimist.metrics.pairs.score import ConditionedScore

UNSHARED = 0.1
"""The part of every doubt that does not cancel between entropies."""


def analyse_conditioned(
    metric: ConditionedScore, statistic: JointStatistic, common: Mapping[str, Tensor] | None = None
) -> KernelAnalysis:
    """The analysis of n ≥ 2 pairs, in log, with the influence of the pairs `common` as `analyse_paired` takes them.

    Raises FixError on fewer, on a statistic of another metric, and on missing halves.
    """
    parts = metric.parts(statistic)
    rows = {part: [] for part in parts} if common is None else _rows_of_parts(common)
    found = {part: entropy_influence(metric.entropies[part], of_part, *rows[part]) for part, of_part in parts.items()}
    whole, n = _signed_sum(found, metric.terms), statistic.samples
    few = few_rows(metric.order, n, metric.width)
    return with_errors(whole, n, few, statistic.listed, None if common is None else common.get("listed"))


def _rows_of_parts(common: Mapping[str, Tensor]) -> dict[Part, list[Tensor]]:
    """The rows that each part's map takes, of pairs "features" (m, d) and "prompts" (m, d_t)."""
    # In float64 first, so that neither is rounded to the other's dtype.
    features, prompts = common["features"].double(), common["prompts"].double()
    return {"features": [features], "prompts": [prompts], "joint": [torch.cat([features, prompts], -1)]}


def _signed_sum(found: Mapping[Part, EntropyInfluence], signs: Mapping[Part, float]) -> EntropyInfluence:
    """The recipes' results combined for Σ ± H; the doubt is now without sign."""
    terms = [(signs[part], entropy) for part, entropy in found.items()]
    pairs = [sign * entropy.pairs for sign, entropy in terms if entropy.pairs is not None]

    return EntropyInfluence(
        plug_in=sum(sign * entropy.plug_in for sign, entropy in terms),
        estimate=sum(sign * entropy.estimate for sign, entropy in terms),
        influence=torch.stack(torch.broadcast_tensors(*(sign * entropy.influence for sign, entropy in terms))).sum(0),
        inflation=max(entropy.inflation for _, entropy in terms),
        second_order=(
            pair_variance(torch.stack(pairs).sum(0)) if pairs else sum(entropy.second_order for _, entropy in terms)
        ),
        doubt=_doubt_of_sum({part: signs[part] * entropy.doubt for part, entropy in found.items()}),
        systematic=math.hypot(*(entropy.systematic for _, entropy in terms)),
        bracket=_signed_bracket(terms),
        common=[
            torch.stack(each).sum(0)
            for each in zip(*([sign * part for part in entropy.common] for sign, entropy in terms), strict=True)
        ],
    )


def _doubt_of_sum(doubts: dict[Part, float]) -> float:
    """That of Σ ± H, from those of the signed entropies."""
    unshared = UNSHARED**2 * sum(each**2 for each in doubts.values())
    of_outputs = sum(doubt for part, doubt in doubts.items() if part != "prompts")
    return math.sqrt(doubts["prompts"] ** 2 + of_outputs**2 + unshared)


def _signed_bracket(terms: Sequence[tuple[float, EntropyInfluence]]) -> tuple[float, float] | None:
    """The bracket of Σ ± H, as wide as those of all H together; None if one of them has none."""
    low = high = 0.0
    for sign, entropy in terms:
        if entropy.bracket is None:
            return None
        least, most = sorted(sign * end for end in entropy.bracket)
        low, high = low + least, high + most
    return low, high
