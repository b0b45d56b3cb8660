"""Picks: opened, renewed, expired, given up; and what is answered for one that has ended."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from optimist.records import Conflict, Copy, Gone, NotFound, Retracted, Settled
from tests.oracle.oracle import Oracle
from tests.oracle.rows import (
    CONTEXTS,
    CONTROLS,
    EXPIRED,
    GENERATORS,
    PICKS,
    RECORDS,
    ROOT,
    SETTLED,
    WORKERS,
    EndRow,
    PickRow,
)
from tests.oracle.tables import Tables
from tests.oracle.transitions.checking import is_retracted
from tests.oracle.transitions.controls import STOPPED, root_of
from tests.oracle.transitions.indices import add_run, hand_back, joined, put_returned, returned_by


class Room(NamedTuple):
    """How many picks may be open at once."""

    experiment: int
    worker: int
    """By each worker that is named."""
    key: int
    """By each access key."""


class Ask(NamedTuple):
    """An ask. request: a repeated ask is recognised by it, as long as one of its picks is open."""

    request: str
    nonces: tuple[str, ...]
    """A random name, never used before, for each pick that it may get."""
    lease: float
    """Seconds for which its picks count as open."""
    room: Room
    worker: str = ""
    key: str = ""
    has_contexts: bool = False
    """Whether it brings prompts: only the same request gets picks again then."""


class Chosen(NamedTuple):
    """What the next pick samples, and how many rows its batch may have; 0 as `most` means no limit."""

    generator: int
    size: int
    least: int = 1
    most: int = 0
    is_fresh: bool = False
    """Whether it takes indices that no pick has had, though some were returned."""


class Described(NamedTuple):
    """What a pick says. asked, prompts: as in `PickRow`. context: of the pick, "" for none."""

    record: str
    asked: str = ""
    prompts: str = ""
    context: str = ""


class Chooser(Protocol):
    """Whoever chooses picks: the policy, the budgets and the stopping rule, by the tables of a oracle alone."""

    def is_spent(self, oracle: Oracle) -> bool:
        """Whether a budget is used up, so that no picks are opened any more."""
        ...

    def choose(self, oracle: Oracle, number: int, place: int) -> Chosen | None:
        """The choice for the pick of this number, at this place of its ask; None where none may be opened now: a budget
        leaves nothing, no generator is able, or the stopping rule waits for picks that are open."""
        ...

    def describe(self, oracle: Oracle, number: int, pick: PickRow) -> Described:
        """What this pick says, once its indices are known."""
        ...


class Asked(NamedTuple):
    """The answer to an ask: the numbers of its picks, and whether no more picks are opened."""

    numbers: tuple[int, ...]
    has_ended: bool = False


def expire(oracle: Oracle) -> None:
    """End the leases that ran out."""
    for number, pick in sorted(oracle.tables.picks.items()):
        if pick.deadline <= oracle.now:
            oracle.put(PICKS, number, None)
            oracle.put(EXPIRED, number, pick)
            _count_unanswered(oracle, pick, 1)
            hand_back(oracle, pick)
    for number in oracle.tables[RECORDS].keys() - oracle.tables.picks.keys() - oracle.tables[EXPIRED].keys():
        oracle.put(RECORDS, number, None)
        oracle.put(CONTEXTS, number, None)


def ask(oracle: Oracle, asked: Ask, chooser: Chooser) -> Asked:
    """The open picks of this request, or of its worker, and new ones as far as there is room."""
    root, tables = root_of(oracle), oracle.tables
    expire(oracle)
    if root.decision is not None or STOPPED in tables[CONTROLS] or chooser.is_spent(oracle):
        return Asked((), has_ended=True)
    numbers = owned(tables, asked)
    if numbers:  # whoever asks again is alive
        renew(oracle, numbers, asked.lease)
    if any(tables.picks[number].request == asked.request for number in numbers):
        return Asked(tuple(numbers))
    for place in range(len(numbers), len(asked.nonces)):
        number = root_of(oracle).rounds + 1
        chosen = chooser.choose(oracle, number, place) if _has_room(tables, asked) else None
        if chosen is None:
            break
        open_pick(oracle, number, asked, asked.nonces[place], chosen, chooser)
        numbers.append(number)
    return Asked(tuple(numbers))


def owned(tables: Tables, asked: Ask) -> list[int]:
    """The open picks that an ask gets again, ascending."""
    found = set(tables.of_request.get(asked.request, ()))
    if asked.worker and not asked.has_contexts:
        found.update(tables.of_worker.get(asked.worker, ()))
    return sorted(found)[: len(asked.nonces)]


def _has_room(tables: Tables, asked: Ask) -> bool:
    most = asked.room
    return (
        len(tables.picks) < most.experiment
        and (not asked.worker or len(tables.of_worker.get(asked.worker, ())) < most.worker)
        and tables.of_key[asked.key] < most.key
    )


def open_pick(oracle: Oracle, number: int, asked: Ask, nonce: str, chosen: Chosen, chooser: Chooser) -> None:
    """Open the next pick: of returned indices first, else where the sequence of its generator goes on."""
    tables, root, g, size, start = oracle.tables, root_of(oracle), chosen.generator, chosen.size, None
    generator = tables.generators[g]
    if root.batch_size is not None:
        runs = list(returned_by(tables, g))
        if runs and not chosen.is_fresh:
            start, whole, *rest = runs
            size = min(size, whole)
            left: list[int] = []
            add_run(left, start + size, whole - size)
            put_returned(oracle, g, [*left, *rest])
        else:
            # The next pick begins at a multiple of the batch size, whatever this one takes.
            start, over = generator.handed, -size % root.batch_size
            oracle.put(GENERATORS, g, generator._replace(handed=start + size + over))
            if over:
                put_returned(oracle, g, joined(runs, (start + size, over)))
    deadline = oracle.now + asked.lease
    pick = PickRow(
        *(
            g,
            nonce,
            asked.request,
            asked.worker,
            asked.key,
            start,
            size,
            chosen.least,
            chosen.most,
            oracle.now,
            deadline,
        )
    )
    said = chooser.describe(oracle, number, pick)
    if said.asked or said.prompts or said.context:
        pick = pick._replace(asked=said.asked, prompts=said.prompts, has_context=bool(said.context))
    oracle.put(PICKS, number, pick)
    oracle.put(RECORDS, number, said.record)
    if said.context:
        oracle.put(CONTEXTS, number, said.context)
    count_for(oracle, asked.worker, 1)
    oracle.put(ROOT, "", root._replace(rounds=number))


def renew(oracle: Oracle, numbers: list[int], seconds: float) -> list[int]:
    """Those of these picks that are under lease, which lasts at least so many seconds from now."""
    root_of(oracle)
    picks = oracle.tables.picks
    leased = [number for number in numbers if number in picks and picks[number].deadline > oracle.now]
    for number in leased:
        pick = picks[number]
        if pick.deadline < oracle.now + seconds:
            oracle.put(PICKS, number, pick._replace(deadline=oracle.now + seconds))
    return leased


def give_up(oracle: Oracle, number: int, reason: str, nonce: str = "") -> None:
    """End a pick without a batch; idempotent. nonce: the pick's; "": whichever pick has the number.

    Raises Conflict if it was told, Gone if its end is no longer remembered, or if Redis has lost the pick, NotFound if
    it was never opened.
    """
    pick = find_pick(oracle, number)
    if pick is None:
        recall(oracle, number, "", nonce)
    elif nonce not in ("", pick.nonce):
        raise lost(number)
    else:
        end_pick(oracle, number, pick, 0, EndRow(pick.nonce, "", reason=reason))


def find_pick(oracle: Oracle, number: int) -> PickRow | None:
    """The pick of this number, if it may be told: under lease, or expired."""
    if number in oracle.tables.picks:
        return oracle.tables.picks[number]
    return oracle.read(EXPIRED, number)


def end_pick(oracle: Oracle, number: int, pick: PickRow, rows: int, end: EndRow) -> None:
    """End a pick by a batch of so many rows, and remember how. The indices that it leaves are handed out again; those
    of a lease that ran out were returned then."""
    is_leased = number in oracle.tables.picks
    oracle.put(PICKS if is_leased else EXPIRED, number, None)
    oracle.put(RECORDS, number, None)
    if pick.has_context:
        oracle.put(CONTEXTS, number, None)
    if is_leased:
        hand_back(oracle, pick, rows)
    if is_leased != bool(rows):
        _count_unanswered(oracle, pick, 1 if is_leased else -1)
    oracle.put(SETTLED, number, end)


def _count_unanswered(oracle: Oracle, pick: PickRow, by: int) -> None:
    """Count a pick that ended without a batch, or with -1 one that was told all the same."""
    generator = oracle.tables.generators[pick.generator]
    oracle.put(GENERATORS, pick.generator, generator._replace(unanswered=generator.unanswered + by))
    count_for(oracle, pick.worker, -by)


def count_for(oracle: Oracle, worker: str, by: int) -> None:
    """Count batches that a worker may hand in, or with less than 0 will not, where these are limited."""
    if worker and root_of(oracle).max_batches_per_worker is not None:
        oracle.put(WORKERS, worker, (oracle.read(WORKERS, worker) or 0) + by)


def lost(number: int, how: str = " with this nonce") -> Gone:
    """The error for a number, or one with this nonce, that no pick has: it is wrong, or Redis has lost the pick."""
    return Gone(f"no pick {number} was given{how}, or Redis has lost it")


def repeated(oracle: Oracle, end: EndRow, digest: str, conflict: str) -> Settled:
    """The first answer again for a batch that is told again, by the digest of the one that is told now.

    Raises Retracted where it counts no longer, Conflict where another batch was told.
    """
    is_same, settled = end.digest == digest, settled_of(end.answer, is_duplicate=True)
    if settled.seq and is_retracted(oracle.tables, settled.generator, settled.seq):
        batch = "the batch" if is_same else "another batch"
        raise Retracted(f"{batch} was accepted at position {settled.seq} and retracted since: it no longer counts")
    if not is_same:
        raise Conflict(conflict)
    return settled


def recall(oracle: Oracle, number: int, digest: str, nonce: str) -> Settled | None:
    """The answer for a pick that is no longer open: the first answer to its tell, None to its give-up.

    digest: of the batch that is told now, "" where the pick is given up; nonce may be "" only then.
    """
    end = oracle.read(SETTLED, number)
    if end is None:
        if 0 < number <= root_of(oracle).rounds:
            raise Gone(f"pick {number} ended too long ago: its end is no longer known")
        raise lost(number, "") if nonce else NotFound(f"pick {number} was never made")
    # Equal digests do not show that it is the same pick: a batch may be a single 0 or 1.
    if end.nonce != nonce and (nonce or digest):
        raise lost(number)
    if end.digest:
        return repeated(oracle, end, digest, f"pick {number} was told {'with another batch' if digest else 'already'}")
    if digest:
        raise Conflict(f"pick {number} was given up: {end.reason}")
    return None


def settled_of(
    answer: tuple[int, ...], *, is_duplicate: bool = False, copy: Copy | None = None, doubtful: bool = False
) -> Settled:
    """The answer of these numbers, as `EndRow` has them."""
    pick, generator, rows, samples, batches, seq, late, uncounted = answer[:8]
    counts = pick, generator, rows, samples, batches, seq
    return Settled(*counts, bool(late), is_duplicate, uncounted, copy=copy, doubtful=doubtful)
