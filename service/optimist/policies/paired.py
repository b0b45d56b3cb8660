"""One estimate compared with others of the same seeds or prompts: the formulas of rules/differences.md. No torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from optimist.arrays import Bools, Floats, Ints
from optimist.estimates.audited import differing as audited_apart
from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import (
    JACKKNIFE_GROUPS,
    Earlier,
    Pairing,
    history_array,
    jackknife_array,
    jackknife_rows,
)
from optimist.estimates.prompted import differing
from optimist.estimates.skewness import against, against_widening, skewness
from optimist.policies.correlation import FEWEST_COMMON, Indices, InfluenceTable, effective, variance, weights
from optimist.policies.rare_values import Means, SampledVariances, moments_of, sampled

Errors = Literal["selection", "stopping"]
"""The errors by which a difference is judged: sd_select or sd_stop (rules/differences.md)."""

UNRELATED = 0.25
"""Correlation ρ_L up to which two generators count as unrelated. Above it a contrast at unequal counts loses more than
unequal counts can save."""
_samples = attrgetter("samples")
_ROUNDING = 1e-12
"""Least variance of a difference by prompts, as a part of the variance for independent estimates."""


@dataclass(frozen=True, slots=True)
class Against:
    """All estimates compared with one of them, the base; lists in the order of the estimates.

    A reduction is the variance of a difference, divided by the variance for independent estimates: 1 exactly where
    nothing is known of a correlation, and at the base itself. What a finite reference adds to the variance of a
    difference counts for stopping only, and can make a reduction larger than 1.
    """

    differences: list[float]
    """The difference of each from the base, above 0 where it is worse, on the estimates' scale."""
    selection_reductions: list[float]
    stopping_reductions: list[float]
    own: list[float]
    """sd_stop² of the base, as each difference takes it: more than by itself where it borrows (`rare_values`)."""
    each: list[float]
    """sd_stop² of each other estimate, taken in the same way."""
    even_reductions: list[float]
    """The reduction of sd_stop if both had as many samples, per sample."""
    rho: list[float]
    """ρ_L, the correlation of the influences."""
    correlations: list[float]
    """ρ_e, the correlation of the sampling errors; 0 at the base."""
    common: list[int]
    """Samples of the same index that both have, at least; 0 if one of the two is not paired."""

    @classmethod
    def independent(
        cls, differences: list[float], errors: list[float], base: int, means: Means | None, beyond: float = 0.0
    ) -> Against:
        """These differences from `base`, of estimates of which nothing in common is known.

        errors: sd_stop of each. means: the estimates, if they are means of values. beyond: as of `Contrasts.against`.
        """
        k = len(differences)
        ones, zeros = [1.0] * k, [0.0] * k
        each = [error * error for error in errors]
        reductions, own = ones, [each[base]] * k
        if means is not None:
            parts = sampled(means.at(base), means)
            with np.errstate(invalid="ignore"):
                grown = (parts.own + parts.each) * parts.factors(np.array(differences) - beyond) / np.add(own, each)
            reductions = np.where(np.isfinite(grown), grown, 1.0).tolist()
            own, each = parts.own.tolist(), parts.each.tolist()
        return cls(differences, ones, reductions, own, each, ones, zeros, zeros, [0] * k)

    def where_paired(self, paired: Against, positions: Mapping[int, int]) -> Against:
        """This one with the numbers of `paired` at these positions: index there by index here."""
        return paired if len(positions) == len(self.differences) else self.with_rows(paired, positions)

    def with_rows(self, other: Against, positions: Mapping[int, int]) -> Against:
        """This one with the numbers of another one at these positions: index there by index here."""
        parts = {name: list(getattr(self, name)) for name in self.__slots__}
        for name, part in parts.items():
            for here, there in positions.items():
                part[here] = getattr(other, name)[there]
        return Against(**parts)

    def reductions(self, kind: Errors) -> list[float]:
        """The reductions of these errors."""
        return self.selection_reductions if kind == "selection" else self.stopping_reductions


