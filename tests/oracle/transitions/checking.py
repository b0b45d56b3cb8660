"""Checks of batches for values of absurd size and for copies of earlier batches."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from optimist.records import NAMED_COPIES, Copy, Measures, Origin, Refused, Size
from tests.oracle.oracle import Oracle
from tests.oracle.rows import (
    CONTENTS,
    COPIES,
    GENERATORS,
    RETRACTIONS,
    SAME,
    SCALES,
    USUAL,
    CopyRow,
    PickRow,
    ScaleRow,
    ToldRow,
)
from tests.oracle.tables import Tables
from tests.oracle.transitions.levels import keep_level

USUAL_ROWS = 20
"""Rows that a generator must have for its size to be known, as in plausibility.py."""
REMEMBERED = 65_536
"""Batches of a generator of which copies are recognised, as in checking.lua."""
LARGE = 1000.0
"""Times the usual size from which a batch does not change it, as in plausibility.py."""


class Checked(NamedTuple):
    """What was learnt of a batch that passed the checks, and is noted when it is accepted."""

    sizes: Sequence[Size] = ()
    own: ScaleRow | None = None
    """The new scale of its generator; None where it stays."""
    usual: ScaleRow | None = None
    content: str = ""
    """The key of its samples; "" where they are not compared, or were told by its generator before."""
    told: ToldRow = ToldRow(())
    """Where these samples were told before, if that is noted anew."""
    made: str = ""
    """By which prompts are compared: digests of the pick's, and of their embeddings, with a comma between."""
    copy_of: int = 0
    """The position of its generator that it repeats; 0 for none."""
    duplicate: int | None = None
    """Another generator whose batch it agrees with."""


class Noted(NamedTuple):
    """What is anomalous about an accepted batch."""

    copy: Copy | None = None
    doubtful: bool = False
    """Whether its scale might be."""


def is_retracted(tables: Tables, g: int, position: int) -> bool:
    """Whether a batch counts no longer."""
    return position <= tables.generators[g].restart or (g, position) in tables[RETRACTIONS]


def check(oracle: Oracle, g: int, rows: int, measures: Measures | None, pick: PickRow | None) -> Checked:
    """What is learnt of a batch of which so many rows count. Raises Refused."""
    if measures is None:
        return Checked()
    scales = oracle.tables[SCALES]
    usual = scales.get(USUAL, ScaleRow(0))
    is_large = False
    for place, size in enumerate(measures.sizes):
        scale = _at(usual.sizes, place) or _reference(size)
        if scale and size.largest / scale > measures.limit:
            raise Refused(_too_large(size, scale, usual.rows, measures.limit))
        is_large = is_large or bool(scale and size.largest / scale > LARGE)
    checked = _compared(oracle, g, measures, pick)
    if checked.copy_of and measures.refuse_copies:
        raise Refused(
            f"the batch repeats the one at position {checked.copy_of} of its generator, and the experiment refuses "
            "copies: make new samples, with the seed of the pick"
        )
    if measures.sizes and not is_large:
        own, usual = _scaled(oracle.tables, g, rows, measures.sizes)
        checked = checked._replace(own=own, usual=usual)
    return checked._replace(sizes=measures.sizes)


def note(oracle: Oracle, g: int, checked: Checked, number: int, rows: int, seq: int, worker: str) -> Noted:
    """Note what was learnt of the batch at position `seq`; its number is 0 without a pick."""
    if checked.own is not None:
        oracle.put(SCALES, g, checked.own)
    if checked.usual is not None:
        oracle.put(SCALES, USUAL, checked.usual)
    if checked.content:
        oracle.put(CONTENTS, checked.content, ToldRow((*checked.told.places, g, seq, checked.made)))
    if checked.duplicate is not None and not checked.copy_of:
        pair = min(g, checked.duplicate), max(g, checked.duplicate)
        oracle.put(SAME, pair, oracle.tables[SAME].get(pair, 0) + 1)
    origin = Origin(number, rows, round(oracle.now, 3), worker)
    # Every level is kept, whether or not one before it was notable.
    doubts = [
        keep_level(oracle, g, seq, place, size.level, origin)
        for place, size in enumerate(checked.sizes)
        if size.level is not None
    ]
    if not checked.copy_of:
        return Noted(None, any(doubts))
    if len(oracle.tables[COPIES]) < NAMED_COPIES:
        oracle.put(COPIES, (g, seq), CopyRow(checked.copy_of, *origin))
    generator = oracle.tables.generators[g]
    oracle.put(GENERATORS, g, generator._replace(copies=generator.copies + 1))
    return Noted(Copy(seq, origin, checked.copy_of), any(doubts))


