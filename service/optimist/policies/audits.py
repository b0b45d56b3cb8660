"""Worth of a judge whom people audit, and the generators that it favours (rules/audits.md). No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.estimates.audited import (
    AIMED_FROM,
    CERTAIN,
    MIN_SHARE,
    Audited,
    AuditedMean,
    chances,
    differing,
    drawn,
    strata,
    unforetold,
)
from optimist.policies.arms import Arm
from optimist.policies.contrasts import contrasts_among

if TYPE_CHECKING:
    from optimist_client.metrics import Metric

A_BATCH = 5
"""Audits that count as a batch in the looks over time of the stopping rule."""


def audit_keys(seed: int, rows: int) -> NDArray[np.float64]:
    """The place (rows,) of each index in the order of audits, from 0 to 1; the same where there are more rows."""
    return np.random.default_rng(seed).random(rows)


def audit_key(seed: int, index: int) -> float:
    """The place of one index in the order of audits, as `audit_keys` has it."""
    return float(np.random.Generator(np.random.PCG64(seed).advance(index)).random())


def next_audits(seed: int, is_open: NDArray[np.bool_], count: int) -> list[int]:
    """Up to `count` of the open indices, in the order in which they are to be audited."""
    places: NDArray[Any] = np.flatnonzero(is_open)
    keys = audit_keys(seed, len(is_open))[places]
    if count < len(places):
        first = np.argpartition(keys, count)[:count]
        places, keys = places[first], keys[first]
    return places[keys.argsort()].tolist()


def new_audits(
    seed: int,
    is_there: NDArray[np.bool_],
    is_free: NDArray[np.bool_],
    means: Sequence[AuditedMean],
    before: int,
    count: int,
) -> list[tuple[int, float]]:
    """Up to `count` indices to audit next, in their order, with their weights.

    At random among those that are free; from the 40th audit on by the judge's doubt (rules/audits.md), where it states
    that. Where a bin of doubt is used up, at random among samples whose doubt is not known.
    is_there: whether each index (rows,) has a sample of all generators that can be audited. is_free: of these, whether
    nobody was asked about it. means: of these generators. before: number of the audits that somebody was asked for.
    """
    of_doubt = _by_doubt(is_there, means)
    if of_doubt is None:
        return [(index, 1.0) for index in next_audits(seed, is_free, count)]
    places, bins, by_bin = of_doubt
    free = is_free[places]
    left = np.bincount(bins[free], minlength=len(by_bin)) / np.bincount(bins)
    if left.min() < 0.5:
        # At random among those that are left, so that bins last equally long; with no weight far above others.
        by_bin = np.maximum(left, MIN_SHARE * float(left.mean()))
    found, weights = drawn(count, free, np.random.default_rng((seed, before)), bins, by_bin)
    is_outside = is_free.copy()
    is_outside[places] = False
    rest = next_audits(seed, is_outside, count - len(found)) if len(found) < count else []
    return [*zip(places[found].tolist(), weights.tolist(), strict=True), *((index, 1.0) for index in rest)]


def _by_doubt(
    is_there: NDArray[np.bool_], means: Sequence[AuditedMean]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats] | None:
    """The indices whose doubt is known (N,), their bins (N,), and how often each bin is to be drawn relative to drawing
    at random (B,). None while audits are at random."""
    common = reduce(np.intersect1d, [mean.audits for mean in means]) if means else np.zeros(0, np.int32)
    rows = min([len(is_there), *(len(mean.doubts) for mean in means)])
    if len(common) < AIMED_FROM or not rows:
        return None
    doubts = np.mean([mean.doubts[:rows] for mean in means], axis=0)
    places = np.flatnonzero(is_there[:rows] & ~np.isnan(doubts))
    if not len(places):
        return None
    bins = strata(doubts[places])
    shared = [mean.at(np.searchsorted(mean.audits, common)) for mean in means]
    residuals = unforetold(np.array([one.people for one in shared]), np.array([one.scores for one in shared]))
    is_known = np.isin(common, places)
    return places, bins, chances(bins, bins[np.searchsorted(places, common[is_known])], residuals[is_known])


def audits_as_batches(audits: Sequence[int]) -> int:
    """The t of rules/stopping.md where people decide, from the audits of each generator."""
    return max(sum(audits) // A_BATCH, 1)


def _means_of(arms: Sequence[Arm]) -> list[AuditedMean]:
    """The means by people of the arms that have an estimate with audits."""
    return [arm.estimate.audited for arm in arms if arm.estimate is not None and arm.estimate.audited is not None]


class Spent(NamedTuple):
    """Costs of people and samples, all in one unit."""

    scores: int
    """Scores that people gave to samples."""
    each: float
    """Cost of one of them."""
    samples: float | None = None
    """Cost of all samples, which the judge scored; None if it is not known."""
    per_sample: float | None = None
    """Cost of one sample, on average; None if a generator's is not known."""


