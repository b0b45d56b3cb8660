"""Scores of pairs of a sample and its prompt: Conditional-Vendi and Information-Vendi (equations.md §4).

A score is a signed sum of entropies (equations.md §4), and each entropy is de-biased by the recipe of its order (see
`vendi.influence`). The estimate is the signed sum of the de-biased entropies. Its errors:

- First order: the influence function of a sum is the sum of the influence functions. All entropies see the same pairs
  in the same order, so IF_i = Σ ± IF_i of each over the last 512, and Var(IF)/n includes all covariances.
- Second order: at order 2 the same, over the pairs of the last φ. The other recipes give only variances, which add.
- The doubtful part of each correction, e, above order 2: H(X, T) and H(X) miss the same rare outputs, so the
  errors of their corrections are nearly equal and cancel in H(X) − H(X, T); H(T)'s error does not. Squared:
  (Σ_outputs ± e)² + e_T², plus the square of a tenth of every e, because the cancellation is not exact.
- Systematic, below order 2: the errors of the entropies add in squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from optimist.estimates.estimate import natural
from optimist.metrics.base import Analysis, Identity, Score, Statistic
from optimist.metrics.feature_maps import ExactKernel, FeatureMap, GaussianFourier
from optimist.metrics.implementations import Setting
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.state import check_rows
from optimist.metrics.vendi.influence import (
    EntropyInfluence,
    entropy_influence,
    kernel_warnings,
    pair_variance,
    with_errors,
)
from optimist.metrics.vendi.kernels import Device, KernelSettings, exact_map, feature_map_of
from optimist.metrics.vendi.listed import ListedPrompts
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.spectrum import (
    check_order,
    check_shown,
    largest,
    leading,
    log_vendi,
    modes_of,
    rows_of,
    spectrum_of_rows,
)
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client import metrics
from optimist_client.errors import FixError
from optimist_client.metrics import Kernel
from optimist_client.metrics.pairs import OfPairs
from optimist_client.models.modes import ModeInfo, PromptGroupInfo

PairMap = GaussianFourier | ExactKernel


def pair_maps(
    kernel: Kernel | Mapping[str, Any],
    prompt_kernel: Kernel | Mapping[str, Any],
    dimension: int,
    prompt_dimension: int,
    device: Device = "cpu",
) -> tuple[PairMap, PairMap]:
    """The maps of samples and of prompts: by features, each with its own number of frequencies, drawn apart, or exact.

    Raises FixError as `make_feature_map` does, and on kernels by features that are not gaussian.
    """
    of_features = KernelSettings.from_kernel(kernel)
    of_prompts = KernelSettings.from_kernel(prompt_kernel, "prompt_kernel")
    if of_features.is_exact and of_prompts.is_exact:
        return exact_map(of_features, dimension, device), exact_map(of_prompts, prompt_dimension, device)
    features = feature_map_of(of_features, dimension, device)
    # With one stream of normals the frequencies of samples and prompts would be dependent.
    prompts = feature_map_of(of_prompts, prompt_dimension, device, 1)
    if not (isinstance(features, GaussianFourier) and isinstance(prompts, GaussianFourier)):
        raise FixError("kernel: scores of pairs need gaussian kernels, whose product is gaussian, too")
    return features, prompts


EntropyName = str
"""An entropy by its statistic: "joint", "prompts" or "features"."""


def joint_map(features: PairMap, prompts: PairMap) -> PairMap:
    """φ_XT of rows [x, t] (n, d + d_t): frequency i is (ω_X,i, ω_T,i) (equations.md §4); of exact kernels the product.

    Raises FixError unless both maps have the same r, or are exact.
    """
    if isinstance(features, ExactKernel) and isinstance(prompts, ExactKernel):
        return ExactKernel([*features.parts, *prompts.parts], features.device)
    if isinstance(features, ExactKernel) or isinstance(prompts, ExactKernel):
        raise FixError("features and prompts need kernels of one kind: r random features, or both exact")
    if features.width != prompts.width:
        counts = f"{features.width // 2} and {prompts.width // 2}"
        raise FixError(f"features and prompts need the same number of frequencies, not {counts}")
    return GaussianFourier(torch.cat([features.omegas, prompts.omegas.to(features.device)]), features.device)


class JointStatistic(Statistic):
    """Σ φφᵀ of φ_XT, of φ_T and, unless `marginal` is False, of φ_X, over a stream of pairs (x, t) (equations.md §4).

    Each is a `KernelStatistic` of the same pairs in the same order, with the same `last` and `halves`. Without the
    marginal `features` is None: Conditional-Vendi does not need it, and it is a third of the work and the memory.
    `joint` is the `joint_map` of both where it is made already: statistics of one metric share it. `list_length`: of
    the list that the prompts are, if they are one. Raises FixError on maps of different r, or on `last` below 0.
    """

    held = ("samples", "joint", "prompts", "features")

    def __init__(
        self,
        features: PairMap,
        prompts: PairMap,
        *,
        last: int = 512,
        halves: bool = False,
        marginal: bool = True,
        joint: PairMap | None = None,
        list_length: int | None = None,
    ) -> None:
        self.joint = KernelStatistic(
            joint or joint_map(features, prompts), last=last, halves=halves, prompts=list_length
        )
        self.prompts = KernelStatistic(prompts, last=last, halves=halves, prompts=list_length)
        self.features = KernelStatistic(features, last=last, halves=halves, prompts=list_length) if marginal else None
        self.list_length = list_length
        self.dimension, self.prompt_dimension = features.dimension, prompts.dimension
        self.width = self.joint.width
        """2r, the columns of every φ."""
        self.layout = (features.dimension, prompts.dimension, self.width, last)

    @property
    def listed(self) -> ListedPrompts | None:
        """The prompt in a fixed list of each pair, if there is one."""
        return self.joint.listed

    def update(self, features: Tensor, prompts: Tensor, *, listed: Tensor | None = None) -> None:
        """Add a batch of pairs: rows (b, d) and (b, d_t) of any real dtype, b ≥ 1; `listed` as in `KernelStatistic`.

        Raises FixError, changing nothing, on anything else.
        """
        check_rows("features", features, self.dimension)
        check_rows("prompts", prompts, self.prompt_dimension)
        if len(features) != len(prompts):
            raise FixError(f"expected as many prompts as features, not {len(prompts)} for {len(features)}")
        # Converted to float64 here, so that neither is rounded to the other's dtype.
        features, prompts = (rows.to(self.joint.feature_map.device, torch.float64) for rows in (features, prompts))
        self.joint.update(torch.cat([features, prompts], -1), listed=listed)
        self.prompts.update(prompts, listed=listed)
        if self.features is not None:
            self.features.update(features, listed=listed)
        self.samples = self.joint.samples


def prompt_groups(
    features_map: FeatureMap,
    prompts_map: FeatureMap,
    reservoir: Reservoir,
    order: float = 1.0,
    count: int = 5,
    samples: int = 8,
) -> list[PromptGroupInfo]:
    """The `count` largest types of prompt with the Vendi_α of their outputs, α = `order` > 0 (equations.md §4).

    K_T/n = Σ λ_i v_i v_iᵀ, and group i is scored on K_X ⊙ v_i v_iᵀ, with the eigenvalues of
    Σ_j v_ij² φ_X(x_j) φ_X(x_j)ᵀ, of trace 1: sample j counts v_ij². Everything is over the reservoir's pairs, with
    their bias: a small group shows fewer kinds of output than it gets, so compare generators rather than groups. Groups
    of no share are left out, so there may be fewer; groups of equal share may be any basis of their span. Raises
    FixError on a reservoir without samples, on an order that is not positive, and on counts below 1; KeyError where the
    reservoir lacks features or prompts.
    """
    check_shown(features_map, count, samples)
    features, prompts = rows_of(reservoir, "features", "prompts")
    features, prompts = features_map(features.to(features_map.device)), prompts_map(prompts.to(prompts_map.device))
    n, ids = len(features), reservoir.ids
    shares, vectors = leading(prompts @ prompts.T / n, count)
    groups: list[PromptGroupInfo] = []
    for share, weights in zip(shares.tolist(), vectors.square().T.to(features.device), strict=True):
        spectrum = spectrum_of_rows((n * weights).sqrt()[:, None] * features)
        log_score, shown = log_vendi(spectrum, order), largest(ids, weights, samples)
        score = natural(log_score, "log")
        groups.append(PromptGroupInfo(share=share, score=score, log_score=log_score, prompts=shown))
    return groups


def _rows_of_parts(common: Mapping[str, Tensor]) -> dict[EntropyName, list[Tensor]]:
    """The rows that each part's map takes, of pairs "features" (m, d) and "prompts" (m, d_t)."""
    # In float64 first, so that neither is rounded to the other's dtype.
    features, prompts = common["features"].double(), common["prompts"].double()
    return {"features": [features], "prompts": [prompts], "joint": [torch.cat([features, prompts], -1)]}


