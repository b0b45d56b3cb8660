"""What scorers made of batches that count no longer, or with kernels that are fixed anew: it is removed by its names.

What they publish later is refused, as their claims end, and as it is older than `voids`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.oracle import Oracle
from tests.oracle.rows import ARTEFACTS, CLAIMS, CURVES, ESTIMATES, LOG, QUARANTINED, UNITS, Table
from tests.oracle.transitions.controls import root_of

MADE_OF_ALL = ("mixture", "mixture"), ("model", "model"), ("table", "model")
"""What is made of several logs by each metric, and the unit under whose claim it is made."""

FACTS = "made", "parts", "payload"
"""Of an artefact."""


def forget_made(oracle: Oracle, g: int, at: int, first: int, last: int, refits: Sequence[str]) -> None:
    """Remove what was made of a generator's batches from `first` to `last` on; at: the one batch, 0 where all of these
    were retracted. refits: the metrics whose kernels are fixed anew; what they made goes, of every generator."""
    labels, every = root_of(oracle).labels, list(oracle.tables.generators)
    held = {label: [f"{h}:{label}" for h in (every if label in refits else [g])] for label in labels}
    for label, units in held.items():
        start = 1 if label in refits else first
        for unit in units:
            _forget_unit(oracle, unit, start)
            snapshot = int(oracle.read(UNITS, f"{unit}:snapshot_seq") or 0)
            if not at or label in refits or at <= snapshot:
                _drop_snapshot(oracle, unit)
        for made, claimed in MADE_OF_ALL:
            _forget_artefact(oracle, f"{made}:{label}", f"{claimed}:{label}", g, 0 if label in refits else first)
        if label in refits:
            _remove(oracle, UNITS, label, "fitted", "fitted_from")
    _forget_quarantined(oracle, g, at, last)


def _forget_unit(oracle: Oracle, unit: str, first: int) -> None:
    """The newest estimate of a generator by a metric, its modes, the claim, and the points of its curve from a position
    on."""
    oracle.put(ESTIMATES, unit, None)
    oracle.put(CLAIMS, unit, None)
    _remove(oracle, UNITS, unit, "seq", "made", "error", "upload", "upload_chunks")
    _remove(oracle, ARTEFACTS, f"modes:{unit}", *FACTS)
    points = oracle.read(CURVES, unit) or ()
    _cut(oracle, unit, points, [int(point.split(" ")[1]) >= first for point in points])


def _forget_artefact(oracle: Oracle, artefact: str, unit: str, g: int, first: int) -> None:
    """What is made of several logs, the note about it, and the points of its curve, where these batches are in it."""
    parts = oracle.read(ARTEFACTS, f"{artefact}:parts")
    if parts is not None and _includes(parts, g, first):
        _remove(oracle, ARTEFACTS, artefact, *FACTS)
    _remove(oracle, UNITS, unit, "error")
    points = oracle.read(CURVES, artefact) or ()
    _cut(oracle, artefact, points, [_includes(point.split(" ")[2], g, first) for point in points])


def _remove(oracle: Oracle, table: Table[str, str], name: str, *facts: str) -> None:
    for fact in facts:
        oracle.put(table, f"{name}:{fact}", None)


def _includes(parts: str, g: int, first: int) -> bool:
    """Whether something of these parts, "<generator>:<seq>:<samples>" with commas between, was made of a generator's
    batches from a position on; always where that is 0."""
    seqs = {int(one.split(":")[0]): int(one.split(":")[1]) for one in parts.split(",")}
    return not first or seqs.get(g, 0) >= first


def _cut(oracle: Oracle, curve: str, points: Sequence[str], are_void: Sequence[bool]) -> None:
    """Remove the newest points of a curve, as long as they are void."""
    left = len(points)
    while left and are_void[left - 1]:
        left -= 1
    oracle.put(CURVES, curve, tuple(points[:left]) or None)


def _drop_snapshot(oracle: Oracle, unit: str) -> None:
    """The snapshot of a generator by a metric; the bodies to be read are then those behind its restart."""
    _remove(oracle, UNITS, unit, *(f"snapshot{fact}" for fact in ("", "_chunks", "_seq", "_digest", "_chain")))
    g = int(unit.partition(":")[0])
    restart = oracle.tables.generators[g].restart
    entry = oracle.read(LOG, (g, restart)) if restart else None
    oracle.put(UNITS, f"{unit}:snapshot_bytes", "0" if entry is None else str(entry["bytes"]))


def _forget_quarantined(oracle: Oracle, g: int, at: int, last: int) -> None:
    """Which batches cannot be read."""
    for key in [
        key for key in oracle.tables[QUARANTINED] if key[0] == g and (key[1] == at or (not at and key[1] <= last))
    ]:
        oracle.put(QUARANTINED, key, None)