def said_of_judge(arms: Sequence[Arm], spent: Spent | None = None) -> tuple[str, ...]:
    """Worth of the judge for the closest comparison, also in money if what was `spent` is known, and a warning for
    each generator that it favours.

    Nothing where nobody audits a judge, or an arm has no estimate.
    """
    means = _means_of(arms)
    if not means or len(means) < len(arms):
        return ()
    contrasts = contrasts_among(arms)
    best, differences = contrasts.best, contrasts.against(contrasts.best).differences
    of_pairs = {place: differing(means[best], mean) for place, mean in enumerate(means) if place != best}
    pairs = {place: found for place, found in of_pairs.items() if found is not None}
    closest = pairs[min(pairs, key=differences.__getitem__)] if pairs else means[best].by_people
    if closest is None:
        return ()
    sign = -1.0 if contrasts.estimates[best].lower_is_better else 1.0
    warnings: list[str] = []
    for place, found in pairs.items():
        if abs(found.favour) > CERTAIN:
            liked, other = (best, place) if sign * found.favour > 0.0 else (place, best)
            warnings.append(f"the judge favours {arms[liked].name} over {arms[other].name}, by more than people do")
    money = () if spent is None else costs_of_people(closest, spent, min(mean.samples for mean in means))
    return worth(closest), *money, *warnings


def title_by_people(metric: Metric, arms: Sequence[Arm]) -> str:
    """The metric's name for display, which says where scores are the judge's means, not people's."""
    means = _means_of(arms)
    if all(mean.by_people is not None for mean in means):
        return metric.shown_title
    if any(mean.by_people is not None for mean in means):
        return f"{metric.shown_title}, else the judge's"
    return f"{metric.title} (judge; no answers yet)"


def unanswered_text(count: int) -> tuple[str, ...]:
    """A warning about audits that somebody had and nobody answered, if there are any."""
    if not count:
        return ()
    are = "audit has" if count == 1 else "audits have"
    if_ = "if it differs" if count == 1 else "if these differ"
    return (f"{count:,} {are} no answer; {if_} from the others, so does the truth",)


def worth(found: Audited) -> str:
    """Savings by the judge."""
    of = f"(correlation {found.correlation:.2f} on {found.audits:,} audits)"
    if found.saved < 0.005:
        return f"the judge saves no labels {of}"
    return f"the judge saves {100 * found.saved:.0f}% of the labels {of}"


def costs_of_people(found: Audited, spent: Spent, samples: int) -> tuple[str, ...]:
    """Costs of people and the judge, and of people alone, and the number of samples to judge for each that
    people score, if N/n = √(ρ² c_h/((1 − ρ²) c_f)) is known.

    samples: N, of the generator with the fewest.
    """
    alone = spent.scores / max(1.0 - found.saved, 1e-9)
    judged = "" if spent.samples is None else f", the judged samples {_amount(spent.samples)}"
    said = f"people gave {spent.scores:,} scores for {_amount(spent.scores * spent.each)}{judged}"
    said += f"; without the judge it would take about {_amount(round(alone))} scores, for {_amount(alone * spent.each)}"
    explained = found.correlation**2
    if not spent.per_sample or not spent.each or not 0.0 < explained < 1.0:
        return (said,)
    cheapest = math.sqrt(explained * spent.each / ((1.0 - explained) * spent.per_sample))
    wanted, there = (_amount(number, 2) for number in (max(cheapest, 1.0), samples / found.audits))
    noun, verb = ("sample", "is") if wanted == "1" else ("samples", "are")
    best = f"at these costs about {wanted} judged {noun} for each that people score {verb} cheapest"
    return said, f"{best}; there {'is' if there == '1' else 'are'} {there}"


def _amount(number: float, digits: int = 3) -> str:
    return f"{float(f'{number:.{digits}g}'):,g}"