def measure_anew(oracle: Oracle, g: int) -> None:
    """Measure the sizes of a generator anew, as the mean of what remains cannot be computed back from an absurd batch.

    The usual size is computed anew at the next batch of any generator that has enough rows.
    """
    for key, row in list(oracle.tables[SCALES].items()):
        oracle.put(SCALES, key, None if key in (g, USUAL) else row._replace(measured_at=0))


def _at(sizes: Sequence[float | None], place: int) -> float | None:
    return sizes[place] if place < len(sizes) else None


def _reference(size: Size) -> float | None:
    return size.reference or None


def _too_large(size: Size, scale: float, known: int, limit: float) -> str:
    whose = "1 generator" if known == 1 else f"{known} generators"
    if _reference(size):
        whose = f"the reference and {whose}" if known else "the reference"
    return (
        f"{size.name}: row {size.row} holds a value of size {size.largest:.3g}, {size.largest / scale:.3g} times the "
        f"usual size {scale:.3g} (lower median of {whose}); expected at most {limit:g} times. Where such values "
        "are right, create the experiment with a higher max_magnitude"
    )


def _scaled(tables: Tables, g: int, rows: int, sizes: Sequence[Size]) -> tuple[ScaleRow, ScaleRow | None]:
    """The new scale of a generator, and the usual size where it is computed anew: not at every batch."""
    before = tables[SCALES].get(g, ScaleRow(0))
    total = before.rows + rows
    squares = [_at(before.sizes, place) or 0.0 for place in range(len(sizes))]
    means = [mean + (size.mean_square - mean) * rows / total for mean, size in zip(squares, sizes, strict=True)]
    if total < USUAL_ROWS or total < 1.25 * before.measured_at:
        return before._replace(rows=total, sizes=tuple(means)), None
    own, is_known = ScaleRow(total, total, tuple(means)), before.rows >= USUAL_ROWS
    usual = (
        _median(tables.sizes[place], size, mean, _at(before.sizes, place) if is_known else None)
        for place, (size, mean) in enumerate(zip(sizes, means, strict=True))
    )
    return own, ScaleRow(tables.scales + (not is_known), 0, tuple(usual))


def _median(known: Sequence[float], size: Size, square: float, before: float | None) -> float | None:
    """The lower median of the known sizes above 0, the reference's among them.

    square, before: the mean square of the generator of the batch, now and as it is part of the known sizes.
    """
    sizes = list(known)
    if before:
        del sizes[bisect_left(sizes, math.sqrt(before))]
    for one in (math.sqrt(square), _reference(size)):
        if one:
            insort(sizes, one)
    return sizes[(len(sizes) - 1) // 2] if sizes else None


def _compared(oracle: Oracle, g: int, measures: Measures, pick: PickRow | None) -> Checked:
    """Whether these samples were told before, by the same generator or by another one."""
    if not measures.content:
        return Checked()
    made = f"{pick.asked if pick and measures.prompts else ''},{measures.prompts[:8]}"
    key = measures.content[:16]
    row = oracle.read(CONTENTS, key)
    places = () if row is None else row.places
    oldest = oracle.tables.generators[g].seq + 1 - REMEMBERED
    kept: list[int | str] = []
    known, copy_of, duplicate = False, 0, None
    for place in range(0, len(places), 3):
        at, position, before = int(places[place]), int(places[place + 1]), str(places[place + 2])
        is_void, is_lawful = is_retracted(oracle.tables, at, position), _is_lawful(made, before)
        if at == g and (is_void or position <= oldest):
            continue
        if at == g:
            known, copy_of = True, 0 if is_lawful else position
        elif duplicate is None and not is_lawful and not is_void:
            duplicate = at
        kept += at, position, before
    told = Checked(made=made, copy_of=copy_of, duplicate=duplicate)
    return told if known else told._replace(content=key, told=ToldRow(tuple(kept)))


def _is_lawful(made: str, before: str) -> bool:
    """Whether equal samples are expected, as their prompts are equal: by the picks' texts, or else by embeddings."""
    (picked, embedded), (picked_before, embedded_before) = made.split(","), before.split(",")
    if picked and picked_before:
        return picked == picked_before
    return bool(embedded) and embedded == embedded_before
