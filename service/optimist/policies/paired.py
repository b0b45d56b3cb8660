"""One estimate compared with others of the same seeds or prompts: the formulas of decisions.md §3. No torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import JACKKNIFE_GROUPS, Earlier, Pairing, jackknife_array, jackknife_rows
from optimist.numerics.skewness import against, against_widening, skewness
from optimist.policies.arms import known_error
from optimist.policies.common_indices import Indices, variance, weights
from optimist.policies.correlation import FEWEST_COMMON, Array, Influences, effective
from optimist.policies.rare_values import Moments, Sampled, moments_of, sampled

Errors = Literal["selection", "stopping"]
"""Which errors a difference is judged by: sd_select or sd_stop (decisions.md §2)."""

_samples = attrgetter("samples")
_FLOOR = 0.5
"""Least variance of a difference with a control variate, as a part of (1 − r²) times that of the smaller sample."""


@dataclass(frozen=True, slots=True)
class Against:
    """All estimates compared with one of them, the base; lists in the order of the estimates.

    A reduction is the variance of a difference, divided by that of independent estimates: 1 exactly where nothing is
    known of a correlation, and at the base itself. What a finite reference adds to the variance of a difference counts
    for stopping only, and can make a reduction larger than 1.
    """

    differences: list[float]
    """By how much each is worse than the base, on the estimates' scale."""
    selection_reductions: list[float]
    stopping_reductions: list[float]
    own: list[float]
    """sd_stop² of the base, as each difference takes it: more than by itself where it borrows (`rare_values`)."""
    each: list[float]
    """The same of each other estimate."""
    even_reductions: list[float]
    """That of sd_stop if both had as many samples, per sample."""
    rho: list[float]
    """ρ_L, the correlation of the influences."""
    correlations: list[float]
    """ρ_e, that of the sampling errors; 0 at the base."""
    common: list[int]
    """Samples of the same index that both have, at least; 0 if one of the two is not paired."""

    @classmethod
    def independent(cls, differences: list[float], errors: list[float], base: int, means: Moments | None) -> Against:
        """These differences from `base`, of estimates of which nothing in common is known.

        errors: sd_stop of each. means: the estimates, if they are means of values.
        """
        k = len(differences)
        ones, zeros = [1.0] * k, [0.0] * k
        each = [error * error for error in errors]
        reductions, own = ones, [each[base]] * k
        if means is not None:
            found = sampled(means.at(base), means)
            with np.errstate(invalid="ignore"):
                grown = (found.own + found.each) * found.factors(np.array(differences)) / np.add(own, each)
            reductions = np.where(np.isfinite(grown), grown, 1.0).tolist()
            own, each = found.own.tolist(), found.each.tolist()
        return cls(differences, ones, reductions, own, each, ones, zeros, zeros, [0] * k)

    def where_paired(self, paired: Against, places: Mapping[int, int]) -> Against:
        """This one with the numbers of `paired` at the places given: place there by place here."""
        if len(places) == len(self.differences):
            return paired
        parts = {name: list(getattr(self, name)) for name in self.__slots__}
        for name, part in parts.items():
            for here, there in places.items():
                part[here] = getattr(paired, name)[there]
        return Against(**parts)

    def reductions(self, kind: Errors) -> list[float]:
        """The reductions of these errors."""
        return self.selection_reductions if kind == "selection" else self.stopping_reductions


