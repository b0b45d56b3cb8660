"""Batches that count no longer, and batches on another scale that were accepted as they are: both on record."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from optimist.experiments.drafts import Draft
from optimist.experiments.tables import Tables
from optimist.experiments.transitions.checking import is_retracted, measure_anew
from optimist.experiments.transitions.controls import generator_of, root_of
from optimist.experiments.transitions.forgetting import forget_made
from optimist.experiments.transitions.indices import forget_told, keep_returned, pairs, unmark_told
from optimist.experiments.transitions.levels import forget_levels
from optimist.experiments.transitions.previews import forget_previews
from optimist.records import Acceptance, Conflict, NotFound, NotRetractable, Retracted, Retraction, StoreError, chained
from optimist.records.tables import (
    ACCEPTANCES,
    COPIES,
    EXPIRED,
    GENERATORS,
    LOG,
    LOG_START,
    RETRACTIONS,
    RETURNED,
    ROOT,
    SAME,
    SETTLED,
    UNITS,
    AcceptanceRow,
    RetractionRow,
    text_of_row,
)

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
    draft: Draft, named: Named, by: By, *, until: int | None = None, fits_kernels: bool = False
) -> tuple[Retraction | None, bool]:
    """The record of a retraction, and whether it was made before; None where there is nothing to retract.

    until: of a generator without a position, only up to this one. fits_kernels: whether the experiment's first samples
    fix a part of one of its metrics, which are then fixed anew; with `until` they stay. Raises NotFound for an unknown
    pick, generator or position, NotRetractable where the log is needed and was trimmed.
    """
    root, (g, at) = root_of(draft), batch_named(draft, named, NotRetractable)
    generator = draft.tables.generators[g]
    until = None if until == generator.seq else until
    if at:
        known, lost = _one(draft, g, at)
    elif until is None:
        known, lost = _whole(draft, g)
    else:
        known, lost = _up_to(draft, g, until)
    if lost is None:
        return known, True
    first, last = at or 1, at or until or generator.seq + 1
    reopened = root.decision is not None and (g >= len(root.decided) or first <= root.decided[g])
    refits = _refits(draft, g, at, first) if fits_kernels and until is None else ()
    row = _record(draft, g, at, until, lost, by, reopened)
    _uncount(draft, g, row)
    forget_made(draft, g, at, first, last, refits)
    if fits_kernels and until is None:
        draft.write("UNLINK", "claims")
        draft.write("UNLINK", "claimed_until")
    if not at and not root.keep_log:
        draft.write("XTRIM", f"log:{g}", "MINID", "=", f"{last}-0")
    forget_previews(draft, g, first, last)
    forget_levels(draft, g, at)
    measure_anew(draft, g)
    _forget_copies(draft, g, first, last)
    if at:
        for run in pairs(lost.indices):
            unmark_told(draft, g, *run)
        if lost.pick and generator.state != "retired":
            keep_returned(draft, g, lost.indices)
    elif until is None:
        forget_told(draft, g)
        if g in draft.tables[RETURNED]:
            draft.put(RETURNED, g, None)
    return Retraction(g, *row), False


def accept(draft: Draft, named: Named, by: By) -> tuple[Acceptance, bool]:
    """The record of an acceptance of a batch on another scale, or of all of a generator until now; and whether it was
    made before.

    Raises NotFound for an unknown pick, generator or position, Retracted for a batch that was retracted, Conflict for a
    pick without a batch, and where `MOST` were accepted before.
    """
    root, (g, at) = root_of(draft), batch_named(draft, named, Conflict)
    generator, accepted = draft.tables.generators[g], draft.tables[ACCEPTANCES]
    if at and is_retracted(draft.tables, g, at):
        raise Retracted(f"the batch at position {at} of generator {generator.name} was retracted: it does not count")
    if at and _is_retraction(draft.tables, g, at):
        raise NotFound(f"position {at} of generator {generator.name} is a retraction, not a batch")
    if not at and not generator.batches:
        raise NotFound(f"generator {generator.name} has no batches")
    until = generator.accepted if generator.accepted > generator.restart else 0
    if (at or generator.seq) <= until:
        return Acceptance(g, 0, *accepted[g, 0]), True
    if at and (g, at) in accepted:
        return Acceptance(g, at, *accepted[g, at]), True
    if at and root.acceptances >= MOST:
        raise Conflict(f"expected at most {MOST} single batches; possible: all batches of a generator at once")
    row = AcceptanceRow(at or generator.seq, by.who, round(draft.now, 6), by.reason)
    draft.grows = True
    draft.put(ACCEPTANCES, (g, at), row)
    if at:
        draft.put(ROOT, "", root._replace(acceptances=root.acceptances + 1))
    else:
        draft.put(GENERATORS, g, generator._replace(accepted=generator.seq))
    return Acceptance(g, at, *row), False


def batch_named(draft: Draft, named: Named, refusal: type[StoreError]) -> tuple[int, int]:
    """The generator and the position of a batch, 0 for everything that the generator was told.

    Raises NotFound for what there is not, and `refusal` for a pick without a batch.
    """
    if named.pick is not None:
        return _batch_of(draft, named.pick, refusal)
    assert named.generator is not None, "expected a pick, a generator, or a generator and a position"
    generator = generator_of(draft, named.generator)
    if named.position is not None and not 1 <= named.position <= generator.seq:
        raise NotFound(f"generator {generator.name} has no batch at position {named.position}")
    return named.generator, named.position or 0


def _batch_of(draft: Draft, number: int, refusal: type[StoreError]) -> tuple[int, int]:
    if number not in draft.tables.picks:
        draft.need((SETTLED, number), (EXPIRED, number))
        end = draft.read(SETTLED, number)
        if end is not None and not end.digest:
            raise refusal(f"pick {number} was given up: it has no batch")
        if end is not None and not end.answer[5]:
            raise refusal(f"nothing of the batch of pick {number} counts: its samples were told before")
        if end is not None:
            return end.answer[1], end.answer[5]
    if number in draft.tables.picks or draft.read(EXPIRED, number) is not None:
        raise refusal(f"pick {number} has no batch yet: give it up, or try again after its tell")
    if 0 < number <= root_of(draft).rounds:
        raise refusal(
            f"pick {number} ended so long ago that its batch is no longer known by it: "
            "name the batch by its generator and position"
        )
    raise NotFound(f"pick {number} was never made")


def _is_retraction(tables: Tables, g: int, position: int) -> bool:
    return any(h == g and row.seq == position for (h, _), row in tables[RETRACTIONS].items())


def _known(tables: Tables, g: int, position: int) -> Retraction | None:
    row = tables[RETRACTIONS].get((g, position))
    return None if row is None else Retraction(g, *row)


def _is_whole(draft: Draft, g: int) -> bool:
    """Whether a generator's log still holds every batch that counts."""
    generator = draft.tables.generators[g]
    start = draft.read_and_hold(LOG_START, g)
    return generator.seq == 0 or (start is not None and start <= max(1, generator.restart))


