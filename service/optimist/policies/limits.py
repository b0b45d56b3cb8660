"""Limits that scores meet or not, at any look: margins, their errors, and verdicts (rules/limits.md). No torch.

A margin is by how much a generator is beyond a limit, compared with one rival; it meets the limit if none is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from optimist.arrays import Bools, Floats
from optimist.cache import Cache
from optimist.estimates.clusters import FEW
from optimist.estimates.estimate import Estimate
from optimist.estimates.skewness import OF_MEANS, widening
from optimist.policies.contrasts import contrasts_of
from optimist.policies.stopping import is_early
from optimist_client.limits import Limit
from optimist_client.models.gates import GateAnswer

_EQUAL = 1e-6
"""Two values are equal if they differ by at most this part of the range, as influences are stored in single
precision."""


def sequence(told: int) -> float:
    """S(t) = (1 + log t)^1.5 after `told` batches: 2 S(t) tests to one side count as many as the tests of all looks."""
    return math.pow(1.0 + math.log(max(told, 1)), 1.5)


def threshold(delta: float, comparisons: float, told: int | None) -> float:
    """z(1 − δ/(2 K S(t))) for K comparisons, each to one side, at every look; z(1 − δ/K) at one look, `told` None."""
    looks = 1.0 if told is None else 2.0 * sequence(told)
    return -NormalDist().inv_cdf(delta / (max(comparisons, 1.0) * looks))


class MarginSide(NamedTuple):
    """The basis of one verdict on a margin: arrays (G, J)."""

    margin: Floats
    error: Floats
    """∞ where nothing is known yet; 0 where the margin is exact."""

    @property
    def errors(self) -> Floats:
        """The margin in errors; ±∞ where it is exact, NaN where it is unknown."""
        exact = np.where(self.error == 0.0, np.where(self.margin > 0.0, math.inf, -math.inf), math.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.error > 0.0, self.margin / self.error, exact)


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of G generators by a limit, each against J rivals (G, J).

    A limit relative to the best has a column for each generator; other limits have one.
    """

    limit: Limit
    rivals: tuple[int, ...]
    """The index of the rival of each column; (−1,) for a fixed limit."""
    values: Floats
    """The difference from the rival, or from the fixed limit; above 0 where it is worse."""
    allowed: Floats
    """The allowed difference, so that the margin is `values` − `allowed`."""
    met: MarginSide
    """The margins as a limit that is met has them: it is claimed that they are below 0."""
    missed: MarginSide
    """The margins as a limit that is not met has them."""
    rows: Floats
    """The samples of the side that has fewer, where the t quantile counts them; else ∞."""
    samples: Floats
    """The samples of each generator (G,)."""
    spreads: Floats
    """The deviation of one sample of each generator (G,)."""
    of_rivals: Floats
    """The deviation of one sample of each rival (J,); 0 for a fixed limit."""
    rho: Floats
    """ρ_L of each pair (G, J)."""

    @cached_property
    def own(self) -> Bools:
        """Where a generator is its own rival (G, J)."""
        return np.arange(len(self.values))[:, None] == np.array(self.rivals)[None]

    @property
    def comparisons(self) -> int:
        """K: how many comparisons can be at the limit at once."""
        generators = len(self.values)
        if self.limit.is_of_best:
            return generators * generators // 4
        return generators if self.limit.is_fixed else generators - 1

    def reach(self, z: float) -> Floats:
        """The number of errors that a margin must be from 0 (G, J): z, or about the t quantile of as many rows."""
        return z * (1.0 + max(z * z - 9.0, 0.0) / (4.0 * self.rows))

    def refused(self, z: float) -> Bools:
        """The generators that do not meet the limit (G,)."""
        return np.any((self.missed.errors > self.reach(z)) & ~self.own, axis=1)

    def counting(self, refused: Bools) -> Bools:
        """The comparisons that a met limit needs (G, J): those with rivals that meet it themselves."""
        counts = ~self.own
        return counts & ~refused[list(self.rivals)] if self.limit.is_of_best else counts

    def accepted(self, z: float, refused: Bools) -> Bools:
        """The generators that meet the limit (G,)."""
        is_met: Bools = (-self.met.errors > self.reach(z)) | ~self.counting(refused)
        return np.all(is_met, axis=1) & ~refused

    def ends(self, z: float, refused: Bools) -> tuple[Floats, Floats]:
        """The interval of how much worse each generator is than what the limit compares it with (G, 2), and the index
        of the column (G,) that decides: the one that is hardest to meet.

        The verdict would be "met" at limits above the upper end, "not met" below the lower one. NaN where unknown.
        """
        counts, reach = self.counting(refused), self.reach(z)
        with np.errstate(invalid="ignore"):
            upper = np.where(counts, self.met.margin + self.allowed + reach * self.met.error, -math.inf)
            lower = np.where(~self.own, self.missed.margin + self.allowed - reach * self.missed.error, -math.inf)
        upper[np.isnan(upper)] = math.inf
        lower[np.isnan(lower)] = -math.inf
        return np.stack([lower.max(axis=1), upper.max(axis=1)], axis=1), (upper - self.allowed).argmax(axis=1)

    def left(self, z: float, side: Literal["met", "missed"], costs: Floats, open_: Floats) -> Floats:
        """The cost until a verdict on each margin (G, J) at this side, by the cheapest split of its samples; ∞ where
        nothing is known.

        costs: of a sample of each generator (G,); open_: the factor of each one's variance by samples on their way.
        """
        of = self.met if side == "met" else self.missed
        # A margin is taken to be at least half an error: one that is 0 by chance would take samples without end.
        gaps = np.maximum(of.margin if side == "missed" else -of.margin, 0.5 * of.error)
        rivals, is_fixed = list(self.rivals), self.limit.is_fixed
        of_rivals = np.zeros_like(self.of_rivals) if is_fixed else self.of_rivals * np.sqrt(costs[rivals])
        weight = self.spreads[:, None] * np.sqrt(costs)[:, None] + of_rivals
        own = (np.square(self.spreads) / self.samples)[:, None]
        of_rival = 0.0 if is_fixed else (np.square(self.of_rivals) / self.samples[rivals])[None]
        with np.errstate(divide="ignore", invalid="ignore"):
            then = own * open_[:, None] + (0.0 if is_fixed else of_rival * open_[rivals])
            variance = np.square(of.error) * then / (own + of_rival)
            needed = np.square(self.reach(z)) / np.square(gaps) - 1.0 / variance
            costs_left = np.square(weight) * np.maximum(needed, 0.0)
        return np.where(np.isfinite(costs_left) & np.isfinite(of.error), costs_left, math.inf)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The comparisons of estimates, each with each rival: arrays (k, J). A comparison depends on no other."""

    estimates: tuple[Estimate, ...]
    differences: Floats
    """The loss of each less q times the loss of its rival."""
    errors: Floats
    plain: Floats
    """The errors without what rare values add; NaN where these are not needed."""
    rho: Floats
    common: Floats


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def margins_of(
    limit: Limit, names: Sequence[str], estimates: Sequence[Estimate | None], span: tuple[float, float] | None = None
) -> Margins:
    """The margins of the generators of these names by a limit. Where an estimate is missing they are unknown, and where
    the limit is relative to a generator that is not among them.

    span: the least and the largest value, where the estimates are means and these are declared.
    """
    scored = [index for index, each in enumerate(estimates) if each is not None]
    present = [each for each in estimates if each is not None]
    rivals = tuple(range(len(names))) if limit.is_of_best else (-1,)
    if limit.against in names:  # else it has been retired
        rivals = (names.index(limit.against),)
    columns = [index for index, rival in enumerate(rivals) if rival in scored or limit.is_fixed]
    filled = np.ix_(scored, columns)

    def spread_out(numbers: Floats | float, unknown: float = math.nan) -> Floats:
        whole = np.full((len(names), len(rivals)), unknown)
        whole[filled] = numbers
        return whole

    if not scored or not columns:
        nothing = spread_out(math.nan)
        none, side = np.full(len(names), math.nan), MarginSide(nothing, nothing)
        return Margins(limit, rivals, nothing, nothing, side, side, nothing, none, none, nothing[0], nothing)
    lumps = _Lumps(present, span)
    samples, spreads = np.full((2, len(names)), math.nan)
    samples[scored] = [each.samples for each in present]
    spreads[scored] = _errors(present) * np.sqrt(samples[scored])
    rows = _rows(present)[:, None]
    if limit.is_fixed:
        values, allowed, met, missed = _fixed(limit, present, lumps)
        of_rivals, rho = np.zeros(1), np.zeros_like(values)
    else:
        at = [scored.index(rivals[column]) for column in columns]
        rows = np.minimum(rows, rows[at, 0])
        values, allowed, met, missed, rho, factors = _relative(limit, present, at, lumps)
        of_rivals = np.full(len(rivals), math.nan)
        of_rivals[columns] = factors * spreads[[rivals[column] for column in columns]]
    met, missed = (MarginSide(*(spread_out(numbers) for numbers in side)) for side in (met, missed))
    values, allowed, rho = spread_out(values), spread_out(allowed), spread_out(rho, 0.0)
    rows = spread_out(rows, math.inf)
    return Margins(limit, rivals, values, allowed, met, missed, rows, samples, spreads, of_rivals, rho)


def _rows(estimates: Sequence[Estimate]) -> Floats:
    """The units that a t quantile counts (k,); ∞ where the scores are no means, or exact."""
    counted = ((each.value_skewness is None or each.is_exact, float(each.units[0])) for each in estimates)
    return np.array([math.inf if none else units for none, units in counted])


def _usable(estimates: Sequence[Estimate]) -> Bools:
    """A mask of the estimates that have enough samples for a verdict, and an error (k,): values that are all equal have
    none."""
    return np.array([each.is_exact or (bool(each.stopping_error) and not is_early(each)) for each in estimates])


def _errors(estimates: Sequence[Estimate]) -> Floats:
    return np.array([math.inf if each.stopping_error is None else each.stopping_error for each in estimates])


def _fixed(limit: Limit, estimates: Sequence[Estimate], lumps: _Lumps) -> tuple[Floats, float, MarginSide, MarginSide]:
    """Differences from a number (k, 1), what they may be, and the margins of both sides."""
    assert isinstance(limit.allowed, float)
    sign, scale = 1.0 if limit.kind == "below" else -1.0, estimates[0].scale
    fixed = limit.allowed if scale == "linear" else math.log(limit.allowed)
    margins = sign * (np.array([each.value for each in estimates]) - fixed)
    if all(each.strict for each in estimates):
        ends = np.sort(sign * (np.array([(each.lower, each.upper) for each in estimates]) - fixed), axis=1)
        exact = np.zeros_like(ends[:, 1:])
        return margins[:, None], 0.0, MarginSide(ends[:, 1:], exact), MarginSide(ends[:, :1], exact)
    skewness = sign * np.array([each.value_skewness or 0.0 for each in estimates])
    factors = widening(np.where(skewness * margins < 0.0, skewness, 0.0), _rows(estimates), OF_MEANS)
    errors = np.where(_usable(estimates), np.sqrt((np.square(_errors(estimates)) + lumps.added) * factors), math.inf)
    side = MarginSide(margins[:, None], errors[:, None])
    return margins[:, None], 0.0, side, side


def _relative(
    limit: Limit, estimates: Sequence[Estimate], at: Sequence[int], lumps: _Lumps
) -> tuple[Floats, Floats, MarginSide, MarginSide, Floats, Floats]:
    """Differences from the rivals at these indices (k, J), what they may be, the margins of both sides, ρ_L, and by
    what the values of rivals are multiplied (J,)."""
    allowed, q = _allowed(limit, estimates)
    rivals = [estimates[index] for index in at]
    losses = np.array([abs(one.value) for one in rivals])
    shown = allowed + np.abs(q[at] - 1.0) * losses
    if all(one.strict for one in estimates):
        ends = np.array([(one.lower, one.upper) for one in estimates])
        better, worse = np.sort(ends if estimates[0].lower_is_better else -ends, axis=1).T
        differences = worse[:, None] - q[at] * better[at], better[:, None] - q[at] * worse[at]
        met, missed = (MarginSide(each - allowed, np.zeros_like(each)) for each in differences)
        middle = 0.5 * (met.margin + missed.margin)
        return middle + shown, shown + 0.0 * middle, met, missed, 0.0 * middle, q[at]
    pairs = _paired(limit, estimates, at, allowed, q, lumps)
    usable = _usable(estimates)
    margins = pairs.differences - allowed
    met, missed = lumps.sides(pairs, at, allowed)
    exact = np.array([one.is_exact for one in estimates])
    both, errors = exact[:, None] & exact[at], _errors(estimates)
    exactly = np.where(np.abs(margins) <= errors[:, None] + errors[at], 0.0, margins)  # but for rounding
    sides: list[MarginSide] = []
    for side in (met, missed):
        error = np.where(usable[:, None] & usable[at], side.error, math.inf)
        sides.append(MarginSide(np.where(both, exactly, side.margin), np.where(both, 0.0, error)))
    return margins + shown, shown + 0.0 * margins, sides[0], sides[1], pairs.rho, q[at]


def _allowed(limit: Limit, estimates: Sequence[Estimate]) -> tuple[float, Floats]:
    """The allowed difference, and the factor of the value of each rival (k,)."""
    share, ones = limit.share, np.ones(len(estimates))
    if share is None:
        assert isinstance(limit.allowed, float)
        return limit.allowed, ones
    if estimates[0].scale == "log":
        return math.log1p(share), ones
    q = 1.0 + (share if estimates[0].lower_is_better else -share)
    return 0.0, np.where([each.value < 0.0 for each in estimates], 1.0, q)


_newest = Cache[tuple[Limit, tuple[int, ...], int], _Pairs](64)


def _paired(
    limit: Limit, estimates: Sequence[Estimate], at: Sequence[int], allowed: float, q: Floats, lumps: _Lumps
) -> _Pairs:
    """All comparisons; comparisons of estimates that have not changed since the last call are taken from it."""
    key = limit, tuple(at), len(estimates)
    before = _newest.get(key)
    old = [each is other for each, other in zip(estimates, before.estimates, strict=True)] if before else []
    k = len(estimates)
    made = np.full((5, k, len(at)), math.nan)
    if before is not None:
        made[:] = before.differences, before.errors, before.plain, before.rho, before.common
    new = [index for index in range(k) if not old or not old[index]]
    for column, base in enumerate(at):
        others = [*range(k)] if base in new else new
        if others:
            made[:, others, column] = _against(estimates, base, others, allowed, q, lumps)
    return _newest.put(key, _Pairs(tuple(estimates), *made))


def _against(
    estimates: Sequence[Estimate], base: int, others: Sequence[int], allowed: float, q: Floats, lumps: _Lumps
) -> Floats:
    """Differences, errors, plain errors, ρ_L and common samples (5, ·) of these others compared with the one at
    `base`. The numbers of two estimates are the same to the last bit in every company."""
    among = [*others, *([] if base in others else [base])]
    its, by = among.index(base), float(q[base])
    compared = [scaled(estimates[index], by) if index == base and by != 1.0 else estimates[index] for index in among]
    contrasts = contrasts_of(compared)
    against, errors = contrasts.against(its, allowed), np.array(contrasts.errors(its, "stopping", allowed))
    plain = np.full(len(among), math.nan)
    if lumps.agree(base)[among].any():
        plain = np.minimum(*(np.array(contrasts.errors(its, "stopping", end)) for end in (-math.inf, math.inf)))
    return np.stack([against.differences, errors, plain, against.rho, against.common])[:, : len(others)]


class _Lumps:
    """Means of few different values, among which the ones that decide may not have come.

    Where more than half of the pairs of two generators are equal, two more pairs that speak against a verdict take the
    place of the factor by rare values: pairs as far apart as values can be. Where values are the two ends of a declared
    range, and not compared in pairs, one more of each counts in their variance.
    """

    def __init__(self, estimates: Sequence[Estimate], span: tuple[float, float] | None) -> None:
        self._estimates = estimates
        self._are_means = all(each.value_skewness is not None for each in estimates)
        self._span = span
        self.added = np.array([self._more(each) for each in estimates])
        """The gain of the variance of each mean by one more value at either end (k,)."""

    @cached_property
    def _range(self) -> float:
        """The distance between the farthest values that can be, or were."""
        if self._span is not None:
            return self._span[1] - self._span[0]
        ends = [
            (each.plug_in - each.farthest[0], each.plug_in + each.farthest[1])
            for each in self._estimates
            if each.farthest is not None
        ]
        if not ends:
            ends = [
                (float(np.nanmin(pairing.influence)), float(np.nanmax(pairing.influence)))
                for each in self._estimates
                if (pairing := each.pairing) is not None and np.isfinite(pairing.influence).any()
            ]
        return max((end for _, end in ends), default=0.0) - min((start for start, _ in ends), default=0.0)

    def _more(self, estimate: Estimate) -> float:
        error = estimate.stopping_error
        if self._span is None or not self._are_means or error is None or estimate.units[1] != "samples":
            return 0.0
        n, (low, high) = estimate.samples, self._span
        share = min(max((estimate.plug_in - low) / (high - low), 0.0), 1.0)
        few = (1.0 + FEW / n) / n
        variance, widest = error**2 / few, share * (1.0 - share) * (high - low) ** 2
        if widest > 0.0 and variance < (1.0 - _EQUAL) * widest * n / max(n - 1, 1):
            return 0.0  # some values are between the ends
        more = (n * share + 1.0) / (n + 2.0)
        return max(more * (1.0 - more) * (high - low) ** 2 - variance, 0.0) * few

    def sides(self, pairs: _Pairs, at: Sequence[int], allowed: float) -> tuple[MarginSide, MarginSide]:
        """The margins (k, J) with their errors, for "met" and for "not met"."""
        margins, errors = pairs.differences - allowed, pairs.errors
        if not self._are_means:
            return MarginSide(margins, errors), MarginSide(margins, errors)
        more = np.sqrt(np.square(errors) + self.added[:, None] + self.added[at])
        errors = np.where(pairs.common > 0.0, errors, more)
        met, missed = MarginSide(margins.copy(), errors.copy()), MarginSide(margins.copy(), errors.copy())
        for column, base in enumerate(at):
            for index in np.flatnonzero(self.agree(base)).tolist():
                n = min(self._estimates[index].samples, self._estimates[base].samples)
                steps = sum(self._step(self._estimates[each]) for each in (index, base))
                plain = pairs.plain[index, column] if pairs.plain[index, column] >= 0.0 else errors[index, column]
                sampled = max(float(plain) ** 2 - steps, 0.0)
                for side, row in ((met, self._range), (missed, -self._range)):
                    centre, variance = _with_rows(pairs.differences[index, column], sampled, n, row)
                    side.margin[index, column], side.error[index, column] = centre - allowed, math.sqrt(variance)
        return met, missed

    @staticmethod
    def _step(estimate: Estimate) -> float:
        """The part of a mean's variance that stands for a pair that could differ, which the added rows are."""
        pairing = estimate.pairing
        return 0.0 if pairing is None or estimate.batches is not None else pairing.systematic_stopping**2

    def agree(self, base: int) -> Bools:
        """Of which estimates more than half of the pairs with the one at `base` have equal values (k,)."""
        agree, own = np.zeros(len(self._estimates), bool), self._estimates[base]
        if not self._are_means or own.pairing is None:
            return agree
        for index, each in enumerate(self._estimates):
            if index != base and each.pairing is not None:
                size = min(len(each.pairing.influence), len(own.pairing.influence))
                apart = each.pairing.influence[:size] - own.pairing.influence[:size]
                apart += np.float32(each.plug_in - own.plug_in)
                common = apart[~np.isnan(apart)]
                agree[index] = 2 * int((np.abs(common) <= _EQUAL * self._range).sum()) > len(common)
        return agree


