"""Changes of a state by a tell and by a new pick, as Python predicts them: the same as settling.lua, accept.lua,
checking.lua and opening.lua do.

The dispatcher applies them to the state that it keeps. Picks are planned one after the other, each with those before it
open. A batch is predicted to count whole: only the store knows whether
its indices were recorded before, or whether it repeats another batch (`Exchanged.is_foreseen`, `Settled.copy`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from optimist.estimates.estimate import is_due
from optimist.records import (
    NAMED_COPIES,
    Copy,
    ExperimentState,
    GeneratorState,
    NewPick,
    OpenPick,
    Returned,
    joined,
    returned_limit,
)
from optimist_client.models import Pick


def end_pick(stored: ExperimentState, pick: Pick, leased: OpenPick, rows: int) -> None:
    """End an open pick by a batch of so many rows; the indices that it leaves are handed out again.

    leased: the pick as it is stored. With 0 rows it is given up, as give_up.lua does.
    """
    generator = stored.generators[leased.generator]
    del stored.open_picks[bisect_left(stored.open_picks, pick.number, key=attrgetter("number"))]
    generator.unanswered += not rows
    if pick.start is not None and rows < pick.size and generator.state != "retired":
        keep_returned(stored, generator, [*generator.returned, Returned(pick.start + rows, pick.size - rows)])


def open_pick(stored: ExperimentState, leased: OpenPick, new: NewPick) -> None:
    """Count the next pick as open; leased: the pick as it is stored, new: as the script takes it.

    Does not change the version: all picks that are opened together count as one change.
    """
    generator = stored.generators[new.generator]
    stored.rounds = leased.number
    stored.last = new.nonce
    stored.open_picks.append(leased)
    if (taken := new.part) is None:
        return
    rest = generator.returned[1:] if taken.again else generator.returned
    generator.handed += 0 if taken.again else taken.size + taken.left
    left = [Returned(taken.start + taken.size, taken.left)] if taken.left else []
    keep_returned(stored, generator, [*rest, *left])


def count_batch(stored: ExperimentState, generator: GeneratorState, rows: int, growth: float) -> None:
    """Count a batch of so many rows, all of them; growth: `rescore_growth` of the experiment."""
    generator.samples += rows
    generator.batches += 1
    generator.seq += 1
    if is_due(generator.samples, generator.due_samples, growth):
        generator.due_samples, generator.due_seq = generator.samples, generator.seq
    stored.told += 1
    # The scripts count a tell as one change, so that the store's version tells whether anything else has changed.
    stored.version += 1


def note_copy(stored: ExperimentState, generator: GeneratorState, copy: Copy) -> None:
    """Note a batch that repeats another one."""
    if sum(len(other.named_copies) for other in stored.generators) < NAMED_COPIES:
        generator.named_copies.append(copy)
    generator.copies += 1


def keep_returned(stored: ExperimentState, generator: GeneratorState, runs: Sequence[Returned]) -> None:
    """Keep these indices for later picks to take, in place of those that were returned before; as told.lua does."""
    generator.returned = joined(runs)[: returned_limit(len(stored.generators))]
