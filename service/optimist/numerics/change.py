"""A change of a generator's answers. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """What a test has found of answers that are no longer as they were."""

    position: int
    """Of the last batch in the generator's log before the change, about: later ones are of the changed generator."""
    pick: int
    """The pick of the first batch after it; 0 where it was told without one."""
    samples: int
    """Samples since."""
    shift: float
    """By how much they score more, on average, than was expected of the generator as it was before."""
    error: float
    """Standard error of the shift."""
