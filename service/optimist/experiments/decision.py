"""Explains the decision of an experiment, and writes the text that latches it."""

from __future__ import annotations

import json

from optimist.experiments.anomalous import with_anomalies
from optimist.experiments.state import PolicyState
from optimist.experiments.suspects import Anomalous
from optimist_client.models import DecisionInfo


def explained_decision(state: PolicyState) -> DecisionInfo:
    """`state.decision` with its verdicts and the closest rival. A latched one keeps those that it was latched with."""
    return state.decision if state.is_decided else _explained(state, state.decision)


def _explained(state: PolicyState, decision: DecisionInfo) -> DecisionInfo:
    why = state.goal.explain(state.arms, state.stored.told)
    return decision.model_copy(update={"verdicts": why.verdicts, "closest": why.closest})


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


def latched_text(state: PolicyState, anomalous: Anomalous) -> str:
    """The JSON text that latches the live decision, with what is anomalous."""
    decision = with_anomalies(_explained(state, state.live_decision), anomalous).model_dump(mode="json")
    samples = [generator.samples + generator.retracted for generator in state.stored.generators]
    return json.dumps({**decision, _SAMPLES: samples})