def _one(draft: Draft, g: int, at: int) -> tuple[Retraction | None, _Lost | None]:
    """A single batch to be retracted; or the retraction by which it counts no longer."""
    tables, root, generator = draft.tables, root_of(draft), draft.tables.generators[g]
    if is_retracted(tables, g, at):
        return _known(tables, g, at) or _known(tables, g, generator.restarted_by), None
    draft.need((LOG, (g, at)), (LOG_START, g), *((UNITS, _snapshot(g, label)) for label in root.labels))
    entry, is_whole = draft.read(LOG, (g, at)), _is_whole(draft, g)
    newest = max(int(draft.read_and_hold(UNITS, _snapshot(g, label)) or 0) for label in root.labels)
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


def _whole(draft: Draft, g: int) -> tuple[Retraction | None, _Lost | None]:
    """Everything that a generator was told."""
    generator = draft.tables.generators[g]
    if not generator.batches:
        return _known(draft.tables, g, generator.restarted_by), None
    draft.frees = True
    return None, _Lost(generator.samples, generator.batches)


def _up_to(draft: Draft, g: int, until: int) -> tuple[Retraction | None, _Lost | None]:
    """What a generator was told up to a position."""
    tables, generator = draft.tables, draft.tables.generators[g]
    if not generator.batches or until <= generator.restart:
        return _known(tables, g, generator.restarted_by), None
    if not 1 <= until <= generator.seq:
        raise NotFound(f"generator {generator.name} has no batch at position {until}")
    draft.need((LOG, (g, until)), (LOG_START, g))
    entry, oldest = draft.read(LOG, (g, until)), draft.read_and_hold(LOG_START, g) or generator.seq
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