def _with_rows(mean: float, variance: float, n: int, row: float, added: int = 2) -> tuple[float, float]:
    """The mean of n pairs, which has this variance, and its variance, with so many more pairs of this difference."""
    squares = variance * (n - 1) / (1.0 + FEW / n) + mean * mean
    total = n + added
    centre = (n * mean + added * row) / total
    spread = (n * squares + added * row * row) / total - centre * centre
    return centre, max(spread, 0.0) / (total - 1) * (1.0 + FEW / n)


_scaled = Cache[tuple[int, float], tuple[Estimate, Estimate]](4096)


def scaled(estimate: Estimate, q: float) -> Estimate:
    """The estimate as if every value had been multiplied by q > 0, made once for the same object."""
    cached = _scaled.get((id(estimate), q))
    if cached is None:  # the original is held, so that no other object takes its id
        cached = _scaled.put((id(estimate), q), (estimate, _times(estimate, q)))
    return cached[1]


def _times(estimate: Estimate, q: float) -> Estimate:
    def by(number: float | None) -> float | None:
        return None if number is None else q * number

    pairing, prompted = estimate.pairing, estimate.prompted
    if pairing is not None:
        history = [
            past._replace(
                value=q * past.value,
                variance=q * q * past.variance,
                jackknife=tuple(q * each for each in past.jackknife),
                systematic=q * past.systematic,
            )
            for past in pairing.history
        ]
        pairing = replace(
            pairing,
            influence=pairing.influence * np.float32(q),
            systematic_selection=q * pairing.systematic_selection,
            systematic_stopping=q * pairing.systematic_stopping,
            later=pairing.later * np.float32(q),
            history=history,
            jackknife=tuple(q * each for each in pairing.jackknife),
            reference=None if pairing.reference is None else pairing.reference * np.float32(q),
        )
    if prompted is not None:
        squared = {name: q * q * getattr(prompted, name) for name in ("variance", "squares", "stray_squares")}
        prompted = replace(prompted, means=q * prompted.means, residuals=q * prompted.residuals, **squared)
    return replace(
        estimate,
        value=q * estimate.value,
        plug_in=q * estimate.plug_in,
        lower=q * estimate.lower,
        upper=q * estimate.upper,
        optimistic=q * estimate.optimistic,
        standard_error=by(estimate.standard_error),
        stopping_error=by(estimate.stopping_error),
        farthest=None if estimate.farthest is None else (q * estimate.farthest[0], q * estimate.farthest[1]),
        bracket=None if estimate.bracket is None else (q * estimate.bracket[0], q * estimate.bracket[1]),
        pairing=pairing,
        prompted=prompted,
    )


def gate(margins: Sequence[Margins], index: int, delta: float, told: int | None) -> GateAnswer:
    """The answer whether the generator at `index` meets all these limits, each relative to one other generator or
    fixed.

    Only one of the two errors is possible at a time, and all limits must be met: "yes" needs no union over them, and
    "no" one over the limits alone.
    """

    def all_by(of: Callable[[Margins], MarginSide], z: float, sign: float) -> list[bool]:
        return [bool(sign * of(each).errors[index, 0] > each.reach(z)[index, 0]) for each in margins]

    if all(all_by(lambda each: each.met, threshold(delta, 1, told), -1.0)):
        return "yes"
    missed = all_by(lambda each: each.missed, threshold(delta, len(margins), told), 1.0)
    return "no" if any(missed) else "open"