class Columns:
    """The numbers of k paired estimates that their contrasts are made of, as arrays (k,)."""

    def __init__(
        self, estimates: Sequence[Estimate], sign: float, selection: Sequence[float], stopping: Sequence[float]
    ) -> None:
        """sign: what makes losses of the values. selection, stopping: the estimates' errors, ∞ where unknown."""
        self.sign = sign
        self.pairings: list[Pairing] = [e.pairing for e in estimates if e.pairing is not None]
        numbers = [(e.samples, p.first_order, sign * e.value) for e, p in zip(estimates, self.pairings, strict=True)]
        self.n, self.first, self.loss = np.array(numbers, float).T
        self.counts = [e.samples for e in estimates]
        self.indices = Indices(self.pairings, self.counts)
        signs = [p.systematic_sign for p in self.pairings]
        self.selection = _Variances(selection, [p.systematic_selection for p in self.pairings], signs)
        self.stopping = _Variances(stopping, [p.systematic_stopping for p in self.pairings], signs)
        self.jackknife_rows = np.array([jackknife_rows(n) for n in self.counts])
        jackknives = [p.jackknife for p in self.pairings]
        self.jackknives = _weighed(jackknives, self.counts) if any(jackknives) else None
        audited = [e.audited for e in estimates]
        self.audited = [each for each in audited if each is not None] if None not in audited else []
        """The means by the people; none where no judge stands beside them."""
        prompted = [e.prompted for e in estimates]
        self.prompted = [each for each in prompted if each is not None] if None not in prompted else []
        """The means by their prompts; none where one is of independent samples."""
        drawn = [each.variance / each.samples for each in self.prompted]
        self.drawn = np.array(drawn) if drawn else self.stopping.sampled
        """The variances of the estimates if all samples were independent draws."""
        self.means = moments_of(estimates, sign, self.drawn)
        is_skewed = [p.skewness is not None for p in self.pairings]
        self.is_skewed = np.array(is_skewed) if self.means is None else np.ones(len(is_skewed), bool)
        """True if rare rows widen differences."""
        self.missing = np.array([p.missing for p in self.pairings])
        self.are_independent = np.array([e.shared_effect == 1.0 for e in estimates])
        """True if the samples are: an earlier estimate of samples in clusters is no control variate."""

    def by_sampling(self, base: int, stopping: bool) -> SampledVariances:
        """The variances by sampling of the estimates and of `base` in their differences, as if independent."""
        if stopping and self.means is not None:
            return sampled(self.means.at(base), self.means)
        each = (self.stopping if stopping else self.selection).sampled
        return SampledVariances(np.full_like(each, each[base]), each, np.zeros_like(each))

    def by_reference(self, base: int) -> Floats:
        """Variances (k,) of the differences from `base` by the choice of the reference; 0 where nothing is known of it.

        What all scores have in common drops out.
        """
        if self.pairings[base].reference is None:
            return np.zeros(len(self.pairings))
        return np.array([float(more.var(ddof=1)) if len(more) else 0.0 for more in self._of_reference(base)])

    def skewness_by_reference(self, base: int) -> Floats:
        """The skewness (k,) of what the rows of the reference have more influence than on `base`; 0 as above."""
        if self.pairings[base].reference is None:
            return np.zeros(len(self.pairings))
        return np.array([float(skewness(more)) for more in self._of_reference(base)])

    def _of_reference(self, base: int) -> list[Floats]:
        own = self.pairings[base].reference_values.astype(np.float64)
        each = [pairing.reference_values for pairing in self.pairings]
        return [values - own if len(values) == len(own) > 1 else own[:0] for values in each]


class _Variances:
    """Squared errors (k,): `total` = `sampled` + `systematic`."""

    def __init__(self, errors: Sequence[float], systematic: Sequence[float], signs: Sequence[int]) -> None:
        self.total = np.square(np.array(errors))
        self.systematic = np.minimum(np.square(np.array(systematic)), self.total)
        self.sampled = self.total - self.systematic
        self.signed = signs * np.sqrt(self.systematic)
        """The systematic parts with their signs; 0 where these are not known."""

    def shared(self, base: int, correlations: Floats) -> Floats:
        """The covariance, twice, of the systematic parts of each and of `base`, where they have these correlations."""
        return 2.0 * correlations * self.signed * self.signed[base]

    def reductions(
        self, base: int, sampled: Floats, shared: Floats, is_paired: Bools, added: Floats | float = 0.0
    ) -> list[float]:
        """The variances of differences from `base` over the variances for independent estimates; 1 where they are not
        paired.

        shared: what is less of the systematic parts. added: what the choice of the reference adds to each variance,
        also where they are not paired.
        """
        independent = self.total + self.total[base]
        variances = np.maximum(sampled, 0.0) + self.systematic + self.systematic[base] - shared + added
        variances = variances / independent
        return np.where((is_paired | (added > 0.0)) & np.isfinite(variances), variances, 1.0).tolist()