def _signed_sum(parts: Mapping[EntropyName, EntropyInfluence], signs: Mapping[EntropyName, float]) -> EntropyInfluence:
    """The recipes' results combined for Σ ± H; the doubt is now without sign."""
    terms = [(signs[part], entropy) for part, entropy in parts.items()]
    pairs = [sign * entropy.pairs for sign, entropy in terms if entropy.pairs is not None]
    return EntropyInfluence(
        plug_in=sum(sign * entropy.plug_in for sign, entropy in terms),
        estimate=sum(sign * entropy.estimate for sign, entropy in terms),
        influence=torch.stack(torch.broadcast_tensors(*(sign * entropy.influence for sign, entropy in terms))).sum(0),
        inflation=max(entropy.inflation for _, entropy in terms),
        second_order=(
            pair_variance(torch.stack(pairs).sum(0)) if pairs else sum(entropy.second_order for _, entropy in terms)
        ),
        doubt=_doubt_of_sum({part: signs[part] * entropy.doubt for part, entropy in parts.items()}),
        systematic=math.hypot(*(entropy.systematic for _, entropy in terms)),
        bracket=_signed_bracket(terms),
        common=[
            torch.stack(rows).sum(0)
            for rows in zip(*([sign * part for part in entropy.common] for sign, entropy in terms), strict=True)
        ],
    )


