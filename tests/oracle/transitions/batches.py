"""Batches: told for a pick, or appended without one; counted as far as their indices were not told before."""

from __future__ import annotations

import base64
from typing import NamedTuple

from optimist.estimates.estimate import is_due
from optimist.records import Contents, PickBatch, Refused, Settled, chained
from tests.oracle.oracle import Counted, Oracle
from tests.oracle.rows import APPENDED, CONTEXTS, GENERATORS, RECORDS, ROOT, WORKERS, EndRow, PickRow
from tests.oracle.tables import Tables
from tests.oracle.transitions.checking import check, note
from tests.oracle.transitions.controls import generator_of, root_of
from tests.oracle.transitions.indices import add_run, forget_returned, mark_told, pairs, untold
from tests.oracle.transitions.picks import end_pick, find_pick, lost, recall, repeated, settled_of


class Part(NamedTuple):
    """Which rows of a batch count."""

    rows: int
    indices: tuple[int, ...] = ()
    """Runs of their indices. Rows beyond those that were asked for have no index, and count."""
    counted: tuple[int, ...] = ()
    """Runs of the rows of the batch; empty for all."""


def tell(oracle: Oracle, batch: PickBatch) -> Settled:
    """Accept a batch for a pick. It counts though the lease ran out, and whatever became of the experiment.

    A repeat, with the same digest, gets the first answer again. Raises Conflict if the pick was told with another
    digest or given up, Gone if its end is no longer remembered or Redis has lost the pick, as a wrong nonce shows,
    Refused for a wrong number of rows, or a batch that fails the checks.
    """
    number, contents = batch.pick, batch.contents
    root_of(oracle)
    pick = find_pick(oracle, number)
    if pick is None:
        settled = recall(oracle, number, contents.digest, batch.nonce)
        assert settled is not None, "a digest is never empty"
        return settled
    if pick.nonce != batch.nonce:
        raise lost(number)
    if contents.rows < pick.least or 0 < pick.most < contents.rows:
        expected = f"{'' if pick.least == pick.most else 'at most '}{pick.most}"
        raise Refused(f"expected {expected} rows for pick {number}, got {contents.rows}")
    most = root_of(oracle).max_batches_per_worker
    is_over = most is not None and pick.worker and (oracle.read(WORKERS, pick.worker) or 0) >= most
    if is_over and number not in oracle.tables.picks:
        raise Refused(
            f"the worker {pick.worker} has handed in all batches that the experiment takes of one worker "
            f"(max_batches_per_worker); the lease of pick {number} had ended"
        )
    settled, answer = _accept(oracle, pick.generator, contents, pick.start, pick.size, number, pick)
    end_pick(oracle, number, pick, contents.rows, EndRow(pick.nonce, contents.digest, answer))
    return settled


def append(oracle: Oracle, g: int, key: str, contents: Contents, start: int | None = None) -> Settled:
    """Accept a batch without a pick. key: recognises its repeat. start: the index of its first row, which picks then
    continue behind; None: its rows have none.

    Raises Conflict for a key that came with another digest or start, NotFound for an unknown generator, Refused for a
    batch that does not pass the checks, or with a `start` where samples have no indices.
    """
    root, place = root_of(oracle), f"{g}\t{key}"
    digest = contents.digest if start is None else f"{contents.digest} {start}"
    if (before := oracle.read(APPENDED, place)) is not None:
        conflict = "another batch, or the same one with another start, was appended under this key"
        return repeated(oracle, before, digest, conflict)
    generator = generator_of(oracle, g)
    if start is not None and root.batch_size is None:
        raise Refused("start: samples of this experiment have no indices")
    if start is not None and generator.is_seedless:
        raise Refused("start: expected none, as the generator ignores seeds, so that its samples have no indices")
    settled, answer = _accept(oracle, g, contents, start, contents.rows)
    # Picks go on behind these indices, at a multiple of the batch size.
    generator = oracle.tables.generators[g]
    if start is not None and root.batch_size is not None and (end := start + contents.rows) > generator.handed:
        oracle.put(GENERATORS, g, generator._replace(handed=end + -end % root.batch_size))
    oracle.put(APPENDED, place, EndRow("", digest, answer))
    return settled


