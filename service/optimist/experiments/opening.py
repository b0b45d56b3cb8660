"""What an opened pick changes of a state, as Python predicts it: the same as opening.lua does.

Picks are planned one after the other on the state that the dispatcher has, each with those before it open.
"""

from __future__ import annotations

from optimist.experiments.settling import keep_returned
from optimist.records import ExperimentState, NewPick, OpenPick, Returned


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
