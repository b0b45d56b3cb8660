"""The batches of an experiment that are on another scale than others, as reports and decisions name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimist.experiments.state import PolicyState
from optimist.experiments.suspects import Anomalous
from optimist.numerics.anomalies import Anomaly, Level, Levels
from optimist.numerics.plausibility import levelled, reference_level, sized
from optimist.policies.anomalous import finding, found_among, grouped
from optimist.records import KeptLevel
from optimist_client.models import DecisionInfo


def arrays_with_levels(state: PolicyState) -> dict[int, str]:
    """The arrays that have levels, by the places under which these are stored."""
    config = state.config
    if config.on_anomaly == "ignore":
        return {}
    metrics = list(config.metrics.values())
    names = levelled(metrics, state.experiment.columns)
    return {place: name for place, name in enumerate(sized(metrics)) if name in names}


def anomalous_among(
    state: PolicyState, names: Mapping[int, str], kept: Sequence[Sequence[KeptLevel]], *, of_decision: bool
) -> Anomalous:
    """What is anomalous by the kept levels of each generator, in the arrays `names` (`arrays_with_levels`).

    of_decision: among the batches that the estimates of the state are made of.
    """
    generators = state.stored.generators
    arrays = {
        name: [
            Levels(
                [Level(one.position, one.origin.rows, one.value) for one in those if one.array == place],
                generator.batches,
                generator.accepted,
                generator.accepted_until,
            )
            for generator, those in zip(generators, kept, strict=True)
        ]
        for place, name in names.items()
    }
    experiment = state.experiment
    references = {
        name: reference_level(scale, experiment.columns[name]) for name, scale in experiment.scales.items() if scale > 0
    }
    contenders = {generator.ordinal for generator in state.contenders}

    def matters(one: Anomaly) -> bool:
        generator = generators[one.generator]
        is_used = not of_decision or state.config.goal != "best" or one.position <= generator.estimate_seq
        return generator.ordinal in contenders and is_used

    found = {name: [*filter(matters, those)] for name, those in found_among(arrays, references).items()}
    findings: dict[tuple[int, int], list[str]] = {}
    for name, those in found.items():
        for one in those:
            findings.setdefault((one.generator, one.position), []).append(f"is {finding(name, one, len(names))}")
    return Anomalous(
        grouped(found, [generator.name for generator in generators], len(names)),
        {
            (ordinal, one.position): one.origin
            for ordinal, those in enumerate(kept)
            for one in those
            if (ordinal, one.position) in findings
        },
        findings,
    )


def with_anomalies(decision: DecisionInfo, anomalous: Anomalous) -> DecisionInfo:
    """A decision that is not latched, with what is anomalous now."""
    return decision.model_copy(update={"anomalies": anomalous.groups}) if anomalous.groups else decision