def part_of(tables: Tables, g: int, start: int | None, size: int, rows: int) -> Part:
    """Which of the rows of a batch count, whose first `size` were made for the indices from `start` on."""
    if start is None or tables.generators[g].is_seedless:
        return Part(rows)
    size = min(size, rows)
    indices, counted = untold(tables, g, start, size), list[int]()
    for first, length in pairs(indices):
        add_run(counted, first - start, length)
    add_run(counted, size, rows - size)
    total = sum(counted[1::2])
    return Part(total, tuple(indices), tuple(counted) if total < rows else ())


def _accept(
    oracle: Oracle,
    g: int,
    contents: Contents,
    start: int | None,
    size: int,
    number: int = 0,
    pick: PickRow | None = None,
) -> tuple[Settled, tuple[int, ...]]:
    """Check, log and count a batch. Returns the answer, and its numbers for a repeat."""
    part = part_of(oracle.tables, g, start, size, contents.rows)
    generator = oracle.tables.generators[g]
    is_late = pick is not None and (number not in oracle.tables.picks or pick.deadline <= oracle.now)
    if not part.rows:
        answer = number, g, 0, generator.samples, generator.batches, 0, int(is_late), contents.rows
        return settled_of(answer, is_duplicate=True), answer
    checked = check(oracle, g, part.rows, contents.measures, pick)
    seq = _count(oracle, g, contents, part, is_late, number, pick)
    noted = note(oracle, g, checked, number, part.rows, seq, "" if pick is None else pick.worker)
    generator, uncounted = oracle.tables.generators[g], contents.rows - part.rows
    answer = number, g, part.rows, generator.samples, generator.batches, seq, int(is_late), uncounted, *part.counted
    return settled_of(answer, copy=noted.copy, doubtful=noted.doubtful), answer


def _count(
    oracle: Oracle, g: int, contents: Contents, part: Part, is_late: bool, number: int, pick: PickRow | None
) -> int:
    """Log and count a batch. Returns its position in the log."""
    root, generator = root_of(oracle), oracle.tables.generators[g]
    seq, samples = generator.seq + 1, generator.samples + part.rows
    chain = chained(generator.chain, contents.digest)
    context = base64.b64decode(oracle.read(CONTEXTS, number) or "") if pick is not None and pick.has_context else b""
    size = generator.bytes + len(contents.body) + len(context)
    fields: dict[str, str | int | bytes] = {
        "pick": number,
        "rows": part.rows,
        "digest": contents.digest,
        "chain": chain,
    }
    fields |= {"bytes": size, "told": generator.told + part.rows, "body": contents.body}
    if root.keep_log:
        fields["record"] = "" if pick is None else oracle.read(RECORDS, number) or ""
    beside = {
        "indices": " ".join(map(str, part.indices)),
        "counted": " ".join(map(str, part.counted)),
        "prompts": "" if pick is None else pick.prompts,
        "context": context,
        "seconds": "" if pick is None else f"{max(0.0, oracle.now - pick.opened):.6f}",
    }
    oracle.log(g, seq, fields | {name: value for name, value in beside.items() if value})
    oracle.history.append(Counted(g, is_late, pick is not None, part.rows))
    due = generator.due_samples, generator.due_seq
    if is_due(samples, generator.due_samples, root.growth):
        due = samples, seq
    answered = generator.answered if pick is None else seq
    counted = {"samples": samples, "batches": generator.batches + 1, "seq": seq, "bytes": size, "chain": chain}
    generator = generator._replace(**counted, due_samples=due[0], due_seq=due[1], answered=answered)
    oracle.put(GENERATORS, g, generator)
    oracle.put(ROOT, "", root._replace(told=root.told + 1))
    for run in pairs(part.indices):
        mark_told(oracle, g, *run)
    # Other picks may have left, or returned, indices of a late batch, and of one told in place of a retracted one.
    if part.indices and (is_late or pick is None or root.retractions):
        forget_returned(oracle, g, part.indices)
    return seq
