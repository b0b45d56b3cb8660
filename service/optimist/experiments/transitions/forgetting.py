"""What scorers made of batches that count no longer, or with kernels that are fixed anew: it is removed by its names.

Scorers write beside the tables, by scripts of their own, and at any time. What is decided by what they wrote is held
until the step is committed. What they publish later is refused, as their claims end, and as it is older than `voids`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimist.experiments.drafts import Address, Draft
from optimist.experiments.transitions.controls import root_of
from optimist.records.tables import ARTEFACTS, CLAIMS, COUNTS, CURVES, ESTIMATES, LOG, QUARANTINED, UNITS, WHOLE, Table

MADE_OF_ALL = ("mixture", "mixture"), ("model", "routes"), ("routes", "routes")
"""What is made of several logs by each metric, and the unit under whose claim it is made."""


FACTS = "made", "parts", "payload"
"""Of an artefact."""


def forget_made(draft: Draft, g: int, at: int, first: int, last: int, refits: Sequence[str]) -> None:
    """Remove what was made of a generator's batches from `first` to `last` on; at: the one batch, 0 where all of these
    were retracted. refits: the metrics whose kernels are fixed anew; what they made goes, of every generator."""
    labels, every = root_of(draft).labels, list(draft.tables.generators)
    held = {label: [f"{h}:{label}" for h in (every if label in refits else [g])] for label in labels}
    draft.need(*_reads(draft, held, g, at))
    for label, units in held.items():
        start = 1 if label in refits else first
        for unit in units:
            _forget_unit(draft, unit, start)
            snapshot = int(draft.read(UNITS, f"{unit}:snapshot_seq") or 0)
            if not at or label in refits or at <= snapshot:
                _drop_snapshot(draft, unit)
        for made, claimed in MADE_OF_ALL:
            _forget_artefact(draft, f"{made}:{label}", f"{claimed}:{label}", g, 0 if label in refits else first)
        if label in refits:
            draft.write("UNLINK", f"fitted:{label}")
            _remove(draft, UNITS, label, "fitted", "fitted_from")
    _forget_quarantined(draft, g, at, last)


def _reads(draft: Draft, held: dict[str, list[str]], g: int, at: int) -> Iterable[Address]:
    for label, units in held.items():
        for unit in units:
            yield from ((UNITS, f"{unit}:{fact}") for fact in ("snapshot", "snapshot_chunks", "snapshot_seq"))
            h = int(unit.partition(":")[0])
            if restart := draft.tables.generators[h].restart:
                yield LOG, (h, restart)
        yield from ((ARTEFACTS, f"{made}:{label}:parts") for made, _ in MADE_OF_ALL)
        yield from ((CURVES, name) for name in (*units, *(f"{made}:{label}" for made, _ in MADE_OF_ALL)))
    yield COUNTS, f"{g}:quarantined"
    yield (QUARANTINED, (g, at)) if at else (QUARANTINED, WHOLE)


def _forget_unit(draft: Draft, unit: str, first: int) -> None:
    """The newest estimate of a generator by a metric, its modes, the claim, and the points of its curve from a position
    on."""
    draft.put(ESTIMATES, unit, None)
    draft.put(CLAIMS, unit, None)
    draft.write("ZREM", "claimed_until", unit)
    _remove(draft, UNITS, unit, "seq", "made", "error", "upload", "upload_chunks")
    _remove(draft, ARTEFACTS, f"modes:{unit}", *FACTS)
    points = draft.read(CURVES, unit) or []
    _cut(draft, unit, points, [int(point.split(" ")[1]) >= first for point in points])


def _forget_artefact(draft: Draft, artefact: str, unit: str, g: int, first: int) -> None:
    """What is made of several logs, the note about it, and the points of its curve, where these batches are in it."""
    parts = draft.read_and_hold(ARTEFACTS, f"{artefact}:parts")
    if parts is not None and _includes(parts, g, first):
        _remove(draft, ARTEFACTS, artefact, *FACTS)
    _remove(draft, UNITS, unit, "error")
    points = draft.read(CURVES, artefact) or []
    _cut(draft, artefact, points, [_includes(point.split(" ")[2], g, first) for point in points])


def _remove(draft: Draft, table: Table[str, str], name: str, *facts: str) -> None:
    for fact in facts:
        draft.put(table, f"{name}:{fact}", None)


def _includes(parts: str, g: int, first: int) -> bool:
    """Whether something of these parts, "<generator>:<seq>:<samples>" with commas between, was made of a generator's
    batches from a position on; always where that is 0."""
    seqs = {int(one.split(":")[0]): int(one.split(":")[1]) for one in parts.split(",")}
    return not first or seqs.get(g, 0) >= first


def _cut(draft: Draft, curve: str, points: Sequence[str], are_void: Sequence[bool]) -> None:
    """Remove the newest points of a curve, as long as they are void. One that comes meanwhile goes with them."""
    left = len(points)
    while left and are_void[left - 1]:
        left -= 1
    if not left:
        draft.write("UNLINK", f"curve:{curve}")
    elif left < len(points):
        draft.write("LTRIM", f"curve:{curve}", 0, left - 1)


def _drop_snapshot(draft: Draft, unit: str) -> None:
    """The snapshot of a generator by a metric; the bodies to be read are then those behind its restart."""
    unique = draft.read_and_hold(UNITS, f"{unit}:snapshot")
    _drop_chunks(draft, unit, unique, draft.read(UNITS, f"{unit}:snapshot_chunks"))
    _remove(draft, UNITS, unit, *(f"snapshot{fact}" for fact in ("", "_chunks", "_seq", "_digest", "_chain")))
    g = int(unit.partition(":")[0])
    restart = draft.tables.generators[g].restart
    entry = draft.read(LOG, (g, restart)) if restart else None
    draft.put(UNITS, f"{unit}:snapshot_bytes", "0" if entry is None else entry["bytes"])


def _drop_chunks(draft: Draft, unit: str, unique: str | None, chunks: str | None) -> None:
    for number in range(int(chunks or 0) if unique else 0):
        draft.write("UNLINK", f"snapshot:{unit}:{unique}:{number}")


def _forget_quarantined(draft: Draft, g: int, at: int, last: int) -> None:
    """Which batches cannot be read. All of a generator are counted anew."""
    if at:
        gone = [(g, at)] if draft.read_and_hold(QUARANTINED, (g, at)) is not None else []
    else:
        gone = [key for key in draft.read(QUARANTINED, WHOLE) or {} if key[0] == g and key[1] <= last]
    before = int(draft.read_and_hold(COUNTS, f"{g}:quarantined") or 0)
    is_all = last == draft.tables.generators[g].restarted_by
    left = 0 if is_all else max(0, before - len(gone))
    for key in gone:
        draft.put(QUARANTINED, key, None)
    if left != before:
        draft.put(COUNTS, f"{g}:quarantined", str(left))
