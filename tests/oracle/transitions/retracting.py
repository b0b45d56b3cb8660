"""Batches that count no longer, and batches on another scale that were accepted as they are: both on record."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from optimist.records import (
    AcceptanceRecord,
    Conflict,
    NotFound,
    NotRetractable,
    Retracted,
    RetractionRecord,
    StoreError,
    chained,
)
from tests.oracle.oracle import Oracle
from tests.oracle.rows import (
    ACCEPTANCES,
    CLAIMS,
    COPIES,
    EXPIRED,
    GENERATORS,
    LOG,
    RETRACTIONS,
    RETURNED,
    ROOT,
    SAME,
    SETTLED,
    UNITS,
    AcceptanceRow,
    RetractionRow,
)
from tests.oracle.tables import Tables
from tests.oracle.transitions.checking import is_retracted, measure_anew
from tests.oracle.transitions.controls import generator_of, root_of
from tests.oracle.transitions.forgetting import forget_made
from tests.oracle.transitions.indices import forget_told, keep_returned, pairs, unmark_told
from tests.oracle.transitions.levels import forget_levels
from tests.oracle.transitions.previews import forget_previews

MOST = 1024
"""How many single batches of an experiment can be retracted, and how many accepted; more of a generator can be, as a
whole."""


class Named(NamedTuple):
    """A batch by its pick, or by a position of a generator's log; all that a generator was told with neither."""

    pick: int | None = None
    generator: int | None = None
    position: int | None = None


class By(NamedTuple):
    """Who corrects something, and why. who: id of an access key."""

    who: str = ""
    reason: str = ""


class _Lost(NamedTuple):
    """What leaves the counts of a generator."""

    samples: int
    batches: int
    pick: int = 0
    indices: tuple[int, ...] = ()


def retract(
    oracle: Oracle, named: Named, by: By, *, until: int | None = None, fits_kernels: bool = False
) -> tuple[RetractionRecord | None, bool]:
    """The record of a retraction, and whether it was made before; None where there is nothing to retract.

    until: of a generator without a position, only up to this one. fits_kernels: whether the experiment's first samples
    fix a part of one of its metrics, which are then fixed anew; with `until` they stay. Raises NotFound for an unknown
    pick, generator or position, NotRetractable where the log is needed and was trimmed.
    """
    root, (g, at) = root_of(oracle), batch_named(oracle, named, NotRetractable)
    generator = oracle.tables.generators[g]
    until = None if until == generator.seq else until
    if at:
        known, lost = _one(oracle, g, at)
    elif until is None:
        known, lost = _whole(oracle, g)
    else:
        known, lost = _up_to(oracle, g, until)
    if lost is None:
        return known, True
    first, last = at or 1, at or until or generator.seq + 1
    reopened = root.decision is not None and (g >= len(root.decided) or first <= root.decided[g])
    refits = _refits(oracle, g, at, first) if fits_kernels and until is None else ()
    row = _record(oracle, g, at, until, lost, by, reopened)
    _uncount(oracle, g, row)
    forget_made(oracle, g, at, first, last, refits)
    if fits_kernels and until is None:
        for unit in list(oracle.tables[CLAIMS]):
            oracle.put(CLAIMS, unit, None)
    if not at and not root.keep_log:
        oracle.trim(g, last)
    forget_previews(oracle, g, first, last)
    forget_levels(oracle, g, at)
    measure_anew(oracle, g)
    _forget_copies(oracle, g, first, last)
    if at:
        for run in pairs(lost.indices):
            unmark_told(oracle, g, *run)
        if lost.pick and generator.state != "retired":
            keep_returned(oracle, g, lost.indices)
    elif until is None:
        forget_told(oracle, g)
        if g in oracle.tables[RETURNED]:
            oracle.put(RETURNED, g, None)
    return RetractionRecord(g, *row), False


def accept(oracle: Oracle, named: Named, by: By) -> tuple[AcceptanceRecord, bool]:
    """The record of an acceptance of a batch on another scale, or of all of a generator until now; and whether it was
    made before.

    Raises NotFound for an unknown pick, generator or position, Retracted for a batch that was retracted, Conflict for a
    pick without a batch, and where `MOST` were accepted before.
    """
    root, (g, at) = root_of(oracle), batch_named(oracle, named, Conflict)
    generator, accepted = oracle.tables.generators[g], oracle.tables[ACCEPTANCES]
    if at and is_retracted(oracle.tables, g, at):
        raise Retracted(f"the batch at position {at} of generator {generator.name} was retracted: it does not count")
    if at and _is_retraction(oracle.tables, g, at):
        raise NotFound(f"position {at} of generator {generator.name} is a retraction, not a batch")
    if not at and not generator.batches:
        raise NotFound(f"generator {generator.name} has no batches")
    until = generator.accepted if generator.accepted > generator.restart else 0
    if (at or generator.seq) <= until:
        return AcceptanceRecord(g, 0, *accepted[g, 0]), True
    if at and (g, at) in accepted:
        return AcceptanceRecord(g, at, *accepted[g, at]), True
    if at and root.acceptances >= MOST:
        raise Conflict(f"expected at most {MOST} single batches; possible: all batches of a generator at once")
    row = AcceptanceRow(at or generator.seq, by.who, round(oracle.now, 6), by.reason)
    oracle.put(ACCEPTANCES, (g, at), row)
    if at:
        oracle.put(ROOT, "", root._replace(acceptances=root.acceptances + 1))
    else:
        oracle.put(GENERATORS, g, generator._replace(accepted=generator.seq))
    return AcceptanceRecord(g, at, *row), False


