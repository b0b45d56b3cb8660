"""The indices of a generator's sequence: which were told, and which are handed out again.

No index counts twice. A generator that ignores seeds has no indices. Runs are the first and the length of each of
several ranges, one after the other, ascending.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from optimist.records import returned_limit
from tests.oracle.oracle import Oracle
from tests.oracle.rows import RETURNED, TOLD, PickRow, RunsRow
from tests.oracle.tables import Tables


def add_run(runs: list[int], start: int, size: int) -> None:
    """Add a run behind those of a list, as a part of the last one where they touch."""
    if runs and runs[-2] + runs[-1] == start:
        runs[-1] += size
    elif size > 0:
        runs += start, size


def pairs(runs: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the length of each run."""
    return list(zip(runs[::2], runs[1::2], strict=True))


def joined(*lists: Sequence[int]) -> list[int]:
    """The indices of all these runs, as runs that do not touch."""
    runs: list[int] = []
    for start, size in sorted(run for one in lists for run in pairs(one)):
        if runs and runs[-2] + runs[-1] >= start:
            runs[-1] = max(runs[-1], start + size - runs[-2])
        else:
            runs += start, size
    return runs


def without(runs: Sequence[int], others: Sequence[int]) -> list[int]:
    """The indices of the first runs that are in none of the others."""
    left: list[int] = []
    for start, size in pairs(runs):
        at, stop = start, start + size
        for first, length in pairs(others):
            if at < first + length and first < stop:
                add_run(left, at, max(0, first - at))
                at = first + length
        add_run(left, at, max(0, stop - at))
    return left


def told_among(tables: Tables, g: int, start: int, size: int) -> list[int]:
    """The runs of told intervals that lie in, or reach into, these indices."""
    starts, stop = tables.starts[g], start + size
    first = max(0, bisect_right(starts, start) - 1)
    return [
        number
        for begin in starts[first : bisect_left(starts, stop)]
        for number in (begin, tables[TOLD][g, begin] - begin)
    ]


def untold(tables: Tables, g: int, start: int, size: int) -> list[int]:
    """The runs of `size` indices from `start` on that were not told."""
    return without((start, size), told_among(tables, g, start, size))


def mark_told(oracle: Oracle, g: int, start: int, size: int) -> None:
    """Note indices as told, none of which was."""
    starts, told, stop = oracle.tables.starts[g], oracle.tables[TOLD], start + size
    place = bisect_left(starts, start)
    if place < len(starts) and starts[place] == stop:
        stop, after = told[g, stop], stop
        oracle.put(TOLD, (g, after), None)
    if place and told[g, starts[place - 1]] == start:
        start = starts[place - 1]
    oracle.put(TOLD, (g, start), stop)


def unmark_told(oracle: Oracle, g: int, start: int, size: int) -> None:
    """Take indices back, all of which were told in one batch."""
    starts, stop = oracle.tables.starts[g], start + size
    first = starts[bisect_right(starts, start) - 1]
    last = oracle.tables[TOLD][g, first]
    oracle.put(TOLD, (g, first), start if first < start else None)
    if stop < last:
        oracle.put(TOLD, (g, stop), last)


def forget_told(oracle: Oracle, g: int) -> None:
    """Take all indices of a generator back."""
    for start in list(oracle.tables.starts[g]):
        oracle.put(TOLD, (g, start), None)


def returned_by(tables: Tables, g: int) -> tuple[int, ...]:
    """The runs of a generator that are handed out again."""
    row = tables[RETURNED].get(g)
    return () if row is None else row.runs


def put_returned(oracle: Oracle, g: int, runs: Sequence[int]) -> None:
    """Have these runs handed out again instead of those before; those beyond the generator's share never are."""
    kept = tuple(runs[: 2 * returned_limit(len(oracle.tables.generators))])
    oracle.put(RETURNED, g, RunsRow(kept) if kept else None)


def keep_returned(oracle: Oracle, g: int, runs: Sequence[int]) -> None:
    """Have these indices handed out again, too."""
    if runs:
        put_returned(oracle, g, joined(returned_by(oracle.tables, g), runs))


def forget_returned(oracle: Oracle, g: int, runs: Sequence[int]) -> None:
    """Have none of these indices handed out again, which were told just now."""
    before = returned_by(oracle.tables, g)
    if before and (left := without(before, runs)) != list(before):
        put_returned(oracle, g, left)


def hand_back(oracle: Oracle, pick: PickRow, rows: int = 0) -> None:
    """Have the indices of a pick handed out again, less its first `rows` and what was told meanwhile."""
    is_retired = oracle.tables.generators[pick.generator].state == "retired"
    if pick.start is not None and rows < pick.size and not is_retired:
        runs = untold(oracle.tables, pick.generator, pick.start + rows, pick.size - rows)
        keep_returned(oracle, pick.generator, runs)