class Shifts(NamedTuple):
    """The indices of the differences that λ_a u_a − λ_b u_b was added to, and the weights λ of each and of the base."""

    at: Ints
    of_each: Floats
    of_base: Floats


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def compared(columns: Columns, base: int, influences: InfluenceTable, beyond: float = 0.0) -> Against:
    """The contrasts of k paired estimates, which have these influences, with the one at `base`.

    beyond: as of `Contrasts.against`.

    At unequal counts and ρ_L > 0 the longer run's own earlier value is the control variate of the shorter one. Where
    one of the two lacks indices, unshared samples are taken out of both instead.
    """
    between = _Differences.of(columns, base, influences, beyond)
    rho, parts, variances, shared = between.rho, between.parts, between.variances, between.shared
    if columns.audited:
        between.use_audits()
    elif columns.prompted:
        between.use_prompts()
    else:
        controlled = between.control()
        between.compare_jackknives(controlled, between.use_common_indices())
        variances[1] *= between.factors_by_rare_rows()
    # Rows that both may lack say nothing of how alike the two are (rules/differences.md).
    lacking = columns.missing * columns.missing[base] * variances[1]
    variances[1] = np.fmax(variances[1], np.minimum(lacking, parts[1].own + parts[1].each))
    even = effective(rho, columns.first, columns.first[base], np.ones_like(rho))
    is_paired = (rho != 0.0) | (bool(columns.prompted or columns.audited) & (np.arange(len(rho)) != base))
    if columns.audited:
        even = between.correlations  # all of them have the same audits
    return Against(
        differences=between.difference.tolist(),
        selection_reductions=columns.selection.reductions(base, variances[0], shared[0], is_paired),
        stopping_reductions=columns.stopping.reductions(
            base, variances[1], shared[1], is_paired | (columns.means is not None), columns.by_reference(base)
        ),
        own=(parts[1].own + columns.stopping.systematic[base]).tolist(),
        each=(parts[1].each + columns.stopping.systematic).tolist(),
        even_reductions=_even(columns, base, rho, even, is_paired),
        rho=rho.tolist(),
        correlations=between.correlations.tolist(),
        common=between.common.astype(int).tolist(),
    )