def _doubt_of_sum(doubts: dict[EntropyName, float]) -> float:
    """The doubt of Σ ± H, from the doubts of the signed entropies."""
    # A tenth of every doubt does not cancel between entropies.
    unshared = 0.1**2 * sum(doubt**2 for doubt in doubts.values())
    of_outputs = sum(doubt for part, doubt in doubts.items() if part != "prompts")
    return math.sqrt(doubts["prompts"] ** 2 + of_outputs**2 + unshared)


def _signed_bracket(terms: Sequence[tuple[float, EntropyInfluence]]) -> tuple[float, float] | None:
    """The bracket of Σ ± H, as wide as all brackets of H together; None if an H has none."""
    brackets = [sorted(sign * end for end in entropy.bracket) for sign, entropy in terms if entropy.bracket is not None]
    if len(brackets) < len(terms):
        return None
    low, high = (sum(ends) for ends in zip(*brackets, strict=True))
    return low, high


class ConditionedScore(Score):
    """A signed sum of entropies H_α of order α > 0, inf included, in log; higher is better.

    Each entropy is a `VendiScore` through its own map. With exact kernels, H_α(X, T) is at least H_α(T) and H_α(X)
    for every α (its spectrum is majorized by theirs), but only for α = 1 is it at most their sum: Information-Vendi of
    another order may be below 1. The joint map's kernel is the product of the two others only as r → ∞, so with random
    features no inequality holds exactly, and no sum is clamped. At order 2, `prompts` is the length of the prompts'
    list, if the score is about these. Raises FixError on an order that is not positive, or on maps of different r.
    """

    terms: ClassVar[Mapping[EntropyName, float]]
    """The entropies in the sum, with their signs."""

    def __init__(
        self,
        features_map: PairMap,
        prompts_map: PairMap,
        order: float = 1.0,
        prompts: int | None = None,
    ) -> None:
        self.prompts = prompts
        self.features_map, self.prompts_map = features_map, prompts_map
        self.widths = {"features": features_map.dimension, "prompts": prompts_map.dimension}
        self.width = features_map.width
        """2r, the columns of every φ."""
        self.order = check_order(order)
        self.joint_map = joint_map(features_map, prompts_map)
        maps = {"joint": self.joint_map, "prompts": prompts_map, "features": features_map}
        self.entropies = {part: VendiScore(maps[part], order) for part in self.terms}

    @property
    def needs_halves(self) -> bool:
        """True if its de-biased estimate reads the two half-streams (rules/estimates.md)."""
        return self.entropies["joint"].needs_halves

    @property
    def offers(self) -> frozenset[str]:
        """Features that the metric offers; none with exact kernels, which have no φ."""
        return frozenset() if isinstance(self.joint_map, ExactKernel) else super().offers

    def statistic(self) -> JointStatistic:
        """An empty statistic of the parts in `terms`, which keeps half-streams past n = width if the analysis does."""
        return JointStatistic(
            self.features_map,
            self.prompts_map,
            halves=self.needs_halves,
            marginal="features" in self.terms,
            joint=self.joint_map,
            list_length=self.prompts,
        )

    def parts(self, statistic: JointStatistic) -> dict[EntropyName, KernelStatistic]:
        """The statistic of each entropy in `terms`. Raises FixError as `check` does."""
        self.check(statistic)
        held = {"joint": statistic.joint, "prompts": statistic.prompts, "features": statistic.features}
        wanted = {part: of_part for part, of_part in held.items() if of_part is not None and part in self.terms}
        if len(wanted) < len(self.terms):
            raise FixError("the statistic is laid out for another metric, without one of its entropies")
        return wanted

    def plug_in(self, statistic: JointStatistic) -> float:
        parts = self.parts(statistic)
        return sum(sign * self.entropies[part].plug_in(parts[part]) for part, sign in self.terms.items())

    def analyse(self, statistic: JointStatistic, common: Common | None = None) -> Analysis:
        """The log score without its bias, from n ≥ 2 pairs; `common` and errors are as in `VendiScore`."""
        parts = self.parts(statistic)
        rows = {part: [] for part in parts} if common is None else _rows_of_parts(common)
        entropies = {part: entropy_influence(self.entropies[part], own, *rows[part]) for part, own in parts.items()}
        whole, n = _signed_sum(entropies, self.terms), statistic.samples
        warnings = kernel_warnings(self.order, n, self.joint_map, entropies["joint"].estimate)
        return with_errors(whole, n, warnings, statistic.listed, None if common is None else common.get("listed"))

    def modes(
        self, statistic: JointStatistic, reservoir: Reservoir, count: int = 5, samples: int = 8
    ) -> list[ModeInfo]:
        """The modes of the pairs, through the joint map φ_XT; `modes_of` says which.

        Raises FixError on a statistic without samples or of another metric, and as `modes_of` does.
        """
        self.check(statistic)
        return modes_of(statistic.joint, reservoir, self.widths, count, samples)

    def prompt_groups(self, reservoir: Reservoir, count: int = 5, samples: int = 8) -> list[PromptGroupInfo]:
        return prompt_groups(self.features_map, self.prompts_map, reservoir, self.order, count, samples)

    def identity(self) -> Identity:
        return [(map_.name, map_.tensors()) for map_ in (self.features_map, self.prompts_map)]