class Columns:
    """The numbers of k paired estimates that their contrasts are made of, as arrays (k,)."""

    def __init__(self, estimates: Sequence[Estimate], sign: float) -> None:
        self.sign = sign
        self.pairings: list[Pairing] = [e.pairing for e in estimates if e.pairing is not None]
        numbers = [(e.samples, p.first_order, sign * e.value) for e, p in zip(estimates, self.pairings, strict=True)]
        self.n, self.first, self.loss = np.array(numbers, float).T
        self.counts = [e.samples for e in estimates]
        self.indices = Indices(self.pairings, self.counts)
        self.selection = _Variances(
            [known_error(e.standard_error) for e in estimates], [p.systematic_selection for p in self.pairings]
        )
        self.jackknife_rows = np.array([jackknife_rows(n) for n in self.counts])
        self.jackknives = _weighed([p.jackknife for p in self.pairings], self.counts)
        self.stopping = _Variances(
            [known_error(e.stopping_error) for e in estimates], [p.systematic_stopping for p in self.pairings]
        )
        self.means = moments_of(estimates, sign, self.stopping.sampled)
        is_skewed = [p.skewness is not None for p in self.pairings]
        self.is_skewed = np.array(is_skewed) if self.means is None else np.ones(len(is_skewed), bool)
        """Whether rare rows widen differences."""

    def by_sampling(self, base: int, stopping: bool) -> Sampled:
        """The variances by sampling of the estimates and of `base` in their differences, as if independent."""
        if stopping and self.means is not None:
            return sampled(self.means.at(base), self.means)
        each = (self.stopping if stopping else self.selection).sampled
        return Sampled(np.full_like(each, each[base]), each, np.zeros_like(each))

    def by_reference(self, base: int) -> Array:
        """Variances (k,) of the differences from `base` by the choice of the reference; 0 where nothing is known of it.

        What all scores have in common drops out.
        """
        return np.array([float(more.var(ddof=1)) if len(more) else 0.0 for more in self._of_reference(base)])

    def skewness_by_reference(self, base: int) -> Array:
        """The skewness (k,) of what the rows of the reference have more influence than on `base`; 0 as above."""
        return np.array([float(skewness(more)) for more in self._of_reference(base)])

    def _of_reference(self, base: int) -> list[Array]:
        if self.pairings[base].reference is None:
            return [np.zeros(0)] * len(self.pairings)
        own = self.pairings[base].reference_values.astype(np.float64)
        each = [pairing.reference_values for pairing in self.pairings]
        return [values - own if len(values) == len(own) > 1 else own[:0] for values in each]


class _Variances:
    """Squared errors (k,): `total` = `sampled` + `systematic`."""

    def __init__(self, errors: Sequence[float], systematic: Sequence[float]) -> None:
        self.total = np.square(np.array(errors))
        self.systematic = np.minimum(np.square(np.array(systematic)), self.total)
        self.sampled = self.total - self.systematic

    def reductions(
        self, base: int, sampled: Array, is_paired: NDArray[np.bool_], added: Array | float = 0.0
    ) -> list[float]:
        """Those of differences from `base` whose sampling variances are `sampled`; 1 where they are not paired.

        added: what the choice of the reference adds to each variance, also where they are not paired.
        """
        independent = self.total + self.total[base]
        found = (np.maximum(sampled, 0.0) + self.systematic + self.systematic[base] + added) / independent
        return np.where((is_paired | (added > 0.0)) & np.isfinite(found), found, 1.0).tolist()


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def compared(columns: Columns, base: int, influences: Influences) -> Against:
    """The contrasts of k paired estimates, which have these influences, with the one at `base`.

    At unequal counts and ρ_L > 0 the longer run's own earlier value is the control variate of the shorter one. Where
    one of the two lacks indices, unshared samples are taken out of both instead.
    """
    n, own = columns.n, columns.n[base]
    rho = influences.correlations(base)
    rho[base] = 0.0
    common = columns.indices.common(base)
    nested = np.sqrt(np.minimum(n, own) / np.maximum(n, own))  # the bound on the wide side of a negative correlation
    overlap = np.where(rho < 0.0, nested, common / np.sqrt(n * own))
    correlations = effective(rho, columns.first, columns.first[base], overlap)
    difference = columns.loss - columns.loss[base]
    parts = [columns.by_sampling(base, stopping) for stopping in (False, True)]
    variances: list[Array] = [own + each - 2.0 * correlations * np.sqrt(own * each) for own, each, _ in parts]
    # What the influences do not see, as they are linearised, the jackknives do (decisions.md §3).
    counted = _by_jackknives(columns.jackknives, columns.jackknives[base])
    most = parts[1].own + parts[1].each
    is_same = columns.jackknife_rows == columns.jackknife_rows[base]
    is_same[_control(columns, base, rho, influences, correlations, difference, parts, variances)] = False
    _by_common_indices(columns, base, influences, rho, common, difference, parts, variances)
    variances[1] = np.where(is_same, np.fmax(variances[1], np.minimum(counted, most)), variances[1])
    factors = np.maximum(_by_rare_rows(columns, base, rho, influences, difference), parts[1].factors(difference))
    variances[1] *= factors
    even = effective(rho, columns.first, columns.first[base], np.ones_like(rho))
    is_paired = rho != 0.0
    return Against(
        differences=difference.tolist(),
        selection_reductions=columns.selection.reductions(base, variances[0], is_paired),
        stopping_reductions=columns.stopping.reductions(
            base, variances[1], is_paired | (columns.means is not None), columns.by_reference(base)
        ),
        own=(parts[1].own + columns.stopping.systematic[base]).tolist(),
        each=(parts[1].each + columns.stopping.systematic).tolist(),
        even_reductions=_even(columns, base, even, is_paired),
        rho=rho.tolist(),
        correlations=correlations.tolist(),
        common=common.astype(int).tolist(),
    )