@dataclass(slots=True)
class _Differences:
    """The differences of k paired estimates from the one at `base`, and their variances, while they are made."""

    columns: Columns
    base: int
    influences: InfluenceTable
    rho: Floats
    """ρ_L (k,)."""
    correlations: Floats
    """ρ_e (k,)."""
    common: Floats
    difference: Floats
    beyond: float
    """As of `Contrasts.against`."""
    parts: Sequence[SampledVariances]
    """The variances by sampling of each kind of errors, of selection and of stopping, for independent estimates."""
    variances: list[Floats]
    """The sampling variances of the differences, by kind."""
    shared: Sequence[Floats]
    """The covariance, twice, of the systematic parts of errors, by kind."""

    @classmethod
    def of(cls, columns: Columns, base: int, influences: InfluenceTable, beyond: float) -> _Differences:
        """The differences as they are at equal counts."""
        n, own = columns.n, columns.n[base]
        rho = influences.correlations(base)
        rho[base] = 0.0
        common = columns.indices.common(base)
        nested = np.sqrt(np.minimum(n, own) / np.maximum(n, own))  # bounds a negative correlation on the wide side
        overlap = common / np.sqrt(n * own)
        overlap[rho < 0.0] = nested[rho < 0.0]
        correlations = effective(rho, columns.first, columns.first[base], overlap)
        parts = [columns.by_sampling(base, stopping) for stopping in (False, True)]
        variances = [own + each - 2.0 * correlations * np.sqrt(own * each) for own, each, _ in parts]
        alike = np.maximum(rho, 0.0) * overlap
        shared = [kind.shared(base, alike) for kind in (columns.selection, columns.stopping)]
        difference = columns.loss - columns.loss[base]
        return cls(columns, base, influences, rho, correlations, common, difference, beyond, parts, variances, shared)

    def use_audits(self) -> None:
        """Replace differences, errors and correlations by those by the audits of both
        (rules/audits.md). Two generators without common audits count as independent.
        """
        columns, base, sampled = self.columns, self.base, self.columns.stopping.sampled
        for index, mean in enumerate(columns.audited):
            contrast = None if index == base else audited_apart(mean, columns.audited[base])
            self.correlations[index] = 0.0
            self.common[index] = len(mean.audits) if contrast is None else contrast.audits
            if contrast is None:
                continue
            variance = max(contrast.variance, _ROUNDING * (sampled[index] + sampled[base]))
            self.difference[index] = columns.sign * contrast.value
            for variances in self.variances:
                variances[index] = variance
            apart = sampled[index] + sampled[base] - variance
            scale = 2.0 * np.sqrt(sampled[index] * sampled[base])
            self.correlations[index] = np.clip(apart / scale, -1.0, 1.0) if scale > 0.0 else 0.0

    def use_prompts(self) -> None:
        """Replace the sampling variances by the variances of differences of means by prompts (rules/differences.md).

        Rare values widen what is by chance within prompts: of prompts the list has no others. Values that are all equal
        say nothing of the values of other prompts, which may differ as `stopping` says.
        """
        columns, base, rare = self.columns, self.base, self.parts[1]
        parts = [differing(mean, columns.prompted[base]).parts for mean in columns.prompted]
        by_values, by_prompts = np.array(parts).T
        are_equal = np.array([mean.variance == 0.0 and not mean.is_complete for mean in columns.prompted])
        unknown = np.where(are_equal, columns.stopping.sampled, 0.0)
        by_prompts += unknown + unknown[base]
        claimed = rare.factors(self.difference - self.beyond)
        factors = (rare.own + rare.each) / (columns.drawn + columns.drawn[base]) * claimed
        factors = np.where(np.isfinite(factors), factors, 1.0)
        for variances, each in zip(self.variances, (by_values, by_values * factors), strict=True):
            floor = _ROUNDING * (columns.stopping.sampled + columns.stopping.sampled[base])
            variances[:] = np.maximum(each + by_prompts, floor)
            variances[base] = 2.0 * columns.stopping.sampled[base]

    def factors_by_rare_rows(self) -> Floats | float:
        """The factors (k,) of the sampling variances by rare rows that would speak against the sign of the difference.

        The real rows show rows that are too rare for the samples. As references they mostly have the opposite
        influence, and where generators lose what is rare in them the same one: half of their skewness counts whatever
        its sign.
        """
        columns, base = self.columns, self.base
        if not columns.is_skewed[base]:
            return 1.0
        real = columns.skewness_by_reference(base)
        of_rows, claimed = (self.influences.skewness(base), -real), self.difference - self.beyond
        rare = (np.abs(against(columns.sign * each, claimed)) for each in of_rows)
        counted = np.maximum.reduce([*rare, 0.5 * np.abs(real)])
        factors = against_widening(self.rho * counted, np.minimum(columns.n, columns.n[base]))
        return np.where(columns.is_skewed, np.maximum(factors, self.parts[1].factors(claimed)), 1.0)

    def control(self) -> list[int]:
        """Replace differences and sampling variances by those with a control variate, where there is one.

        D = e_S + β (e_B − e_B(n′)) − e_B, S the one with fewer samples, B the other, n′ the largest count of B's
        history that is not above n_S. r is by the influences of S and of B at n′, which are more alike than those of S
        and B, or by ρ_L where they are not known. β is made of the selection variances for both errors. Where the
        jackknives of S and of B at n′ can be compared, the variance grows by as much as theirs is above that by the
        influences. Returns the indices of these differences.
        """
        columns, base, rho, parts, into = self.columns, self.base, self.rho, self.parts, self.variances
        n = columns.n
        may = (rho > 0.0) & (n != n[base]) & columns.indices.are_whole & columns.indices.are_whole[base]
        may &= np.where(n > n[base], columns.selection.sampled, columns.selection.sampled[base]) > 0.0
        may &= columns.are_independent & columns.are_independent[base]
        controls = [(index, past) for index in np.flatnonzero(may).tolist() if (past := _earlier(columns, base, index))]
        if not controls:
            return []
        at = np.array([index for index, _ in controls])
        past_n, past, past_variance, past_first, past_systematic = history_array([p for _, p in controls]).T
        past = columns.sign * past
        is_shorter = n[at] < n[base]
        small, big = np.where(is_shorter, at, base), np.where(is_shorter, base, at)
        select = columns.selection.sampled
        then = self.influences.correlations_with_past(small.tolist(), [past.influence for _, past in controls])
        then = np.where(np.isnan(then), rho[at], np.maximum(then, 0.0))
        r = effective(then, columns.first[small], past_first, np.sqrt(past_n / n[small]))
        beta = r * np.sqrt(select[small] / past_variance)
        gain = columns.loss[small] + beta * (columns.loss[big] - past) - columns.loss[big]
        self.difference[at] = np.where(is_shorter, gain, -gain)
        compared_at: list[int] = []
        then_alike = rho[at] * np.sqrt(past_n / n[small])
        for of, common in zip((columns.selection, columns.stopping), self.shared, strict=True):
            # The systematic parts are weighed as the values are: B's is (1 − β) y_B + β y_B(n′).
            newest = of.signed[big]
            stopping = columns.stopping.signed[big]
            at_past = past_systematic * np.divide(newest, stopping, out=np.zeros_like(newest), where=stopping != 0.0)
            of_big = (1.0 - beta) * newest + beta * at_past
            alike = np.square(newest) - np.square(of_big) + 2.0 * then_alike * of.signed[small] * of_big
            common[at] = np.where(newest * of.signed[small] != 0.0, alike, common[at])
        for (own, each, _), variances in zip(parts, into, strict=True):
            v, w = np.where(is_shorter, each[at], own[at]), np.where(is_shorter, own[at], each[at])
            h = past_variance * w / select[big]
            controlled = v + w + np.square(beta) * np.maximum(h - w, 0.0) - 2.0 * beta * r * np.sqrt(v * h)
            controlled += 2.0 * (beta - 1.0) * self.correlations[at] * np.sqrt(v * w)
            controlled = np.maximum(controlled, 0.5 * (1.0 - np.square(r)) * v)  # this part of S's is left, at least
            if columns.jackknives is not None and variances is into[1]:
                past_jackknives = _weighed([p.jackknife for _, p in controls], [p.samples for _, p in controls])
                past_rows = np.array([jackknife_rows(p.samples) for _, p in controls])
                counted = _by_jackknives(past_jackknives, columns.jackknives[small])
                grown = controlled * counted / (v + h - 2.0 * r * np.sqrt(v * h))
                is_same = (columns.jackknife_rows[small] == past_rows) & np.isfinite(counted)
                controlled = np.where(is_same, np.fmax(controlled, np.minimum(grown, v + w)), controlled)
                compared_at = at[is_same].tolist()
            variances[at] = controlled
        return compared_at

    def use_common_indices(self) -> Shifts | None:
        """Replace differences and sampling variances where one of the two lacks indices and ρ_L > 0.

        D = e_a − e_b + λ_a u_a − λ_b u_b (`common_indices`). λ is made of the selection variances for both errors. How
        large a systematic part is and of which sign, is known by the samples of each, which are others here: parts that
        have a sign have in common what the samples have. Returns what was taken out, if anything was.
        """
        columns, base, rho = self.columns, self.base, self.rho
        is_whole = columns.indices.are_whole
        if is_whole.all():
            return None
        spread = columns.first * columns.selection.sampled
        incomplete = ~(is_whole & is_whole[base])
        may = (rho > 0.0) & incomplete & (self.common >= FEWEST_COMMON)
        at = np.flatnonzero(may & (spread > 0.0) & (spread[base] > 0.0))
        if not len(at):
            return None
        m, r = self.common[at], rho[at]
        a, b = columns.indices.sides(self.influences, m, base, at)
        # Of both kinds of errors at once (2, ·).
        of_a, of_b = np.array([part.each[at] for part in self.parts]), np.array([part.own[at] for part in self.parts])
        taken = weights(a, b, of_a[0], of_b[0], r, m)
        self.difference[at] += columns.sign * (taken[0] * a.moved(m) - taken[1] * b.moved(m))
        for variances, each in zip(self.variances, variance(a, b, of_a, of_b, r, m, taken), strict=True):
            variances[at] = each
        alike = r * m / np.sqrt(a.n * b.n)
        for of, shared in zip((columns.selection, columns.stopping), self.shared, strict=True):
            both = of.systematic[at] + of.systematic[base]
            shared[at] = np.where(of.signed[at] * of.signed[base] != 0.0, alike * both, shared[at])
        return Shifts(at, *taken)

    def compare_jackknives(self, controlled: list[int], moved: Shifts | None) -> None:
        """Make the sampling variances for stopping at least those by the jackknives, but not of the `controlled` ones.

        The jackknives see what influences do not, as they are linearised. Where indices are missing, that is the
        jackknife of D: u is without the same groups.
        """
        columns, base, variances = self.columns, self.base, self.variances
        if columns.jackknives is None:
            return
        deviations = columns.jackknives - columns.jackknives[base]
        is_same = columns.jackknife_rows == columns.jackknife_rows[base]
        is_same[controlled] = False
        if moved is not None:
            at = moved.at
            is_same[at] = True  # u takes out what only one of them has
            of_a, of_b = self.influences.moved_without_groups(columns.jackknife_rows, base, at)
            weights = _jackknife_weights(columns.counts)
            deviations[at] += (moved.of_each * weights[at])[:, None] * of_a
            deviations[at] -= (moved.of_base * weights[base])[:, None] * of_b
        counted = np.minimum(np.square(deviations).sum(axis=1), self.parts[1].own + self.parts[1].each)
        variances[1] = np.where(is_same, np.fmax(variances[1], counted), variances[1])


