"""Limits that scores meet or not, at any look: margins, their errors, and verdicts (decisions.md §3). No torch.

A margin is by how much a generator is beyond a limit, compared with one rival; it meets the limit if none is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.cache import Cache
from optimist.numerics.clusters import FEW
from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import Earlier
from optimist.numerics.skewness import OF_MEANS, widening
from optimist.policies.contrasts import Contrasts, contrasts_of
from optimist.policies.stopping import is_early
from optimist_client.limits import Limit

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Answer = Literal["yes", "no", "open"]

_EQUAL = 1e-6
"""Two values are equal if they differ by at most this part of the range, as influences are stored in single
precision."""
_LUMPED = 0.5
"""The share of equal pairs above which a few other ones decide a difference."""
_ADDED = 2
"""Rows against a verdict that are added to such a difference."""
_NARROWEST = 0.5
"""Errors that a margin is taken to be at least, where it is asked how many samples it still takes."""


def sequence(told: int) -> float:
    """S(t) = (1 + log t)^1.5 after `told` batches: 2 S(t) tests to one side count as many as those of all looks."""
    return math.pow(1.0 + math.log(max(told, 1)), 1.5)


def threshold(delta: float, comparisons: float, told: int) -> float:
    """z(1 − δ/(2 K S(t))) for K comparisons, each to one side, at every look."""
    return -NormalDist().inv_cdf(delta / (2.0 * max(comparisons, 1.0) * sequence(told)))


class Side(NamedTuple):
    """What one verdict on a margin rests on: arrays (G, J)."""

    margin: Array
    error: Array
    """∞ where nothing is known yet; 0 where the margin is exact."""

    @property
    def errors(self) -> Array:
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
    """The place of the rival of each column; (−1,) for a fixed limit."""
    values: Array
    """The difference from the rival, or from the fixed limit; above 0 where it is worse."""
    allowed: Array
    """What the difference may be, so that the margin is `values` − `allowed`."""
    met: Side
    """The margins as a limit that is met has them: it is claimed that they are below 0."""
    missed: Side
    """The margins as a limit that is not met has them."""
    rows: Array
    """The samples of the side that has fewer, where the t quantile counts them; else ∞."""
    samples: Array
    """The samples of each generator (G,)."""
    spreads: Array
    """The deviation of one sample of each generator (G,)."""
    of_rivals: Array
    """The deviation of one sample of each rival (J,); 0 for a fixed limit."""
    rho: Array
    """ρ_L of each pair (G, J)."""

    @cached_property
    def own(self) -> Flags:
        """Where a generator is its own rival (G, J)."""
        return np.arange(len(self.values))[:, None] == np.array(self.rivals)[None]

    @property
    def comparisons(self) -> int:
        """K: how many comparisons can be at the limit at once."""
        generators = len(self.values)
        if self.limit.kind == "best":
            return generators * generators // 4
        return generators if self.limit.is_fixed else generators - 1

    def reach(self, z: float) -> Array:
        """How many errors a margin must be from 0 (G, J): z, or about the t quantile of as many rows."""
        return z * (1.0 + max(z * z - 9.0, 0.0) / (4.0 * self.rows))

    def refused(self, z: float) -> Flags:
        """The generators that do not meet the limit (G,)."""
        return np.any((self.missed.errors > self.reach(z)) & ~self.own, axis=1)

    def counting(self, refused: Flags) -> Flags:
        """The comparisons that a met limit needs (G, J): those with rivals that meet it themselves."""
        counts = ~self.own
        return counts & ~refused[list(self.rivals)] if self.limit.kind == "best" else counts

    def accepted(self, z: float, refused: Flags) -> Flags:
        """The generators that meet the limit (G,)."""
        is_met: Flags = (-self.met.errors > self.reach(z)) | ~self.counting(refused)
        return np.all(is_met, axis=1) & ~refused

    def ends(self, z: float, refused: Flags) -> tuple[Array, Array]:
        """The interval of how much worse each generator is than what the limit compares it with (G, 2), and the place
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

    def left(self, z: float, side: Literal["met", "missed"], costs: Array, open_: Array) -> Array:
        """The cost until a verdict on each margin (G, J) at this side, by the cheapest split of its samples; ∞ where
        nothing is known.

        costs: of a sample of each generator (G,); open_: the factor of each one's variance by samples on their way.
        """
        of = self.met if side == "met" else self.missed
        gaps = np.maximum(of.margin if side == "missed" else -of.margin, _NARROWEST * of.error)
        rivals, is_fixed = list(self.rivals), self.limit.is_fixed
        of_rivals = np.zeros_like(self.of_rivals) if is_fixed else self.of_rivals * np.sqrt(costs[rivals])
        weight = self.spreads[:, None] * np.sqrt(costs)[:, None] + of_rivals
        one = (np.square(self.spreads) / self.samples)[:, None]
        other = 0.0 if is_fixed else (np.square(self.of_rivals) / self.samples[rivals])[None]
        with np.errstate(divide="ignore", invalid="ignore"):
            then = one * open_[:, None] + (0.0 if is_fixed else other * open_[rivals])
            variance = np.square(of.error) * then / (one + other)
            needed = np.square(self.reach(z)) / np.square(gaps) - 1.0 / variance
            found = np.square(weight) * np.maximum(needed, 0.0)
        return np.where(np.isfinite(found) & np.isfinite(of.error), found, math.inf)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def margins_of(
    limit: Limit,
    names: Sequence[str],
    estimates: Sequence[Estimate | None],
    span: tuple[float, float] | None = None,
) -> Margins:
    """The margins of the generators of these names by a limit. Where an estimate is missing they are unknown.

    span: the least and the largest value, where the estimates are means and these are declared.
    """
    known = [place for place, one in enumerate(estimates) if one is not None]
    rivals = tuple(range(len(names))) if limit.kind == "best" else (-1,)
    if limit.kind == "generator":
        rivals = (names.index(limit.against),)
    shape = len(names), len(rivals)
    nothing = np.full(shape, math.nan)
    made = {name: nothing.copy() for name in ("values", "allowed", "margin+", "error+", "margin-", "error-")}
    rows, rho = np.full(shape, math.inf), np.zeros(shape)
    samples, spreads, of_rivals = *np.full((2, len(names)), math.nan), np.zeros(len(rivals))
    found = [one for one in estimates if one is not None]
    if found:
        lumps = _Lumps(found, span)
        samples[known] = [one.samples for one in found]
        spreads[known] = _errors(found) * np.sqrt(samples[known])
        columns = [_fixed(limit, found, lumps)] if limit.is_fixed else _relative(limit, found, known, rivals, lumps)
        for place, column in enumerate(columns):
            if column is None:
                continue
            for name, numbers in column.numbers.items():
                made[name][known, place] = numbers
            rows[known, place], rho[known, place] = column.rows, column.rho
            of_rivals[place] = 0.0 if limit.is_fixed else column.q * spreads[rivals[place]]
    met, missed = (Side(made[f"margin{sign}"], made[f"error{sign}"]) for sign in "+-")
    return Margins(limit, rivals, made["values"], made["allowed"], met, missed, rows, samples, spreads, of_rivals, rho)


