"""What must hold of a simulated experiment, by what the store has."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from optimist.dispatch.writer import Writer
from optimist.experiments.tables import Tables
from optimist.experiments.transitions.checking import is_retracted
from optimist.experiments.transitions.indices import pairs, returned_by
from optimist.experiments.transitions.levels import KEPT, Levels
from optimist.records import chained
from optimist.records.tables import (
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
    WHOLE,
    rows_in,
)
from tests.interleavings.operations import PREVIEWS as MOST_PREVIEWS
from tests.interleavings.operations import ROOM
from tests.support.memory_store import MemoryStore

HISTORY = 7


def tables_of(store: MemoryStore) -> Tables:
    return Tables(rows_in(store.contents.hashes))


def check_store(store: MemoryStore, tables: Tables, *, has_journal: bool = True) -> None:
    """The tables are the fold of all steps, and the counts are those of the logs."""
    assert not has_journal or tables == Tables(store.folded()), "the tables are the fold of all steps"
    if tables.root is None:
        return
    assert tables.root.told * HISTORY == len(store.contents.history), "every batch is in the history"
    assert len(tables.picks) <= ROOM.experiment, "open picks"
    assert max(map(len, tables.of_worker.values()), default=0) <= max(ROOM.experiment, ROOM.worker)
    for worker, numbers in tables.of_worker.items():
        assert not worker or len(numbers) <= ROOM.worker, "open picks of a worker"
    assert sum(float(text) for text in store.contents.hashes.get(BLENDED.name, {}).values()) < 1e-6, "credits sum to 0"
    for g in tables.generators:
        _check_generator(store, tables, g)
    _check_beside(store, tables)


def check_writer(store: MemoryStore, tables: Tables, writer: Writer) -> None:
    """A process at the head of the store has exactly its tables, and their indices."""
    mine = writer.tables
    assert mine == tables, "a process has what the store has"
    for name in ("of_request", "of_worker", "of_key", "open_samples", "open_batches", "starts", "sizes"):
        one, other = getattr(mine, name), getattr(tables, name)
        assert {k: v for k, v in one.items() if v} == {k: v for k, v in other.items() if v}, name
    assert (mine.samples, mine.scales) == (tables.samples, tables.scales)
    deadlines = [pick.deadline for pick in tables.picks.values()]
    assert all(mine.earliest <= deadline <= mine.latest for deadline in deadlines), "leases are bounded"
    for (table, key), value in writer._kept.items():
        stored = store.contents.hashes.get(table.part(key), {}).get(table.text_of(key))
        assert table.value_in(key, stored) == value, "what is kept is what is stored"
    for (table, key), value in writer._derived.items():
        rows = table.value_in(key, store.contents.hashes.get(table.part(key), {}))
        kept = {place: ranked for place, ranked in value.items() if ranked.values}
        assert Levels.from_rows(rows) == kept, "levels that are kept are those that are stored"


def _check_generator(store: MemoryStore, tables: Tables, g: int) -> None:
    generator, entries = tables.generators[g], store.contents.untrimmed.get(f"log:{g}", {})
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
    _check_picks(store, live)
    named = [seq for h, seq in tables[COPIES] if h == g]
    assert set(named) <= set(live), "copies that are named count"
    seq = store.contents.hashes.get("units", {}).get(f"{g}:m:seq")
    assert seq is None or int(seq) >= generator.voids, "no estimate is made of what was retracted"


def _check_picks(store: MemoryStore, live: dict[int, dict[str, object]]) -> None:
    numbers = [entry["pick"] for entry in live.values() if entry["pick"]]
    assert len(numbers) == len(set(numbers)), "a pick is told once"
    bodies = [entry["body"] for entry in live.values() if entry["pick"]]
    assert len(bodies) == len(set(bodies)), "a body is counted once"
    ended = store.contents.hashes.get(SETTLED.name, {})
    for entry in live.values():
        if (text := ended.get(str(entry["pick"]))) is not None:
            nonce = SETTLED.row_in(text).nonce
            assert str(entry["digest"]).startswith(f"{nonce} "), "a batch counts for the pick that it was made for"


def _check_beside(store: MemoryStore, tables: Tables) -> None:
    hashes = store.contents.hashes
    open_ = set(map(str, tables.picks)) | set(hashes.get(EXPIRED.name, ()))
    assert set(hashes.get(RECORDS.name, ())) == open_, "picks that may be told have records, and no others"
    for text in hashes.get(CONTENTS.name, {}).values():
        generators = CONTENTS.row_in(text).places[::3]
        assert len(generators) == len(set(generators)), "contents are noted once for each generator"
    for g in tables.generators:
        levels = LEVELS.value_in((g, WHOLE), hashes.get(f"{LEVELS.name}:{g}") or {})
        assert len(levels) <= KEPT
        assert not [key for key in levels if (g, key[2]) in tables[RETRACTIONS]], "levels of batches that count"
        previews = PREVIEWS.value_in((g, WHOLE), hashes.get(f"{PREVIEWS.name}:{g}") or {})
        assert len(previews) <= MOST_PREVIEWS
        assert set(hashes.get(f"{PREVIEWS.name}:{g}", ())) == set(hashes.get(f"{PREVIEWS.name}:{g}:bodies", ()))
        gone = [row for row in previews.values() if is_retracted(tables, g, row.position)]
        assert not gone, "previews are of batches that count"


def _indices(runs: list[int] | tuple[int, ...]) -> list[int]:
    return list(chain.from_iterable(range(start, start + size) for start, size in pairs(runs)))
