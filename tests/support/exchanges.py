"""One step of `Store.exchange` at a time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from optimist.records import (
    Artefact,
    AskGroup,
    ChainedExtent,
    Contents,
    ExperimentState,
    Measures,
    NewPick,
    Opened,
    Opening,
    PickBatch,
    Settled,
    Slice,
    StoreError,
    Unit,
    UnitState,
)
from optimist.store import ClaimSubject, Store

MODEL, ROUTE_TABLE = Artefact("model", label=""), Artefact("table", label="")
"""Of an experiment whose metric has the label ""."""


def new_pick(
    generator: int,
    record: str = "{}",
    start: int | None = None,
    size: int = 0,
    *,
    again: bool = False,
    left: int = 0,
    **given: Any,
) -> NewPick:
    """A pick with a nonce of its own, unless one is given; of a slice if it has a start."""
    part = None if start is None else Slice(start, size, again, left)
    return NewPick(generator, record, part=part, **{"nonce": uuid.uuid4().hex, **given})


async def nonce_of(store: Store, experiment: str, pick: int) -> str:
    """The nonce of a pick that is open, or whose end is remembered; "unknown" of any other."""
    commands = store._commands
    terms, settled = await commands.call_many(
        [("HGET", commands.key(experiment, part), pick) for part in ("terms", "settled")]
    )
    if terms is not None:
        return terms.decode().split(" ")[0]
    return "unknown" if settled is None else settled.decode().split("\t")[0]


async def settle(
    store: Store,
    experiment: str,
    pick: int,
    digest: str,
    rows: int,
    body: bytes,
    *,
    nonce: str | None = None,
    measures: Measures | None = None,
    instance: str | None = None,
) -> Settled:
    """Settle one batch, with the pick's own nonce unless one is given; raises what it comes to instead."""
    nonce = await nonce_of(store, experiment, pick) if nonce is None else nonce
    batch = PickBatch(pick, nonce, Contents(digest, rows, body, measures))
    [settled] = (await store.exchange(experiment, [batch], instance=instance)).settled
    if isinstance(settled, StoreError):
        raise settled
    return settled


async def open_picks(
    store: Store,
    experiment: str,
    expected_rounds: int,
    groups: Sequence[AskGroup],
    lease_seconds: float,
    *,
    last: str | None = None,
    instance: str | None = None,
) -> Opened | None:
    """Open picks whatever was settled since they were chosen; raises what it comes to instead."""
    if last is None:
        newest = await store._commands.call("HGET", store._commands.key(experiment, "counts"), "last")
        last = (newest or b"").decode()
    opening = Opening(groups, lease_seconds, expected_rounds, last)
    opened = (await store.exchange(experiment, opening=opening, instance=instance)).opened
    if isinstance(opened, StoreError):
        raise opened
    return opened


async def open_one(store: Store, experiment: str, pick: NewPick, lease_seconds: float = 60.0) -> int | None:
    """The number of a pick in an ask of its own; None where it cannot be opened."""
    rounds = (await store.state(experiment)).rounds
    opened = await open_picks(store, experiment, rounds, [AskGroup(f"ask {rounds}", [pick])], lease_seconds)
    return None if opened is None else rounds + 1


def opening_for(state: ExperimentState, groups: Sequence[AskGroup], lease_seconds: float = 60.0) -> Opening:
    """Picks that are opened if the experiment is still exactly in this state."""
    return Opening(groups, lease_seconds, state.rounds, state.last, state.version, state.state_token)


async def append_to(store: Store, *generators: int, rows: int = 5) -> None:
    """A batch for each of these generators of the experiment "x", that no pick asked for."""
    for generator in generators:
        seq = (await store.state("x")).generators[generator].seq
        await store.append("x", generator, f"key {seq}", Contents(f"digest {seq}", rows, bytes(10)))


async def claimed(
    store: Store, experiment: str, place: ClaimSubject, owner: str = "scorer", seconds: float = 60.0, label: str = ""
) -> str:
    """The token of a claim that nobody else has."""
    claim = await store.claim(experiment, place, owner, seconds, label)
    assert claim is not None
    return claim.token


async def units_of(store: Store, experiment: str, known: ExperimentState | None = None) -> dict[Unit, UnitState]:
    """The state of every generator by every metric."""
    stored = await store.state(experiment, known, all_metrics=True)
    return {(g.ordinal, label): unit for g in stored.generators for label, unit in g.units.items()}


async def put_modes(
    store: Store,
    experiment: str,
    generator: int,
    seq: int,
    payload: str,
    token: str,
    *,
    label: str = "",
    chain: str = "",
) -> bool:
    """Publish a generator's modes at a position of its log."""
    artefact, parts = Artefact("modes", label, generator), [ChainedExtent(generator, seq, 5, chain)]
    return await store.put_artefact(experiment, artefact, payload, token, parts)


async def modes_of(store: Store, experiment: str, generator: int, label: str = "") -> tuple[int, str] | None:
    """The log position and payload of a generator's newest modes."""
    found = await store.artefact(experiment, Artefact("modes", label, generator))
    return None if found is None else (found.parts[generator].seq, found.payload.decode())