def _refits(draft: Draft, g: int, at: int, first: int) -> tuple[str, ...]:
    """The metrics whose kernels are fixed anew: samples that are retracted took part, and all logs are whole."""
    labels, restart = root_of(draft).labels, draft.tables.generators[g].restart
    others = [h for h in draft.tables.generators if at or h != g]
    notes = [(UNITS, f"{label}:{fact}") for label in labels for fact in ("fitted", "fitted_from")]
    draft.need(*notes, *((LOG_START, h) for h in others))
    whole = [_is_whole(draft, h) for h in others]
    if not all(whole):
        return ()
    refits: list[str] = []
    for label in labels:
        fitted = draft.read_and_hold(UNITS, f"{label}:fitted")
        numbers = list(map(int, (draft.read_and_hold(UNITS, f"{label}:fitted_from") or "").split()))
        used = dict(zip(numbers[::2], numbers[1::2], strict=True))
        if fitted is not None and (not used or max(first, restart + 1) <= used.get(g, 0)):
            refits.append(label)
    return tuple(refits)


def _snapshot(g: int, label: str) -> str:
    return f"{g}:{label}:snapshot_seq"


def _record(draft: Draft, g: int, at: int, until: int | None, lost: _Lost, by: By, reopened: bool) -> RetractionRow:
    """The record of a retraction, as an entry of the log, too."""
    root, generator = root_of(draft), draft.tables.generators[g]
    own = generator.seq + 1
    # Times as scripts write them, to a microsecond.
    row = RetractionRow(
        *(own, at, 0 if at else until or own, lost.pick, lost.samples, lost.batches),
        *(by.who, round(draft.now, 6), by.reason, root.told, reopened, ""),
    )
    digest = hashlib.sha1(f"{g} {text_of_row(row)}".encode()).hexdigest()
    row = row._replace(digest=digest)
    chain = chained(generator.chain, digest)
    fields = {"retracts": 1, "digest": digest, "chain": chain, "bytes": generator.bytes, "told": generator.told}
    draft.grows = draft.grows or at > 0 or until is not None
    draft.log(g, own, fields)
    draft.put(RETRACTIONS, (g, at or own), row)
    draft.put(GENERATORS, g, generator._replace(seq=own, chain=chain, voids=own))
    return row


def _uncount(draft: Draft, g: int, row: RetractionRow) -> None:
    """Take what a retraction names out of the counts. An estimate is due at once."""
    root, generator = root_of(draft), draft.tables.generators[g]
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
    draft.put(GENERATORS, g, generator)
    root = root._replace(retractions=root.retractions + (row.position > 0))
    if row.reopened:
        root = root._replace(decision=None, decided=())
    draft.put(ROOT, "", root)
    draft.due.append((g, row.seq))


def _forget_copies(draft: Draft, g: int, first: int, last: int) -> None:
    """Forget which of these batches were copies. Where several were retracted, the generator is compared anew."""
    generator, is_whole = draft.tables.generators[g], last == draft.tables.generators[g].restart
    gone = [key for key in draft.tables[COPIES] if key[0] == g and first <= key[1] <= last]
    for key in gone:
        draft.put(COPIES, key, None)
    is_all = is_whole and generator.restart == generator.restarted_by
    draft.put(GENERATORS, g, generator._replace(copies=0 if is_all else max(0, generator.copies - len(gone))))
    for pair in [pair for pair in draft.tables[SAME] if g in pair] if is_whole else []:
        draft.put(SAME, pair, None)