class _Column(NamedTuple):
    """The comparisons of k estimates with one rival, or a fixed limit."""

    numbers: dict[str, Array]
    rows: Array
    rho: Array
    q: float = 1.0


def _rows(estimates: Sequence[Estimate]) -> Array:
    """The units that a t quantile counts (k,); ∞ where the scores are no means, or exact."""
    counted = ((one.value_skewness is None or one.is_exact, float(one.units[0])) for one in estimates)
    return np.array([math.inf if none else units for none, units in counted])


def _usable(estimates: Sequence[Estimate]) -> Flags:
    """Which estimates have enough samples for a verdict, and an error (k,): values that are all equal have none."""
    return np.array([one.is_exact or (bool(one.stopping_error) and not is_early(one)) for one in estimates])


def _fixed(limit: Limit, estimates: Sequence[Estimate], lumps: _Lumps) -> _Column:
    """All estimates compared with a number."""
    assert isinstance(limit.allowed, float)
    sign = 1.0 if limit.kind == "below" else -1.0
    scale = estimates[0].scale
    fixed = limit.allowed if scale == "linear" else math.log(limit.allowed)
    margins = sign * (np.array([one.value for one in estimates]) - fixed)
    is_usable = _usable(estimates)
    if all(one.strict for one in estimates):
        ends = np.sort(sign * (np.array([(one.lower, one.upper) for one in estimates]) - fixed), axis=1)
        numbers = _sides(margins, 0.0, (ends[:, 1], 0.0), (ends[:, 0], 0.0), np.ones_like(is_usable))
        return _Column(numbers, np.full(len(margins), math.inf), np.zeros(len(margins)))
    skewness = sign * np.array([one.value_skewness or 0.0 for one in estimates])
    factors = widening(np.where(skewness * margins < 0.0, skewness, 0.0), _rows(estimates), OF_MEANS)
    errors = np.sqrt((np.square(_errors(estimates)) + lumps.added) * factors)
    numbers = _sides(margins, 0.0, (margins, errors), (margins, errors), is_usable)
    return _Column(numbers, _rows(estimates), np.zeros(len(margins)))


