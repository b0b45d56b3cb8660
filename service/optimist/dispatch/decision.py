"""Explains the decision of an experiment, and latches it."""

from __future__ import annotations

from optimist.dispatch.state import PolicyState
from optimist.policies import explained
from optimist.store import Store
from optimist_client.models import DecisionInfo


def explained_decision(state: PolicyState) -> DecisionInfo:
    """`state.decision` with its verdicts and the closest rival. A latched one keeps those that it was latched with."""
    return state.decision if state.is_decided else _explained(state, state.decision)


def _explained(state: PolicyState, decision: DecisionInfo) -> DecisionInfo:
    why = explained(state.policy, state.rivals, state.stored.told)
    return decision.model_copy(update={"verdicts": why.verdicts, "closest": why.closest})


async def with_decision_latched(store: Store, state: PolicyState) -> PolicyState:
    """The state, with a decision latched if the stopping rule is satisfied. The first call to latch one decides.

    A decision from outdated estimates is not latched; it is made again from the newest ones.
    """
    name = state.config.name
    while state.would_stop and not state.is_decided:
        decided, stored = _explained(state, state.live_decision).model_dump_json(), state.stored
        await store.latch_decision(name, decided, stored.estimates_digest, instance=stored.instance)
        state = PolicyState(state.experiment, await store.state(name, stored), state)
        if not state.is_scored:
            break
    return state
