"""Agreement of raters on the audits that they share, and raters who answer as if at random. No torch.

The formulas are in rules/audits.md; alpha is Krippendorff's with the interval metric (Computing Krippendorff's
Alpha-Reliability, 2011). With each rater's scores in standard units, the mean product of two raters' scores of one unit
is the correlation between them. Who answers at random correlates with nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.estimates.clusters import FEW
from optimist.policies.audits import audits_as_batches
from optimist.policies.stopping import Stopping
from optimist.records import Rating

FEWEST_SHARED = 20
"""Shared audits from which on agreement is stated, and raters are looked at."""
HONEST = 0.5
"""A rater who looks at the samples correlates with the others at least so much as these do among each other."""
AGREE = 2.0 / 3.0
"""Krippendorff's smallest alpha from which conclusions may be drawn."""

ROUNDING = 1e-12
"""Deviations below so much of the largest score are of scores that are equal."""

Whole = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of raters who share audits."""

    alpha: float | None
    """Krippendorff's alpha; None of fewer than `FEWEST_SHARED` audits, and where all scores are equal."""
    audits: int
    """Number of audits with answers by two raters or more."""
    random: tuple[str, ...]
    """The raters who answer as if at random."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences of the report."""
        said = [f"rater {name} answers as if at random" for name in self.random]
        if self.alpha is not None:
            how = "agree" if self.alpha >= AGREE else "agree only in part" if self.alpha > 0.0 else "do not agree"
            said.insert(0, f"raters {how} (Krippendorff's alpha {self.alpha:.2f} on {self.audits:,} shared audits)")
        return tuple(said)


def agreement_among(ratings: Sequence[Rating], delta: float) -> Agreement:
    """The agreement of raters, by their ratings, one of each rater, audit and generator.

    delta: the chance that any rater is ever said to answer at random, though all correlate as `HONEST` says and are
    looked at after each audit.
    """
    shared, stopping = _Shared.of(ratings), Stopping(delta)
    alpha = shared.alpha if shared.audits >= FEWEST_SHARED else None
    counts = {rater: shared.audits_of(rater) for rater in range(len(shared.names))}
    tried = {rater: count for rater, count in counts.items() if count >= FEWEST_SHARED}
    random: list[str] = []
    for rater, count in tried.items():
        lack, error = shared.lack_of(rater)
        if lack > stopping.threshold(len(tried) + 1, audits_as_batches([count])) * error:
            random.append(shared.names[rater])
    return Agreement(alpha, shared.audits, tuple(random))


@dataclass(frozen=True, slots=True)
class _Shared:
    """The scores (n,) of units that two raters or more have scored, with audit, unit and rater of each by number.

    Audits and units have ascending numbers without gaps.
    """

    names: list[str]
    audit: Whole
    unit: Whole
    rater: Whole
    score: Floats

    @classmethod
    def of(cls, ratings: Sequence[Rating]) -> _Shared:
        counts: dict[tuple[str, int], int] = {}
        for one in ratings:
            counts[one.audit, one.generator] = counts.get((one.audit, one.generator), 0) + 1
        kept = [one for one in ratings if counts[one.audit, one.generator] > 1]
        names = sorted({one.rater for one in kept})
        return cls(
            names,
            _numbered([one.audit for one in kept]),
            _numbered([(one.audit, one.generator) for one in kept]),
            np.array([names.index(one.rater) for one in kept], np.intp),
            np.array([one.score for one in kept], np.float64),
        )

    @property
    def audits(self) -> int:
        """Number of audits."""
        return int(self.audit.max(initial=-1)) + 1

    def audits_of(self, rater: int) -> int:
        """Number of audits that a rater shares with others."""
        return len(np.unique(self.audit[self.rater == rater]))

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha; None where all scores are equal."""
        n, sizes = len(self.score), np.bincount(self.unit)
        apart = self.score - (np.bincount(self.unit, self.score) / sizes)[self.unit]
        within = float((sizes / (sizes - 1.0)) @ np.bincount(self.unit, np.square(apart)))
        if not np.ptp(self.score) > 0.0:
            return None
        total = float(np.square(self.score - self.score.mean()).sum())
        return 1.0 - within * (n - 1) / (n * total)

    def lack_of(self, rater: int) -> tuple[float, float]:
        """By how much a rater's correlation with others is below `HONEST` times those among the others, and its
        standard error; (0, 0) where no others share audits."""
        scores, sizes = self._in_standard_units(), np.bincount(self.unit)
        sums, squares = np.bincount(self.unit, scores), np.bincount(self.unit, np.square(scores))
        of_unit = np.zeros(len(sizes), np.intp)
        of_unit[self.unit] = self.audit
        is_own = self.rater == rater
        own, units = scores[is_own], self.unit[is_own]
        by_rater = self._by_audit(self.audit[is_own], own * (sums[units] - own))
        pairs_by_rater = self._by_audit(self.audit[is_own], sizes[units] - 1.0)
        by_others = self._by_audit(of_unit, (np.square(sums) - squares) / 2.0) - by_rater
        pairs_by_others = self._by_audit(of_unit, sizes * (sizes - 1) / 2.0) - pairs_by_rater
        if not pairs_by_others.any():
            return 0.0, 0.0
        correlation, terms = _ratio(by_rater, pairs_by_rater)
        usual, others = _ratio(by_others, pairs_by_others)
        error = float(np.square(HONEST * others - terms).sum()) * (1.0 + FEW / np.count_nonzero(pairs_by_rater))
        return HONEST * usual - correlation, math.sqrt(error)

    def _by_audit(self, audits: Whole, values: NDArray[np.floating]) -> Floats:
        """The sum of these values of each audit."""
        return np.bincount(audits, values, self.audits).astype(np.float64)

    def _in_standard_units(self) -> Floats:
        """The scores about each rater's mean, by the rater's standard deviation; 0 of one who always says the same."""
        sizes = np.maximum(np.bincount(self.rater, minlength=len(self.names)), 1)
        apart = self.score - (np.bincount(self.rater, self.score, len(self.names)) / sizes)[self.rater]
        deviations = np.sqrt(np.bincount(self.rater, np.square(apart), len(self.names)) / sizes)[self.rater]
        return np.divide(
            apart, deviations, out=np.zeros_like(apart), where=deviations > ROUNDING * np.abs(self.score).max()
        )


def _ratio(sums: Floats, counts: Floats) -> tuple[float, Floats]:
    """The ratio of two totals over audits, and what each audit adds to its error."""
    total = float(counts.sum())
    ratio = float(sums.sum()) / total
    return ratio, (sums - ratio * counts) / total


def _numbered(keys: Sequence[object]) -> Whole:
    """The number of each key, by first appearance."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.intp)