class ConditionalVendi(ConditionedScore):
    """log Conditional-Vendi_α = H_α(X, T) − H_α(T): the diversity that the model adds to its prompts'."""

    declared = metrics.ConditionalVendi
    terms: ClassVar[Mapping[EntropyName, float]] = {"joint": 1.0, "prompts": -1.0}


class InformationVendi(ConditionedScore):
    """log Information-Vendi_α = H_α(X) + H_α(T) − H_α(X, T): how much the outputs tell of their prompts."""

    declared = metrics.InformationVendi
    terms: ClassVar[Mapping[EntropyName, float]] = {"features": 1.0, "prompts": 1.0, "joint": -1.0}


def make(declared: OfPairs, setting: Setting) -> ConditionedScore:
    """The score by both kernels' feature maps. Raises FixError without a kernel, or if one is still open."""
    if declared.kernel is None or declared.prompt_kernel is None:
        raise FixError(f"the metric {declared.name!r} needs a kernel of the samples, and one of the prompts")
    widths = setting.widths["features"], setting.widths["prompts"]
    maps = pair_maps(declared.kernel, declared.prompt_kernel, *widths, setting.device)
    score = ConditionalVendi if isinstance(declared, metrics.ConditionalVendi) else InformationVendi
    return score(*maps, declared.order, setting.list_length)
