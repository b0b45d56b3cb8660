"""One step of `Store.exchange` at a time."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.store import AskGroup, Batch, ExperimentState, Measures, Opened, Opening, Settled, Store, StoreError


async def settle(
    store: Store,
    experiment: str,
    pick: int,
    digest: str,
    rows: int,
    body: bytes,
    *,
    nonce: str = "",
    measures: Measures | None = None,
    instance: str | None = None,
) -> Settled:
    """Settle one batch; raises what it comes to instead."""
    batch = Batch(pick, digest, rows, body, nonce, measures)
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
    last: str = "",
    instance: str | None = None,
) -> Opened | None:
    """Open picks whatever was settled since they were chosen; raises what it comes to instead."""
    opening = Opening(groups, lease_seconds, expected_rounds, last)
    opened = (await store.exchange(experiment, opening=opening, instance=instance)).opened
    if isinstance(opened, StoreError):
        raise opened
    return opened


def opening_for(state: ExperimentState, groups: Sequence[AskGroup], lease_seconds: float = 60.0) -> Opening:
    """Picks that are opened if the experiment is still exactly in this state."""
    return Opening(groups, lease_seconds, state.rounds, state.last, state.version, state.mark)