def _by_rare_rows(columns: Columns, base: int, rho: Array, influences: Influences, difference: Array) -> Array:
    """The factors (k,) of the sampling variances by rare rows that would speak against the sign of the difference.

    The real rows show rows that are too rare for the samples: as references they have the opposite influence.
    """
    if not columns.is_skewed[base]:
        return np.ones_like(rho)
    rare = influences.skewness(base), -columns.skewness_by_reference(base)
    counted = np.maximum(*(np.abs(against(columns.sign * each, difference)) for each in rare))
    factors = against_widening(rho * counted, np.minimum(columns.n, columns.n[base]))
    return np.where(columns.is_skewed, factors, 1.0)


def _control(
    columns: Columns,
    base: int,
    rho: Array,
    influences: Influences,
    correlations: Array,
    difference: Array,
    parts: Sequence[Sampled],
    into: Sequence[Array],
) -> list[int]:
    """Put differences and sampling variances with a control variate in their places, where there is one.

    parts: what each kind of errors has by sampling. into: the variances of each kind, which are changed.

    D = e_S + β (e_B − e_B(n′)) − e_B, S the one with fewer samples, B the other, n′ the largest count of B's trail that
    is not above n_S. r is by the influences of S and of B at n′, which are more alike than those of S and B, or by ρ_L
    where they are not known. β is made of the selection variances for both errors. Where the jackknives of S and of B
    at n′ can be compared, the variance grows by as much as theirs is above that by the influences. Returns these
    places.
    """
    n = columns.n
    may = (rho > 0.0) & (n != n[base]) & columns.indices.are_whole & columns.indices.are_whole[base]
    may &= np.where(n > n[base], columns.selection.sampled, columns.selection.sampled[base]) > 0.0
    found = [(place, past) for place in np.flatnonzero(may).tolist() if (past := _earlier(columns, base, place))]
    if not found:
        return []
    at = np.array([place for place, _ in found])
    past_n, past, past_variance, past_first = np.array(
        [(p.samples, columns.sign * p.value, p.variance, p.first_order) for _, p in found]
    ).T
    past_jackknives = _weighed([p.jackknife for _, p in found], [p.samples for _, p in found])
    past_rows = np.array([jackknife_rows(p.samples) for _, p in found])
    is_shorter = n[at] < n[base]
    small, big = np.where(is_shorter, at, base), np.where(is_shorter, base, at)
    select = columns.selection.sampled
    then = influences.correlations_with_past(small.tolist(), [past.influence for _, past in found])
    then = np.where(np.isnan(then), rho[at], np.maximum(then, 0.0))
    r = effective(then, columns.first[small], past_first, np.sqrt(past_n / n[small]))
    beta = r * np.sqrt(select[small] / past_variance)
    gain = columns.loss[small] + beta * (columns.loss[big] - past) - columns.loss[big]
    difference[at] = np.where(is_shorter, gain, -gain)
    compared_at: list[int] = []
    for (own, each, _), variances in zip(parts, into, strict=True):
        v, w = np.where(is_shorter, each[at], own[at]), np.where(is_shorter, own[at], each[at])
        h = past_variance * w / select[big]
        controlled = v + w + np.square(beta) * np.maximum(h - w, 0.0) - 2.0 * beta * r * np.sqrt(v * h)
        controlled += 2.0 * (beta - 1.0) * correlations[at] * np.sqrt(v * w)
        controlled = np.maximum(controlled, _FLOOR * (1.0 - np.square(r)) * v)
        if variances is into[1]:
            counted = _by_jackknives(past_jackknives, columns.jackknives[small])
            grown = controlled * counted / (v + h - 2.0 * r * np.sqrt(v * h))
            is_same = (columns.jackknife_rows[small] == past_rows) & np.isfinite(counted)
            controlled = np.where(is_same, np.fmax(controlled, np.minimum(grown, v + w)), controlled)
            compared_at = at[is_same].tolist()
        variances[at] = controlled
    return compared_at