def batch_named(oracle: Oracle, named: Named, refusal: type[StoreError]) -> tuple[int, int]:
    """The generator and the position of a batch, 0 for everything that the generator was told.

    Raises NotFound for what there is not, and `refusal` for a pick without a batch.
    """
    if named.pick is not None:
        return _batch_of(oracle, named.pick, refusal)
    assert named.generator is not None, "expected a pick, a generator, or a generator and a position"
    generator = generator_of(oracle, named.generator)
    if named.position is not None and not 1 <= named.position <= generator.seq:
        raise NotFound(f"generator {generator.name} has no batch at position {named.position}")
    return named.generator, named.position or 0


def _batch_of(oracle: Oracle, number: int, refusal: type[StoreError]) -> tuple[int, int]:
    if number not in oracle.tables.picks:
        end = oracle.read(SETTLED, number)
        if end is not None and not end.digest:
            raise refusal(f"pick {number} was given up: it has no batch")
        if end is not None and not end.answer[5]:
            raise refusal(f"nothing of the batch of pick {number} counts: its samples were told before")
        if end is not None:
            return end.answer[1], end.answer[5]
    if number in oracle.tables.picks or oracle.read(EXPIRED, number) is not None:
        raise refusal(f"pick {number} has no batch yet: give it up, or try again after its tell")
    if 0 < number <= root_of(oracle).rounds:
        raise refusal(
            f"pick {number} ended so long ago that its batch is no longer known by it: "
            "name the batch by its generator and position"
        )
    raise NotFound(f"pick {number} was never made")


def _is_retraction(tables: Tables, g: int, position: int) -> bool:
    return any(h == g and row.seq == position for (h, _), row in tables[RETRACTIONS].items())


def _known(tables: Tables, g: int, position: int) -> RetractionRecord | None:
    row = tables[RETRACTIONS].get((g, position))
    return None if row is None else RetractionRecord(g, *row)


def _is_whole(oracle: Oracle, g: int) -> bool:
    """Whether a generator's log still holds every batch that counts."""
    generator = oracle.tables.generators[g]
    start = oracle.log_start(g)
    return generator.seq == 0 or (start is not None and start <= max(1, generator.restart))


def _one(oracle: Oracle, g: int, at: int) -> tuple[RetractionRecord | None, _Lost | None]:
    """A single batch to be retracted; or the retraction by which it counts no longer."""
    tables, root, generator = oracle.tables, root_of(oracle), oracle.tables.generators[g]
    if is_retracted(tables, g, at):
        return _known(tables, g, at) or _known(tables, g, generator.restarted_by), None
    entry, is_whole = oracle.read(LOG, (g, at)), _is_whole(oracle, g)
    newest = max(int(oracle.read(UNITS, _snapshot(g, label)) or 0) for label in root.labels)
    if entry is None or (at <= newest and not is_whole):
        left = f"batches from position {newest + 1} on, and " if newest < generator.seq else ""
        raise NotRetractable(
            f"the batch at position {at} of generator {generator.name} is no longer in the log, which is trimmed "
            f"unless the experiment has keep_log; possible: {left}all batches of the generator at once"
        )
    if "retracts" in entry:
        raise NotFound(f"position {at} of generator {generator.name} is a retraction, not a batch")
    if root.retractions >= MOST:
        raise NotRetractable(f"expected at most {MOST} single batches; possible: all batches of a generator at once")
    indices = tuple(map(int, entry.get("indices", "").split()))
    return None, _Lost(int(entry["rows"]), 1, int(entry["pick"]), indices)


def _whole(oracle: Oracle, g: int) -> tuple[RetractionRecord | None, _Lost | None]:
    """Everything that a generator was told."""
    generator = oracle.tables.generators[g]
    if not generator.batches:
        return _known(oracle.tables, g, generator.restarted_by), None
    return None, _Lost(generator.samples, generator.batches)


