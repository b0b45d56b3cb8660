"""Explains the decision of an experiment, and latches it."""

from __future__ import annotations

import json

from optimist.dispatch.anomalous import read_anomalous, with_anomalies
from optimist.dispatch.state import PolicyState
from optimist.dispatch.suspects import Anomalous
from optimist.store import Store
from optimist_client.models import DecisionInfo


def explained_decision(state: PolicyState) -> DecisionInfo:
    """`state.decision` with its verdicts and the closest rival. A latched one keeps those that it was latched with."""
    return state.decision if state.is_decided else _explained(state, state.decision)


def _explained(state: PolicyState, decision: DecisionInfo) -> DecisionInfo:
    why = state.goal.explain(state.arms, state.stored.told)
    return decision.model_copy(update={"verdicts": why.verdicts, "closest": why.closest})


async def with_decision_latched(store: Store, state: PolicyState) -> PolicyState:
    """The state, with a decision latched if the stopping rule is satisfied. The first call to latch one decides.

    It is provisional where it rests on batches on another scale.

    A decision from outdated estimates is not latched; it is made again from the newest ones.
    """
    name = state.config.name
    while state.would_stop and not state.is_decided:
        anomalous = await read_anomalous(store, state, of_decision=True)
        decided, stored = _latched(state, anomalous), state.stored
        await store.latch_decision(name, decided, stored.basis_digest, instance=stored.instance)
        state = PolicyState(state.experiment, await store.state(name, stored), state)
        if not state.is_scored:
            break
    return state


def decision_cost(state: PolicyState) -> float | None:
    """Cost of the samples that had been told when it was decided, at the present costs, as `PolicyState.cost`.

    None before the decision, and without costs.
    """
    if state.stored.decision is None or not state.costs:
        return None
    samples = json.loads(state.stored.decision)[_SAMPLES]
    # Generators that joined later have no samples here.
    told = zip(state.stored.generators, samples, strict=False)
    return sum(state.costs.get(generator.name, 0.0) * count for generator, count in told)


_SAMPLES = "samples"
"""What the stored decision has besides the fields of `DecisionInfo`: the samples told of each generator, by ordinal."""


def _latched(state: PolicyState, anomalous: Anomalous) -> str:
    decision = with_anomalies(_explained(state, state.live_decision), anomalous).model_dump(mode="json")
    samples = [generator.samples + generator.retracted for generator in state.stored.generators]
    return json.dumps({**decision, _SAMPLES: samples})
