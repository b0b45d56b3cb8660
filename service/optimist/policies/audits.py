"""What is said of a judge whom people audit: what it is worth, and whom it favours (rules/audits.md). No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.audited import CERTAIN, Audited, differing
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
    """That of one index."""
    return float(np.random.Generator(np.random.PCG64(seed).advance(index)).random())


def next_audits(seed: int, is_open: NDArray[np.bool_], count: int) -> list[int]:
    """Up to `count` of the open indices, in the order in which they are to be audited."""
    places: NDArray[Any] = np.flatnonzero(is_open)
    keys = audit_keys(seed, len(is_open))[places]
    if count < len(places):
        first = np.argpartition(keys, count)[:count]
        places, keys = places[first], keys[first]
    return places[keys.argsort()].tolist()


def audits_as_batches(audits: Sequence[int]) -> int:
    """The t of rules/stopping.md where people decide, from the audits of each generator."""
    return max(sum(audits) // A_BATCH, 1)


def said_of_judge(arms: Sequence[Arm]) -> tuple[str, ...]:
    """What the judge is worth for the closest comparison, and a warning for each generator that it favours.

    Nothing where nobody audits a judge, or an arm has no estimate.
    """
    means = [arm.estimate.audited for arm in arms if arm.estimate is not None and arm.estimate.audited is not None]
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
    return worth(closest), *warnings


def title_by_people(metric: Metric, arms: Sequence[Arm]) -> str:
    """The metric's name for display, which says where scores are the judge's means, not people's."""
    means = [arm.estimate.audited for arm in arms if arm.estimate is not None and arm.estimate.audited is not None]
    if all(mean.by_people is not None for mean in means):
        return metric.shown_title
    if any(mean.by_people is not None for mean in means):
        return f"{metric.shown_title}, or the judge's where people's answers are missing"
    return f"{metric.title} (judge; people's answers are missing)"


def unanswered_text(count: int) -> tuple[str, ...]:
    """A warning about audits that somebody had and nobody answered, if there are any."""
    if not count:
        return ()
    are = "audit has" if count == 1 else "audits have"
    if_ = "if it differs" if count == 1 else "if these differ"
    return (f"{count:,} {are} no answer; {if_} from the others, so does the truth",)


def worth(found: Audited) -> str:
    """What the judge saves."""
    of = f"(correlation {found.correlation:.2f} on {found.audits:,} audits)"
    if found.saved < 0.005:
        return f"the judge saves no labels {of}"
    return f"the judge saves {100 * found.saved:.0f}% of the labels {of}"
