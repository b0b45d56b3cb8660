"""Latches the decision of an experiment."""

from __future__ import annotations

from optimist.dispatch.state import PolicyState
from optimist.store import Store


async def with_decision_latched(store: Store, state: PolicyState) -> PolicyState:
    """The state, with a decision latched if the stopping rule is satisfied. The first call to latch one decides.

    A decision from outdated estimates is not latched; it is made again from the newest ones.
    """
    name = state.config.name
    while state.would_stop and not state.is_decided:
        decided, stored = state.live_decision.model_dump_json(), state.stored
        await store.latch_decision(name, decided, stored.estimates_digest, instance=stored.instance)
        state = PolicyState(state.experiment, await store.state(name, stored), state)
        if not state.is_scored:
            break
    return state
