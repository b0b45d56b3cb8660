"""The indices of a generator's sequence that were not told, though later ones were."""

from __future__ import annotations

IndexRun = tuple[int, int]
"""The first index and the length."""


def gaps_after(gaps: list[IndexRun], end: int, told: tuple[int, ...]) -> list[IndexRun]:
    """The gaps after the indices `told` were told, ascending.

    gaps: those before; end: the index after the largest told before. told: the first index and the number.
    """
    start, stop = told[0], sum(told)
    left: list[IndexRun] = []
    for first, size in [*gaps, (end, max(start - end, 0))]:
        before, after = (first, min(first + size, start)), (max(first, stop), first + size)
        left += [(begin, until - begin) for begin, until in (before, after) if begin < until]
    return left
