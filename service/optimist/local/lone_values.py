"""A value alone below all others, such as −1 of a judge whose answer could not be read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lone_value(values: NDArray[np.floating]) -> str | None:
    """Sentence about the lowest of some values (n,), if it stands alone: it is the only negative one, or it repeats and
    is farther from the next value than the range of the others.
    """
    distinct, counts = np.unique(values, return_counts=True)
    # A third outcome, such as a loss, is more frequent.
    if len(distinct) < 2 or counts[0] > 0.25 * len(values):
        return None
    lowest, low, high = distinct[0], distinct[1], distinct[-1]
    is_negative = lowest < 0.0 <= low
    is_far = counts[0] > 1 and len(distinct) > 2 and low - lowest > high - low
    if not (is_negative or is_far) or (is_negative and counts[0] == 1 and len(distinct) == len(values)):
        return None
    text = f"{lowest:g} in {counts[0]:,} of {len(values):,} rows is alone below all others ({low:g} to {high:g})"
    return f"{text}: if it means that there is no score, leave such rows out (--where FIELD!={lowest:g})"
