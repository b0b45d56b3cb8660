"""The score of a generator by type of prompt. No I/O."""

from __future__ import annotations

from optimist.metrics.feature_maps import FeatureMap
from optimist.metrics.modes import PromptGroup
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.vendi.entropy import log_vendi, spectrum_of_rows
from optimist.metrics.vendi.modes import check_counts, largest, leading, rows_of


def prompt_groups(
    features_map: FeatureMap,
    prompts_map: FeatureMap,
    reservoir: Reservoir,
    order: float = 1.0,
    count: int = 5,
    samples: int = 8,
) -> list[PromptGroup]:
    """The `count` largest types of prompt with the Vendi_α of their outputs, α = `order` > 0 (equations.md §4).

    K_T/n = Σ λ_i v_i v_iᵀ, and group i is scored on K_X ⊙ v_i v_iᵀ, whose eigenvalues are those of
    Σ_j v_ij² φ_X(x_j) φ_X(x_j)ᵀ, of trace 1: sample j counts v_ij². Everything is over the reservoir's pairs, with
    their bias: a small group shows fewer kinds of output than it gets, so compare generators more than groups. Groups
    of no share are left out, so there may be fewer; groups of equal share may be any basis of the space that they
    span. Raises FixError on a reservoir without samples, on an order that is not positive, and on counts below 1;
    KeyError where the reservoir lacks features or prompts.
    """
    check_counts(count, samples)
    features, prompts = rows_of(reservoir, "features", "prompts")
    features, prompts = features_map(features.to(features_map.device)), prompts_map(prompts.to(prompts_map.device))
    n, ids = len(features), reservoir.ids
    shares, vectors = leading(prompts @ prompts.T / n, count)
    groups: list[PromptGroup] = []
    for share, weights in zip(shares.tolist(), vectors.square().T.to(features.device), strict=True):
        spectrum = spectrum_of_rows((n * weights).sqrt()[:, None] * features)
        groups.append(PromptGroup(share, log_vendi(spectrum, order), largest(ids, weights, samples)))
    return groups