def _earlier(columns: Columns, base: int, index: int) -> Earlier | None:
    """The control variate of this pair; None if the longer run has no earlier estimate that can serve."""
    own, other = columns.counts[base], columns.counts[index]
    history = columns.pairings[index if other > own else base].history
    fits = bisect_right(history, min(own, other), key=_samples)
    past = history[fits - 1] if fits else None
    return past if past is not None and past.samples >= 2 and past.variance > 0.0 else None


def _weighed(jackknives: Sequence[tuple[float, ...]], samples: Sequence[int]) -> Floats:
    """Jackknives (k, 10) whose sums of squares are the variances of the estimates; NaN where there is none."""
    weighed = jackknife_array(jackknives) * _jackknife_weights(samples)[:, None]
    return np.where(weighed.any(axis=1, keepdims=True), weighed, np.nan)


def _jackknife_weights(samples: Sequence[int]) -> Floats:
    """By what deviations (k,) of delete-a-group estimates are multiplied, so that their squares sum to a variance."""
    return np.sqrt([(1.0 - 1.0 / JACKKNIFE_GROUPS) * jackknife_rows(n) / n for n in samples])


def _by_jackknives(jackknives: Floats, others: Floats) -> Floats:
    """The variances (k,) of differences of the estimates that these belong to; NaN where one of the two has none."""
    return np.square(jackknives - others).sum(axis=1)


def _even(columns: Columns, base: int, rho: Floats, even: Floats, is_paired: Bools) -> list[float]:
    spread, drawn = columns.n * columns.stopping.total, columns.n * columns.stopping.sampled
    independent = spread + spread[base]
    shared = columns.stopping.shared(base, np.maximum(rho, 0.0)) * np.sqrt(columns.n * columns.n[base])
    reductions = (independent - 2.0 * even * np.sqrt(drawn * drawn[base]) - shared) / independent
    return np.where(is_paired & np.isfinite(reductions), reductions, 1.0).tolist()