def _up_to(oracle: Oracle, g: int, until: int) -> tuple[RetractionRecord | None, _Lost | None]:
    """What a generator was told up to a position."""
    tables, generator = oracle.tables, oracle.tables.generators[g]
    if not generator.batches or until <= generator.restart:
        return _known(tables, g, generator.restarted_by), None
    if not 1 <= until <= generator.seq:
        raise NotFound(f"generator {generator.name} has no batch at position {until}")
    entry, oldest = oracle.read(LOG, (g, until)), oracle.log_start(g) or generator.seq
    if entry is None:
        raise NotRetractable(
            f"what generator {generator.name} was told after position {until} is no longer in the log, "
            f"which is trimmed unless the experiment has keep_log; possible: everything up to position {oldest} or a "
            "later one"
        )
    # What counts of the log after that position, less what was retracted there one by one.
    own = [(key[1], row) for key, row in tables[RETRACTIONS].items() if key[0] == g]
    single = [row for position, row in own if row.position and position > until]
    rows = generator.told - int(entry["told"]) - sum(row.samples for row in single)
    batches = generator.seq - until - sum(row.seq > until for _, row in own) - len(single)
    lost = _Lost(generator.samples - rows, generator.batches - batches)
    return None, lost if lost.batches else None


def _refits(oracle: Oracle, g: int, at: int, first: int) -> tuple[str, ...]:
    """The metrics whose kernels are fixed anew: samples that are retracted took part, and all logs are whole."""
    labels, restart = root_of(oracle).labels, oracle.tables.generators[g].restart
    others = [h for h in oracle.tables.generators if at or h != g]
    whole = [_is_whole(oracle, h) for h in others]
    if not all(whole):
        return ()
    refits: list[str] = []
    for label in labels:
        fitted = oracle.read(UNITS, f"{label}:fitted")
        numbers = list(map(int, (oracle.read(UNITS, f"{label}:fitted_from") or "").split()))
        used = dict(zip(numbers[::2], numbers[1::2], strict=True))
        if fitted is not None and (not used or max(first, restart + 1) <= used.get(g, 0)):
            refits.append(label)
    return tuple(refits)


def _snapshot(g: int, label: str) -> str:
    return f"{g}:{label}:snapshot_seq"


def _record(oracle: Oracle, g: int, at: int, until: int | None, lost: _Lost, by: By, reopened: bool) -> RetractionRow:
    """The record of a retraction, as an entry of the log, too."""
    root, generator = root_of(oracle), oracle.tables.generators[g]
    own = generator.seq + 1
    # Times as scripts write them, to a microsecond.
    row = RetractionRow(
        *(own, at, 0 if at else until or own, lost.pick, lost.samples, lost.batches),
        *(by.who, round(oracle.now, 6), by.reason, root.told, reopened, ""),
    )
    digest = hashlib.sha1(f"{g} {row}".encode()).hexdigest()
    row = row._replace(digest=digest)
    chain = chained(generator.chain, digest)
    fields = {"retracts": 1, "digest": digest, "chain": chain, "bytes": generator.bytes, "told": generator.told}
    oracle.log(g, own, fields)
    oracle.put(RETRACTIONS, (g, at or own), row)
    oracle.put(GENERATORS, g, generator._replace(seq=own, chain=chain, voids=own))
    return row


def _uncount(oracle: Oracle, g: int, row: RetractionRow) -> None:
    """Take what a retraction names out of the counts. An estimate is due at once."""
    root, generator = root_of(oracle), oracle.tables.generators[g]
    samples, is_due = generator.samples - row.samples, generator.samples - row.samples >= 2
    generator = generator._replace(
        samples=samples,
        batches=generator.batches - row.batches,
        retracted=generator.retracted + row.samples,
        due_samples=samples if is_due else 0,
        due_seq=row.seq if is_due else 0,
    )
    if not row.position:
        generator = generator._replace(restart=row.until, restarted_by=row.seq)
    if row.until == row.seq:
        generator = generator._replace(handed=0)
    oracle.put(GENERATORS, g, generator)
    root = root._replace(retractions=root.retractions + (row.position > 0))
    if row.reopened:
        root = root._replace(decision=None, decided=())
    oracle.put(ROOT, "", root)


def _forget_copies(oracle: Oracle, g: int, first: int, last: int) -> None:
    """Forget which of these batches were copies. Where several were retracted, the generator is compared anew."""
    generator, is_whole = oracle.tables.generators[g], last == oracle.tables.generators[g].restart
    gone = [key for key in oracle.tables[COPIES] if key[0] == g and first <= key[1] <= last]
    for key in gone:
        oracle.put(COPIES, key, None)
    is_all = is_whole and generator.restart == generator.restarted_by
    oracle.put(GENERATORS, g, generator._replace(copies=0 if is_all else max(0, generator.copies - len(gone))))
    for pair in [pair for pair in oracle.tables[SAME] if g in pair] if is_whole else []:
        oracle.put(SAME, pair, None)
