"""Previews of samples of picks that were told: which are kept."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from optimist.records import Conflict, Gone, PreparedPreview, Refused
from tests.oracle.oracle import Oracle
from tests.oracle.rows import PREVIEWS, SETTLED, PreviewRow
from tests.oracle.transitions.controls import root_of
from tests.oracle.transitions.indices import pairs
from tests.oracle.transitions.picks import find_pick, lost, repeated


def put_previews(
    oracle: Oracle, number: int, previews: Sequence[PreparedPreview], most: int, nonce: str = ""
) -> tuple[int, int]:
    """The generator of a pick, and how many of these previews are kept; those that are kept already change nothing.

    most: how many are kept of a generator: the newest, and half of them a sample of all, by indices that are the same
    for every generator. Raises Conflict for a pick without a batch that counts, Retracted for one whose batch counts no
    longer, Gone for one that is not known, Refused for a place beyond the batch.
    """
    root_of(oracle)
    pick = find_pick(oracle, number)
    end = oracle.read(SETTLED, number) if pick is None else None
    if pick is None and end is None:
        raise Gone(f"pick {number} is not known, or no longer")
    if nonce not in ("", pick.nonce if end is None and pick is not None else end.nonce if end is not None else ""):
        raise lost(number)
    if end is None:
        raise Conflict(f"pick {number} has no batch yet: previews are sent after it")
    if not end.digest:
        raise Conflict(f"pick {number} was given up: it has no samples")
    settled = repeated(oracle, end, end.digest, "")
    if not settled.seq:
        raise Conflict(f"nothing of the batch of pick {number} counts: its samples were told before")
    rows, g = settled.rows + settled.uncounted, settled.generator
    counted = pairs(end.answer[8:]) or [(0, rows)]
    known = {(key[1], key[2]): row for key, row in oracle.tables[PREVIEWS].items() if key[0] == g}
    new: dict[tuple[int, int], PreviewRow] = {}
    for one in previews:
        if one.place >= rows:
            raise Refused(f"place: pick {number} was told {rows} samples, counted from 0; got {one.place}")
        name = number, one.place
        if name not in known and any(first <= one.place < first + length for first, length in counted):
            seed = f"{number}-{one.place}" if one.index is None else str(one.index)
            at = settled.samples - rows + one.place if one.index is None else one.index
            new[name] = PreviewRow(settled.seq, _rank(seed, at), one.index, one.about)
    kept = _kept(known | new, most)
    for name, row in new.items():
        if name in kept:
            oracle.put(PREVIEWS, (g, *name), row)
    for name in known.keys() - kept:
        oracle.put(PREVIEWS, (g, *name), None)
    return g, sum((number, one.place) in kept for one in previews)


def forget_previews(oracle: Oracle, g: int, first: int, last: int) -> None:
    """Forget the previews of a generator's batches at these positions."""
    for key, row in list(oracle.tables[PREVIEWS].items()):
        if key[0] == g and first <= row.position <= last:
            oracle.put(PREVIEWS, key, None)


def _kept(all_: dict[tuple[int, int], PreviewRow], most: int) -> set[tuple[int, int]]:
    """The names of the previews that are kept: those of least rank, then the newest."""
    ranked = sorted(all_, key=lambda name: (all_[name].rank, name))
    half = most // 2
    newest = sorted(ranked[half:], key=lambda name: (-all_[name].position, all_[name].rank, name))
    return {*ranked[:half], *newest[: most - half]}


def _rank(seed: str, at: int) -> float:
    """Exponential with a rate of 1 / (at + 1). It depends on the index alone, so that generators keep the same indices,
    and early ones are favoured, which slow generators have, too. 48 bits of a digest are a number between 0 and 1."""
    uniform = (int(hashlib.sha1(seed.encode()).hexdigest()[:12], 16) + 1) / 2**48
    return -math.log(uniform) * (at + 1)
