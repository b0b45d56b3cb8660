"""Differences of estimates, with errors that allow for common seeds and prompts (rules/differences.md). No torch.

Where nothing is known of a correlation, differences and errors are as of independent estimates, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from optimist.cache import Cache
from optimist.estimates.estimate import Estimate, finite
from optimist.policies.arms import Arm, known_error, ratio
from optimist.policies.correlation import InfluenceTable
from optimist.policies.paired import UNRELATED, Against, Columns, Errors, compared
from optimist.policies.rare_values import Means, moments_of
from optimist_client.errors import FixError
from optimist_client.models import Contrast

RARE = 3.0
"""Values of a share of this by n are missing among n samples with a chance of 5 % (the rule of three)."""
_KEPT = 16_384
"""Estimates in all sets whose contrasts are kept."""
MANY = 64
"""Estimates from which on it takes longer to compare all than to look for what is known of most."""
Reused = TypeVar("Reused")


class Contrasts:
    """The differences of these estimates, of one metric. What was computed is kept."""

    def __init__(
        self, estimates: Sequence[Estimate], earlier: Contrasts | None = None, changed: Sequence[int] = ()
    ) -> None:
        """earlier: of the same estimates but for the `changed` ones. What it has computed of the others is
        taken from it, which is the same to the last bit."""
        self.estimates = tuple(estimates)
        self._changed = changed
        self._earlier = earlier if earlier is not None and earlier.is_uniform else None
        if earlier is not None:
            earlier._earlier = None  # else none of them would ever be forgotten
        by = 1.0 if not self.estimates or self.estimates[0].lower_is_better else -1.0
        self.losses = [by * estimate.value for estimate in self.estimates]
        """The values with a sign by which smaller is better."""
        self.selection_errors = [known_error(estimate.standard_error) for estimate in self.estimates]
        self.stopping_errors = [known_error(estimate.stopping_error) for estimate in self.estimates]
        self._sign = by
        self._against: dict[tuple[int, float], Against] = {}
        self._errors: dict[tuple[int, Errors, float], list[float]] = {}
        self._separations: dict[tuple[float, Errors], list[float]] = {}

    @cached_property
    def is_uniform(self) -> bool:
        """True if the same is known of all: a comparison of two then depends on nothing else than the two."""
        if self._earlier is not None:
            kinds = {_kind(self.estimates[index]) for index in (*self._changed, *self._unchanged)}
        else:
            kinds = set(map(_kind, self.estimates))
        return len(kinds) <= 1

    @property
    def _unchanged(self) -> list[int]:
        """An index of an estimate that is as it was."""
        return [index for index in range(len(self._changed) + 1) if index not in self._changed][:1]

    @cached_property
    def best(self) -> int:
        """Index of the best estimate: the least value, or one that is better by its contrast, and so on.

        Contrasts of estimates by different samples may go round in a circle, which ends where it closes.
        """
        best, tried = min(range(len(self.losses)), key=self.losses.__getitem__), set[int]()
        while best not in tried:
            tried.add(best)
            differences = self.against(best).differences
            smallest = min(range(len(differences)), key=differences.__getitem__)
            if differences[smallest] < 0.0:
                best = smallest
        return best

    @cached_property
    def are_strict(self) -> bool:
        """True if the intervals hold at all sample sizes and for all generators at once."""
        return all(estimate.strict for estimate in self.estimates)

    @property
    def ends(self) -> tuple[list[float], list[float]]:
        """The worse and the better ends of the intervals, with the sign of `losses`."""
        both = [sorted((self._sign * e.lower, self._sign * e.upper)) for e in self.estimates]
        return [worse for _, worse in both], [better for better, _ in both]

    def against(self, base: int, beyond: float = 0.0) -> Against:
        """All estimates compared with the one at `base`.

        beyond: the difference from which the claimed ones are told apart: rare values widen the errors of differences
        that they would bring to its other side.
        """
        against = self._against.get((base, beyond))
        if against is None:
            against = self._against[base, beyond] = self._compared(base, beyond)
        return against

    def are_equal(self, base: int) -> list[bool]:
        """A mask of the estimates that are as exact as the one at `base`, and no other than it but for rounding."""
        own, is_exact = self.stopping_errors[base], self.estimates[base].is_exact
        both = zip(self.estimates, self.against(base).differences, self.stopping_errors, strict=True)
        return [is_exact and estimate.is_exact and abs(apart) <= own + error for estimate, apart, error in both]

    def errors_of(self, kind: Errors) -> list[float]:
        """The errors of the estimates themselves, ∞ where unknown."""
        return self.selection_errors if kind == "selection" else self.stopping_errors

    def variances(self, index: int, kind: Errors) -> tuple[float, float]:
        """The squared error of an estimate in two parts: from sampling, and the systematic one."""
        total, pairing = self.errors_of(kind)[index] ** 2, self.estimates[index].pairing
        if pairing is None:
            return total, 0.0
        systematic = pairing.systematic_selection if kind == "selection" else pairing.systematic_stopping
        systematic = min(systematic**2, total)
        return total - systematic, systematic

    def errors(self, base: int, kind: Errors, beyond: float = 0.0) -> list[float]:
        """The standard error of each difference from the one at `base`, ∞ if unknown. beyond: as of `against`."""
        standard_errors = self._errors.get((base, kind, beyond))
        if standard_errors is None:
            errors, reductions = self.errors_of(kind), self.against(base, beyond).reductions(kind)

            def error_at(index: int) -> float:
                return math.hypot(errors[base], errors[index]) * math.sqrt(reductions[index])

            before = self._before(base, lambda earlier: earlier._errors.get((base, kind, beyond)))
            standard_errors = self._errors[base, kind, beyond] = self._made(error_at, before)
        return standard_errors

    def _before(self, base: int, computed: Callable[[Contrasts], Reused | None]) -> Reused | None:
        """The result of an earlier set with this base, if that was the same estimate."""
        if self._earlier is None or base in self._changed or not self.is_uniform:
            return None
        return computed(self._earlier)

    def _made(self, number: Callable[[int], float], before: list[float] | None) -> list[float]:
        """A number for each estimate, taken from before where the estimate is as it was."""
        if before is None:
            return list(map(number, range(len(self.estimates))))
        numbers = list(before)
        for index in self._changed:
            numbers[index] = number(index)
        return numbers

    def separations(self, tolerated: float, kind: Errors) -> list[float]:
        """The number of errors that each is behind the best, if that may be worse by `tolerated`; +inf at the best
        itself.
        """
        separations = self._separations.get((tolerated, kind))
        if separations is None:
            best = self.best
            differences, errors = self.against(best).differences, self.errors(best, kind)
            before = self._before(best, lambda earlier: earlier._separations_from(best).get((tolerated, kind)))
            separations = self._made(lambda index: ratio(differences[index] + tolerated, errors[index]), before)
            separations[best] = math.inf
            self._separations[tolerated, kind] = separations
        return separations

    def _separations_from(self, best: int) -> dict[tuple[float, Errors], list[float]]:
        return self._separations if self.best == best else {}

    def unseen(self) -> list[float]:
        """The loss of each difference from the best by values that have not come, if a share of `RARE`/n of its
        samples, or of the best one's, were as far from their mean as the farthest value of any generator; 0 where it is
        known how far values can be.

        Of related generators, what is so far is the difference of two samples of one index.
        """
        best, estimates = self.best, self.estimates
        sides = [each.farthest or (0.0, 0.0) for each in estimates]
        better, worse = map(max, zip(*(side if self._sign > 0.0 else side[::-1] for side in sides), strict=True))
        lost = [max(worse / estimates[best].samples, better / each.samples) for each in estimates]
        if best in self._paired and worse + better:
            below = _influences(self).farthest_below(self._paired[best], self._sign)
            for arm, index in self._paired.items():
                if self.against(best).rho[arm] > UNRELATED:
                    lost[arm] = below[index] / min(estimates[best].samples, estimates[arm].samples)
        return [RARE * each for each in lost]

    def _compared(self, base: int, beyond: float) -> Against:
        before = self._before(base, lambda earlier: earlier._against.get((base, beyond)))
        if before is not None:
            few = Contrasts([self.estimates[index] for index in (base, *self._changed)])
            return before.with_rows(few.against(0, beyond), {index: at for at, index in enumerate(self._changed, 1)})
        plain = Against.independent(
            [loss - self.losses[base] for loss in self.losses], self.stopping_errors, base, self._means, beyond
        )
        if base not in self._paired or len(self._paired) < 2:
            return plain
        index = self._paired[base]
        return plain.where_paired(compared(self._columns, index, _influences(self), beyond), self._paired)

    @cached_property
    def _means(self) -> Means | None:
        return moments_of(self.estimates, self._sign, np.square(np.array(self.stopping_errors)))

    @cached_property
    def _paired(self) -> dict[int, int]:
        """Index among the paired estimates by index among all."""
        return {arm: at for at, arm in enumerate(i for i, e in enumerate(self.estimates) if e.pairing is not None)}

    @cached_property
    def _columns(self) -> Columns:
        arms = [*self._paired]
        errors = ([each[arm] for arm in arms] for each in (self.selection_errors, self.stopping_errors))
        return Columns([self.estimates[arm] for arm in arms], self._sign, *errors)


@lru_cache(maxsize=4)  # a set has few bases, which are needed one after the other; the arrays are large
def _influences(contrasts: Contrasts) -> InfluenceTable:
    paired = [(e, p) for e in contrasts.estimates if (p := e.pairing) is not None]
    table = np.full((len(paired), max(len(p.influence) for _, p in paired)), np.nan)
    for index, (_, pairing) in enumerate(paired):
        table[index, : len(pairing.influence)] = pairing.influence
    effects = np.array([e.shared_effect for e, _ in paired])
    return InfluenceTable(table, effects if (effects != 1.0).any() else None, [p.prompts for _, p in paired])


def _kind(estimate: Estimate) -> tuple[bool, bool, bool, int]:
    pairing = estimate.pairing
    length = -1 if pairing is None else len(pairing.influence)
    return estimate.value_skewness is None, estimate.prompted is None, estimate.lower_is_better, length


_cached = Cache[tuple[int, ...], Contrasts](_KEPT, lambda contrasts: len(contrasts.estimates))
_newest = Cache[tuple[int, int], Contrasts](_KEPT, lambda contrasts: len(contrasts.estimates))
"""The newest contrasts of so many estimates, by the object of the first one, and of the last one."""


def contrasts_of(estimates: Sequence[Estimate]) -> Contrasts:
    """The contrasts of these estimates, computed once for the same objects in the same order.

    Of many estimates, of which few are others than before, only these are compared anew.
    """
    key = tuple(map(id, estimates))  # they are held by their contrasts, so that no other object takes one
    contrasts = _cached.get(key)
    if contrasts is None and len(key) < MANY:
        return _cached.put(key, Contrasts(estimates))
    if contrasts is None:
        ends = [(len(key), key[0]), (len(key), key[-1])]
        earlier = next((newest for end in ends if (newest := _newest.get(end)) is not None), None)
        before = () if earlier is None else earlier.estimates
        changed = [
            index for index, (estimate, same) in enumerate(zip(estimates, before, strict=False)) if estimate is not same
        ]
        # Comparing few with one takes about as long as copying eight times as many others.
        is_alike = earlier is not None and len(changed) * 8 <= len(key)
        contrasts = Contrasts(estimates, earlier, changed) if is_alike else Contrasts(estimates)
        _cached.put(key, contrasts)
        for end in ends:
            _newest.put(end, contrasts)
    return contrasts


def contrasts_among(arms: Sequence[Arm]) -> Contrasts:
    """The contrasts of these arms. Every arm must have an estimate."""
    return contrasts_of([arm.estimate for arm in arms if arm.estimate is not None])


def pointwise(delta: float) -> float:
    """The standard errors on either side of an interval of one difference that covers 1 − `delta` by itself."""
    return -NormalDist().inv_cdf(delta / 2.0)


def described(arms: Sequence[Arm], reach: float, against: str | None = None, *, fewest: int = 0) -> list[Contrast]:
    """Every other arm compared with the one called `against`, or the best one if none is.

    reach: standard errors of an interval on either side of a difference. Where the intervals of all scores hold at once
    (`are_strict`), the interval of a difference follows from theirs instead. fewest: samples below which standard
    errors are not reliable, so that a difference has no interval. Every arm must have an estimate.
    """
    contrasts = contrasts_among(arms)
    base = next((index for index, arm in enumerate(arms) if arm.name == against), None)
    base = contrasts.best if base is None else base
    differences, errors = contrasts.against(base), contrasts.errors(base, "stopping")
    worse, better = contrasts.ends
    made: list[Contrast] = []
    for index, arm in enumerate(arms):
        if index == base:
            continue
        difference, error = differences.differences[index], errors[index]
        samples = min(contrasts.estimates[index].units[0], contrasts.estimates[base].units[0])
        lower, upper = difference - reach * error, difference + reach * error
        if contrasts.are_strict:
            lower, upper = better[index] - worse[base], worse[index] - better[base]
        elif samples < fewest:
            lower, upper = -math.inf, math.inf
        made.append(
            Contrast(
                generator=arm.name,
                against=arms[base].name,
                scale=contrasts.estimates[base].scale,
                difference=difference,
                standard_error=finite(error),
                lower=finite(lower),
                upper=finite(upper),
                correlation=differences.correlations[index],
                common=differences.common[index],
            )
        )
    return made


def contrast(arm: Arm, against: Arm, reach: float, fewest: int = 0) -> Contrast:
    """The contrast of one arm with another; reach, fewest: as of `described`.

    Raises FixError if they are the same, or one has no estimate.
    """
    if arm.name == against.name:
        raise FixError(f"expected two different generators, got {arm.name!r} twice")
    for each in (arm, against):
        if each.estimate is None:
            raise FixError(f"generator {each.name!r} has no estimate yet")
    return described([arm, against], reach, against.name, fewest=fewest)[0]