def _relative(
    limit: Limit, estimates: Sequence[Estimate], known: Sequence[int], rivals: Sequence[int], lumps: _Lumps
) -> Iterator[_Column | None]:
    """All estimates compared with each rival; None where the rival has no estimate."""
    usable, rows = _usable(estimates), _rows(estimates)
    for rival in rivals:
        if rival not in known:
            yield None
            continue
        base = known.index(rival)
        allowed, q = _allowed(limit, estimates[base])
        compared = [*estimates]
        if q != 1.0:
            compared[base] = scaled(estimates[base], q)
        contrasts = contrasts_of(compared)
        differences = np.array(contrasts.against(base, allowed).differences)
        margins = differences - allowed
        shown = allowed + abs(q - 1.0) * abs(estimates[base].value)
        few, is_usable = np.minimum(rows, rows[base]), usable & usable[base]
        if contrasts.are_strict:
            worse, better = map(np.array, contrasts.ends)
            above, below = worse - better[base] - allowed, better - worse[base] - allowed
            numbers = _sides(margins, shown, (above, 0.0), (below, 0.0), np.ones_like(is_usable))
        else:
            met, missed = lumps.sides(contrasts, base, margins, allowed)
            exact = np.array([one.is_exact for one in estimates]) & estimates[base].is_exact
            met, missed = (_exactly(side, exact, contrasts, base) for side in (met, missed))
            numbers = _sides(margins, shown, met, missed, is_usable)
        yield _Column(numbers, few, np.array(contrasts.against(base).rho), q)


def _allowed(limit: Limit, rival: Estimate) -> tuple[float, float]:
    """What a difference from this rival may be, and by what the rival's value is multiplied before."""
    share = limit.share
    if share is None:
        assert isinstance(limit.allowed, float)
        return limit.allowed, 1.0
    if rival.scale == "log":
        return math.log1p(share), 1.0
    return 0.0, 1.0 if rival.value < 0.0 else 1.0 + (share if rival.lower_is_better else -share)


def _errors(estimates: Sequence[Estimate]) -> Array:
    return np.array([math.inf if one.stopping_error is None else one.stopping_error for one in estimates])


