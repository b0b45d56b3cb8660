"""Bugs to be planted, by name. The simulator must find each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from optimist.dispatch import writer
from optimist.dispatch.writer import Command, Steps, Writer
from optimist.experiments.drafts import Draft
from optimist.experiments.tables import Tables
from optimist.experiments.transitions import batches, picks, retracting
from optimist.experiments.transitions.indices import hand_back
from optimist.experiments.transitions.levels import Levels
from optimist.records import StoreError
from optimist.records.commits import Answer, Request
from optimist.records.tables import BLENDS, RECORDS, ROOT, SETTLED, TOLD, Table
from tests.support.memory_store import MemoryStore


def nothing(*_: Any, **__: Any) -> None:
    return None


def never_put(patch: pytest.MonkeyPatch, table: Table[Any, Any], *, only_removals: bool = False) -> None:
    put = Draft.put

    def forgetful(self: Draft, other: Table[Any, Any], key: Any, row: Any) -> None:
        if other is not table or (only_removals and row is not None):
            put(self, other, key, row)

    patch.setattr(Draft, "put", forgetful)


def only_sequences_are_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_is_same", lambda self, request: self.contents.head.seq == request.head.seq)


def returned_indices_are_not_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "forget_returned", nothing)


def late_batches_hand_back_again(patch: pytest.MonkeyPatch) -> None:
    end = picks.end_pick

    def twice(draft: Draft, number: int, pick: Any, rows: int, end_row: Any) -> None:
        end(draft, number, pick, rows, end_row)
        hand_back(draft, pick)

    patch.setattr(batches, "end_pick", twice)
    patch.setattr("optimist.experiments.transitions.indices.untold", lambda tables, g, start, size: [start, size])


def ends_are_not_remembered(patch: pytest.MonkeyPatch) -> None:
    never_put(patch, SETTLED)


def nonces_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    find = batches.find_pick

    def tell(draft: Draft, batch: Any) -> Any:
        pick = find(draft, batch.pick)
        return real(draft, batch if pick is None else replace(batch, nonce=pick.nonce))

    real = batches.tell
    patch.setattr(batches, "tell", tell)


def undo_forgets_told_indices(patch: pytest.MonkeyPatch) -> None:
    def roll_back(self: Tables, to: int = 0) -> None:
        while len(self.undo) > to:
            change = self.undo.pop()
            if change.table is not TOLD:
                self.put(*change)
                self.undo.pop()

    patch.setattr(Tables, "roll_back", roll_back)


def absent_values_are_not_guarded(patch: pytest.MonkeyPatch) -> None:
    def unguarded(self: Draft, table: Any, key: Any) -> Any:
        return self.puts.get((table, key)) or self._known.get((table, key))

    patch.setattr(Draft, "read_or_absent", unguarded)


def values_are_kept_when_others_commit(patch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, Any] = {}
    read = Draft.read

    def stale(self: Draft, table: Any, key: Any) -> Any:
        if table is SETTLED and (table, key) not in self.puts and (table, key) in kept:
            return kept[table, key]
        kept[table, key] = found = read(self, table, key)
        return found

    patch.setattr(Draft, "read", stale)


def refusals_are_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    run = Writer.run

    def hasty(self: Writer, commands: Sequence[Command]) -> Steps:
        if self.head is not None:
            draft = Draft(self.tables, self.now, self._kept)
            replies, missing = writer._decided(draft, commands)
            is_empty = not (missing or self.tables.undo or draft.puts)
            self.tables.roll_back()
            if is_empty:
                return replies
        return (yield from run(self, commands))

    patch.setattr(Writer, "run", hasty)


def catching_up_skips_a_step(patch: pytest.MonkeyPatch) -> None:
    catch_up = Writer._catch_up

    def skipping(self: Writer, answer: Answer) -> None:
        missed = answer.missed or ()
        catch_up(self, replace(answer, missed=missed[1:] if len(missed) > 2 else missed))

    patch.setattr(Writer, "_catch_up", skipping)


def decisions_are_not_guarded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "expects", lambda self, table, key, value: self._known.get((table, key), value) == value)


def time_is_a_process_s_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Writer, "now", property(lambda self: self.clock() + self._offset + 3.0))


def steps_have_no_names(patch: pytest.MonkeyPatch) -> None:
    made = Writer._request

    def nameless(self: Writer, draft: Draft, missing: Any, who: str) -> Request:
        request = made(self, draft, missing, who)
        text = f"{request.head.chain} {request.entry}"
        return replace(request, chain=request.chain and hashlib.sha1(text.encode()).hexdigest())

    patch.setattr(Writer, "_request", nameless)


def retractions_leave_estimates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retracting, "forget_made", nothing)


def logs_may_be_trimmed_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "read_and_hold", Draft.read)


def levels_do_not_follow_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Levels, "follow", nothing)


def records_of_ended_picks_stay(patch: pytest.MonkeyPatch) -> None:
    never_put(patch, RECORDS, only_removals=True)


def batches_are_refused_too_late(patch: pytest.MonkeyPatch) -> None:
    check = batches.check

    def late(draft: Draft, *given: Any) -> Any:
        root = draft.tables.root
        try:
            return check(draft, *given)
        except StoreError:
            draft.put(ROOT, "", root and root._replace(told=root.told + 1))
            raise

    patch.setattr(batches, "check", late)


def deletion_leaves_logs(patch: pytest.MonkeyPatch) -> None:
    deletion = writer._deletion
    patch.setattr(writer, "_deletion", lambda draft: (w for w in deletion(draft) if not w.part.startswith("log:")))


def what_was_kept_outlives_a_loss(patch: pytest.MonkeyPatch) -> None:
    load = Writer._load

    def keeping(self: Writer) -> Any:
        kept = dict(self._kept)
        yield from load(self)
        self._kept |= kept

    patch.setattr(Writer, "_load", keeping)


def retracted_indices_stay_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retracting, "unmark_told", nothing)


def shares_are_handed_out_again(patch: pytest.MonkeyPatch) -> None:
    never_put(patch, BLENDS)


def a_step_frees_if_a_part_of_it_does(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "grows", property(lambda self: False, nothing), raising=False)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    only_sequences_are_compared,
    returned_indices_are_not_forgotten,
    late_batches_hand_back_again,
    ends_are_not_remembered,
    nonces_are_not_compared,
    undo_forgets_told_indices,
    absent_values_are_not_guarded,
    values_are_kept_when_others_commit,
    refusals_are_not_confirmed,
    catching_up_skips_a_step,
    decisions_are_not_guarded,
    time_is_a_process_s_own,
    steps_have_no_names,
    retractions_leave_estimates,
    logs_may_be_trimmed_meanwhile,
    levels_do_not_follow_others,
    records_of_ended_picks_stay,
    batches_are_refused_too_late,
    deletion_leaves_logs,
    what_was_kept_outlives_a_loss,
    retracted_indices_stay_told,
    shares_are_handed_out_again,
    a_step_frees_if_a_part_of_it_does,
)
