"""What an opened pick changes of a state, as Python predicts it: the same as opening.lua does.

Picks are planned one after the other on the state that the dispatcher has, each with those before it open.
"""

from __future__ import annotations

from optimist.experiments.settling import hand_back
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
    rest: list[Returned] = []
    if taken.again is None:
        generator.handed += taken.size + taken.left
    else:
        _, *rest = [part for part in generator.returned if part.pick == taken.again]
        generator.returned = [part for part in generator.returned if part.pick != taken.again]
    # A minus sign marks what this pick did not take when it was opened.
    if taken.left:
        hand_back(generator, Returned(-leased.number, taken.start + taken.size, taken.left))
    for part in rest:
        hand_back(generator, part._replace(pick=-leased.number))