def _exactly(side: tuple[Array, Array], exact: Flags, contrasts: Contrasts, base: int) -> tuple[Array, Array]:
    """The margins and errors of one side, without what is rounding where both scores are exact."""
    margins, errors = side
    rounding = np.array(contrasts.stopping_errors) + contrasts.stopping_errors[base]
    at = exact & (np.abs(margins) <= rounding)
    return np.where(at, 0.0, margins), np.where(exact, 0.0, errors)


def _sides(
    margins: Array,
    allowed: float,
    met: tuple[Array, Array | float],
    missed: tuple[Array, Array | float],
    is_usable: Flags,
) -> dict[str, Array]:
    """The numbers of a column. Where an estimate is not usable the errors are unbounded."""
    numbers = {"values": margins + allowed, "allowed": np.full(len(margins), allowed)}
    for sign, (margin, error) in (("+", met), ("-", missed)):
        numbers[f"margin{sign}"] = margin
        numbers[f"error{sign}"] = np.where(is_usable, error, math.inf)
    return numbers


class _Lumps:
    """Means of few different values, among which the ones that decide may not have come.

    Where more than half of the pairs of two generators are equal, two more pairs that speak against a verdict take the
    place of the factor by rare values: pairs as far apart as values can be. Where values are the two ends of a declared
    range, and not compared in pairs, one more of each counts in their variance.
    """

    def __init__(self, estimates: Sequence[Estimate], span: tuple[float, float] | None) -> None:
        self._estimates = estimates
        self._are_means = all(one.value_skewness is not None for one in estimates)
        self._span = span
        self.added = np.array([self._more(one) for one in estimates])
        """What the variance of each mean gains by one more value at either end (k,)."""

    @cached_property
    def _range(self) -> float:
        """How far apart values can be, or were."""
        if self._span is not None:
            return self._span[1] - self._span[0]
        ends = [
            (one.plug_in - one.farthest[0], one.plug_in + one.farthest[1])
            for one in self._estimates
            if one.farthest is not None
        ]
        if not ends:
            ends = [
                (float(np.nanmin(pairing.influence)), float(np.nanmax(pairing.influence)))
                for one in self._estimates
                if (pairing := one.pairing) is not None and np.isfinite(pairing.influence).any()
            ]
        return max((end for _, end in ends), default=0.0) - min((start for start, _ in ends), default=0.0)

    def _more(self, one: Estimate) -> float:
        if self._span is None or not self._are_means or one.stopping_error is None or one.units[1] != "samples":
            return 0.0
        n, (low, high) = one.samples, self._span
        share = min(max((one.plug_in - low) / (high - low), 0.0), 1.0)
        few = (1.0 + FEW / n) / n
        variance, widest = one.stopping_error**2 / few, share * (1.0 - share) * (high - low) ** 2
        if widest > 0.0 and variance < (1.0 - _EQUAL) * widest * n / max(n - 1, 1):
            return 0.0  # some values are between the ends
        more = (n * share + 1.0) / (n + 2.0)
        return max(more * (1.0 - more) * (high - low) ** 2 - variance, 0.0) * few

    def sides(
        self, contrasts: Contrasts, base: int, margins: Array, allowed: float
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The margins against the estimate at `base` with their errors (k,), for "met" and for "not met"."""
        errors = np.array(contrasts.errors(base, "stopping", allowed))
        if not self._are_means:
            return (margins, errors), (margins, errors)
        common = np.array(contrasts.against(base).common)
        errors = np.where(common > 0, errors, np.sqrt(np.square(errors) + self.added + self.added[base]))
        at = [place for place in range(len(margins)) if place != base and common[place] and self._agree(place, base)]
        if not at:
            return (margins, errors), (margins, errors)
        plain = np.minimum(*(np.array(contrasts.errors(base, "stopping", end)) for end in (-math.inf, math.inf)))
        found = margins.copy(), errors.copy(), margins.copy(), errors.copy()
        for place in at:
            for side, (margin, error) in ((1.0, found[:2]), (-1.0, found[2:])):
                n = min(self._estimates[place].samples, self._estimates[base].samples)
                steps = [self._step(self._estimates[each]) for each in (place, base)]
                sampled = max(plain[place] ** 2 - sum(steps), 0.0)
                centre, variance = _with_rows(margins[place] + allowed, sampled, n, side * self._range)
                margin[place], error[place] = centre - allowed, math.sqrt(variance)
        return (found[0], found[1]), (found[2], found[3])

    @staticmethod
    def _step(one: Estimate) -> float:
        """The part of a mean's variance that stands for a pair that could differ, which the added rows are."""
        return 0.0 if one.pairing is None or one.batches is not None else one.pairing.systematic_stopping**2

    def _agree(self, place: int, base: int) -> bool:
        """Whether more than half of the pairs of these two have equal values."""
        one, other = (self._estimates[each] for each in (place, base))
        if one.pairing is None or other.pairing is None:
            return False
        size = min(len(one.pairing.influence), len(other.pairing.influence))
        apart = one.pairing.influence[:size] - other.pairing.influence[:size] + np.float32(one.plug_in - other.plug_in)
        known = ~np.isnan(apart)
        equal = np.abs(apart[known]) <= _EQUAL * self._range
        return bool(known.any()) and float(equal.mean()) > _LUMPED


def _with_rows(mean: float, variance: float, n: int, row: float) -> tuple[float, float]:
    """The mean of n pairs, which has this variance, and its variance, with `_ADDED` more pairs of this difference."""
    squares = variance * (n - 1) / (1.0 + FEW / n) + mean * mean
    total = n + _ADDED
    centre = (n * mean + _ADDED * row) / total
    spread = (n * squares + _ADDED * row * row) / total - centre * centre
    return centre, max(spread, 0.0) / (total - 1) * (1.0 + FEW / n)


_scaled = Cache[tuple[int, float], tuple[Estimate, Estimate]](4096)


def scaled(estimate: Estimate, q: float) -> Estimate:
    """The estimate as if every value had been multiplied by q > 0, made once for the same object."""
    found = _scaled.get((id(estimate), q))
    if found is None:  # the original is held, so that no other object takes its id
        found = _scaled.put((id(estimate), q), (estimate, _times(estimate, q)))
    return found[1]


def _times(one: Estimate, q: float) -> Estimate:
    def by(number: float | None) -> float | None:
        return None if number is None else q * number

    pairing, prompted = one.pairing, one.prompted
    if pairing is not None:
        history = [
            Earlier(
                past.samples,
                q * past.value,
                q * q * past.variance,
                past.first_order,
                tuple(q * each for each in past.jackknife),
                past.influence,
                q * past.systematic,
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
        one,
        value=q * one.value,
        plug_in=q * one.plug_in,
        lower=q * one.lower,
        upper=q * one.upper,
        optimistic=q * one.optimistic,
        standard_error=by(one.standard_error),
        stopping_error=by(one.stopping_error),
        farthest=None if one.farthest is None else (q * one.farthest[0], q * one.farthest[1]),
        bracket=None if one.bracket is None else (q * one.bracket[0], q * one.bracket[1]),
        pairing=pairing,
        prompted=prompted,
    )


def gate(margins: Sequence[Margins], place: int, delta: float, told: int) -> Answer:
    """Whether the generator at `place` meets all these limits, each relative to one other generator or fixed.

    Only one of the two errors is possible at a time, and all limits must be met: "yes" needs no union over them, and
    "no" one over the limits alone.
    """

    def all_by(of: Callable[[Margins], Side], z: float, sign: float) -> list[bool]:
        return [bool(sign * of(one).errors[place, 0] > one.reach(z)[place, 0]) for one in margins]

    if all(all_by(lambda one: one.met, threshold(delta, 1, told), -1.0)):
        return "yes"
    missed = all_by(lambda one: one.missed, threshold(delta, len(margins), told), 1.0)
    return "no" if any(missed) else "open"
