"""What a look at the store would show after one's own steps: pure functions on looks, to be used under compare-and-set.

They follow exchange.lua, each step of it counting one version on: where the store's version is the one
foreseen, so is all that picks are made from. The mark stays the one from before: the script makes a new one, and tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimist.numerics.estimate import is_due
from optimist.store import AskGroup, Batch, GeneratorState, Look, NewPick, OpenPick


def after_settling(look: Look, batch: Batch, growth: float) -> Look | None:
    """The look after `batch` is settled; None where that is not known, as its pick is not on its way."""
    pick = next((pick for pick in look.open_picks if pick.number == batch.pick), None)
    if pick is None:
        return None
    generators = list(look.generators)
    state = generators[pick.generator]
    samples, seq = state.samples + batch.rows, state.seq + 1
    due = is_due(samples, state.due_samples, growth)
    generators[pick.generator] = replace(
        state,
        samples=samples,
        batches=state.batches + 1,
        seq=seq,
        due_samples=samples if due else state.due_samples,
        due_seq=seq if due else state.due_seq,
    )
    return replace(
        look,
        told=look.told + 1,
        generators=generators,
        open_picks=[other for other in look.open_picks if other is not pick],
        version=look.version + 1,
    )


def after_opening(look: Look, groups: Sequence[AskGroup], deadline: float) -> Look:
    """The look after the picks of `groups` are opened, leased until about `deadline`."""
    generators, opened = list(look.generators), list(look.open_picks)
    rounds = look.rounds
    for group in groups:
        for pick in group.picks:
            rounds += 1
            opened.append(
                OpenPick(rounds, pick.generator, group.request_id, pick.record, deadline, pick.nonce, pick.key)
            )
            if pick.start is not None:
                generators[pick.generator] = _handing_out(generators[pick.generator], pick)
    last = groups[-1].picks[-1].nonce or look.last
    return replace(look, rounds=rounds, generators=generators, open_picks=opened, version=look.version + 1, last=last)


def _handing_out(state: GeneratorState, pick: NewPick) -> GeneratorState:
    if pick.again is None:
        return replace(state, handed=state.handed + pick.size)
    return replace(state, returned=[part for part in state.returned if part.pick != pick.again])
