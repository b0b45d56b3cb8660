"""The decision of an experiment, latched in the store."""

from __future__ import annotations

from optimist.experiments.anomalies import NOTHING, Anomalous
from optimist.experiments.decision import anomalous_among, arrays_with_levels, latched_text
from optimist.experiments.state import PolicyState
from optimist.store import Store


async def read_anomalous(store: Store, state: PolicyState, *, of_decision: bool = False) -> Anomalous:
    """The anomalous batches of now; of_decision: among those that the estimates of the state are made of."""
    names = arrays_with_levels(state)
    if not names:
        return NOTHING
    stored = state.stored
    kept = await store.levels(state.config.name, [generator.ordinal for generator in stored.generators])
    return anomalous_among(state, names, kept, of_decision=of_decision)


async def with_decision_latched(store: Store, state: PolicyState) -> PolicyState:
    """The state, with a decision latched if the stopping rule is satisfied. The first call to latch one decides.

    It is provisional where it rests on batches on another scale. A decision from outdated estimates is not latched; it
    is made again from the newest ones.
    """
    name = state.config.name
    while state.would_stop and not state.is_decided:
        anomalous = await read_anomalous(store, state, of_decision=True)
        decided, stored = latched_text(state, anomalous), state.stored
        # By the digest of what it rests on: another process may have latched one, or estimates have changed meanwhile.
        await store.latch_decision(name, decided, stored.basis_digest, instance=stored.instance)
        stored = await store.state(name, stored, all_metrics=stored.has_all_metrics)
        state = PolicyState(state.experiment, stored, state)
        if not state.is_scored:
            break
    return state
