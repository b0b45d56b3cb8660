"""What must hold of an experiment, by what the oracle has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from optimist.records import chained
from tests.oracle.oracle import Oracle
from tests.oracle.rows import (
    BLENDED,
    CONTENTS,
    COPIES,
    EXPIRED,
    LEVELS,
    PREVIEWS,
    RECORDS,
    RETRACTIONS,
    SETTLED,
    TOLD,
    UNITS,
)
from tests.oracle.transitions.checking import is_retracted
from tests.oracle.transitions.indices import pairs, returned_by
from tests.oracle.transitions.levels import KEPT
from tests.oracle.transitions.picks import Room


def check_oracle(oracle: Oracle, room: Room, previews: int) -> None:
    """The counts are those of the logs, and nothing counts twice. previews: how many a generator may have."""
    tables = oracle.tables
    if tables.root is None:
        return
    assert tables.root.told == len(oracle.history), "every batch is in the history"
    assert len(tables.picks) <= room.experiment, "open picks"
    for worker, numbers in tables.of_worker.items():
        assert not worker or len(numbers) <= room.worker, "open picks of a worker"
    assert max(tables.of_key.values(), default=0) <= room.key, "open picks of a key"
    assert abs(sum(tables[BLENDED].values())) < 1e-6, "credits sum to 0"
    for g in tables.generators:
        _check_generator(oracle, g)
    _check_beside(oracle, previews)


def _check_generator(oracle: Oracle, g: int) -> None:
    tables = oracle.tables
    generator = tables.generators[g]
    entries = {seq: entry for (h, seq), entry in oracle.logged.items() if h == g}
    assert sorted(entries) == list(range(1, generator.seq + 1)), "every entry is counted"
    digest, told_before, size = "", 0, 0
    for _, entry in sorted(entries.items()):
        digest, told_before = chained(digest, entry["digest"]), told_before + entry.get("rows", 0)
        size += len(entry.get("body", b"")) + len(entry.get("context", b""))
        assert (entry["chain"], entry["told"], entry["bytes"]) == (digest, told_before, size), "an entry adds up"
    assert (generator.chain, generator.told, generator.bytes) == (digest, told_before, size)
    assert generator.answered == max((seq for seq, entry in entries.items() if entry.get("pick")), default=0)
    live = {seq: e for seq, e in entries.items() if "retracts" not in e and not is_retracted(tables, g, seq)}
    assert generator.batches == len(live), "each batch that counts is counted once"
    assert generator.samples == sum(entry["rows"] for entry in live.values()), "samples"
    retractions = [row for (h, _), row in tables[RETRACTIONS].items() if h == g]
    # All of a generator begins anew, with all indices; up to a position, they stay told.
    began = max((row.seq for row in retractions if row.until == row.seq), default=0)
    told = Counter(
        index
        for seq, entry in entries.items()
        if "rows" in entry and seq > began and (g, seq) not in tables[RETRACTIONS]
        for index in _indices(list(map(int, entry.get("indices", "").split())))
    )
    assert max(told.values(), default=0) <= 1, "no index counts twice"
    kept = {i for (h, start), stop in tables[TOLD].items() if h == g for i in range(start, stop)}
    assert kept == set(told), "told indices are those of the batches that count"
    returned = set(_indices(returned_by(tables, g)))
    if not began:
        assert not returned & kept, "what was told is not handed out again"
    if not retractions:
        handed = Counter(
            index
            for pick in tables.picks.values()
            if pick.generator == g and pick.start is not None
            for index in range(pick.start, pick.start + pick.size)
        )
        handed.update(returned)
        assert max(handed.values(), default=0) <= 1, "no index is handed out twice"
    _check_picks(oracle, live)
    named = [seq for h, seq in tables[COPIES] if h == g]
    assert set(named) <= set(live), "copies that are named count"
    for label in () if tables.root is None else tables.root.labels:
        seq = tables[UNITS].get(f"{g}:{label}:seq")
        assert seq is None or int(seq) >= generator.voids, "no estimate is made of what was retracted"


def _check_picks(oracle: Oracle, live: Mapping[int, Mapping[str, Any]]) -> None:
    asked = [entry for entry in live.values() if entry["pick"]]
    numbers = [entry["pick"] for entry in asked]
    assert len(numbers) == len(set(numbers)), "a pick is told once"
    bodies = [entry["body"] for entry in asked]
    assert len(bodies) == len(set(bodies)), "a body is counted once"
    for entry in asked:
        if (end := oracle.tables[SETTLED].get(entry["pick"])) is not None:
            assert entry["digest"].startswith(f"{end.nonce} "), "a batch counts for the pick that it was made for"


def _check_beside(oracle: Oracle, most_previews: int) -> None:
    tables = oracle.tables
    assert tables[RECORDS].keys() == tables.picks.keys() | tables[EXPIRED].keys(), "picks that may be told have records"
    for row in tables[CONTENTS].values():
        generators = row.places[::3]
        assert len(generators) == len(set(generators)), "contents are noted once for each generator"
    levels = Counter(key[:2] for key in tables[LEVELS])
    assert max(levels.values(), default=0) <= KEPT
    assert not [key for key in tables[LEVELS] if (key[0], key[2]) in tables[RETRACTIONS]], "levels are of what counts"
    kept = Counter(key[0] for key in tables[PREVIEWS])
    assert max(kept.values(), default=0) <= most_previews
    gone = [key for key, row in tables[PREVIEWS].items() if is_retracted(tables, key[0], row.position)]
    assert not gone, "previews are of batches that count"


def _indices(runs: list[int] | tuple[int, ...]) -> list[int]:
    return list(chain.from_iterable(range(start, start + size) for start, size in pairs(runs)))