def _by_common_indices(
    columns: Columns,
    base: int,
    influences: Influences,
    rho: Array,
    common: Array,
    difference: Array,
    parts: Sequence[Sampled],
    into: Sequence[Array],
) -> None:
    """Put the differences and sampling variances in their places where one of the two lacks indices and ρ_L > 0.

    D = e_a − e_b + λ_a u_a − λ_b u_b (`common_indices`). λ is made of the selection variances for both errors.
    `parts` and `into` are as of `_control`.
    """
    is_whole = columns.indices.are_whole
    if is_whole.all():
        return
    spread = columns.first * columns.selection.sampled
    lacks = ~(is_whole & is_whole[base])
    at = np.flatnonzero((rho > 0.0) & lacks & (common >= FEWEST_COMMON) & (spread > 0.0) & (spread[base] > 0.0))
    if not len(at):
        return
    m, r = common[at], rho[at]
    a, b = columns.indices.sides(influences, m, base, at)
    # Of both kinds of errors at once (2, ·).
    of_a, of_b = np.array([part.each[at] for part in parts]), np.array([part.own[at] for part in parts])
    taken = weights(a, b, of_a[0], of_b[0], r, m)
    difference[at] += columns.sign * (taken[0] * a.moved(m) - taken[1] * b.moved(m))
    for variances, each in zip(into, variance(a, b, of_a, of_b, r, m, taken), strict=True):
        variances[at] = each


def _earlier(columns: Columns, base: int, place: int) -> Earlier | None:
    """The control variate of this pair; None if the longer run has no earlier estimate that can serve."""
    own, other = columns.counts[base], columns.counts[place]
    trail = columns.pairings[place if other > own else base].trail
    fits = bisect_right(trail, min(own, other), key=_samples)
    past = trail[fits - 1] if fits else None
    return past if past is not None and past.samples >= 2 and past.variance > 0.0 else None


def _weighed(jackknives: Sequence[tuple[float, ...]], samples: Sequence[int]) -> Array:
    """Jackknives (k, 10) whose sums of squares are the variances of the estimates; NaN where there is none."""
    if not any(jackknives):
        return np.full((len(jackknives), JACKKNIFE_GROUPS), np.nan)
    parts = [(1.0 - 1.0 / JACKKNIFE_GROUPS) * jackknife_rows(n) / n for n in samples]
    found = jackknife_array(jackknives) * np.sqrt(np.array(parts))[:, None]
    return np.where(found.any(axis=1, keepdims=True), found, np.nan)


def _by_jackknives(jackknives: Array, others: Array) -> Array:
    """The variances (k,) of differences of the estimates that these belong to; NaN where one of the two has none."""
    return np.square(jackknives - others).sum(axis=1)


def _even(columns: Columns, base: int, even: Array, is_paired: NDArray[np.bool_]) -> list[float]:
    spread, drawn = columns.n * columns.stopping.total, columns.n * columns.stopping.sampled
    independent = spread + spread[base]
    found = (independent - 2.0 * even * np.sqrt(drawn * drawn[base])) / independent
    return np.where(is_paired & np.isfinite(found), found, 1.0).tolist()
