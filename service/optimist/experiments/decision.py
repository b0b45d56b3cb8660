"""The decision of an experiment: text, verdicts, batches that put it in doubt, and a hint of what would end it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from optimist.anomalies.levels import Anomaly, Level, Levels
from optimist.anomalies.plausibility import levelled, reference_level, sized
from optimist.experiments.anomalies import NOTHING, Anomalies
from optimist.experiments.state import PolicyState
from optimist.policies import rivals
from optimist.policies.reports import finding, found_among, grouped
from optimist.records import GeneratorState, KeptLevel
from optimist_client.models import DecisionInfo
from optimist_client.models.cheapest import what_would_decide
from optimist_client.models.decisions import HardestRival, about


def arrays_with_levels(state: PolicyState) -> dict[int, str]:
    """The arrays that have levels, by the indices under which these are stored."""
    config = state.config
    if config.on_anomaly == "ignore":
        return {}
    metrics = list(config.metrics.values())
    names = levelled(metrics, state.experiment.columns)
    return {index: name for index, name in enumerate(sized(metrics)) if name in names}


@dataclass(frozen=True, slots=True)
class GeneratorLevels:
    """The levels of a generator, as it was when they were read."""

    generator: GeneratorState
    kept: Sequence[KeptLevel]
    arrays: Sequence[Levels]
    """In the order of `arrays_with_levels`."""

    @classmethod
    def of(cls, generator: GeneratorState, kept: Sequence[KeptLevel], names: Mapping[int, str]) -> GeneratorLevels:
        """By what is kept of these arrays (`arrays_with_levels`)."""
        arrays = [
            Levels(
                [Level(level.position, level.origin.rows, level.value) for level in kept if level.array == index],
                generator.batches,
                generator.accepted,
                generator.accepted_until,
            )
            for index in names
        ]
        return cls(generator, kept, arrays)


def anomalous_among(state: PolicyState, levels: Sequence[GeneratorLevels], *, of_decision: bool = False) -> Anomalies:
    """The anomalous batches by the levels of each generator; without levels nothing is anomalous.

    of_decision: among the batches that the estimates of the state are made of.
    """
    if not levels:
        return NOTHING
    names = arrays_with_levels(state).values()
    arrays = {name: [each.arrays[index] for each in levels] for index, name in enumerate(names)}
    anomalous = anomalous_in(state, arrays, of_decision=of_decision)
    if not anomalous.findings:
        return anomalous
    origins = {
        (ordinal, level.position): level.origin
        for ordinal, those in enumerate(levels)
        for level in those.kept
        if (ordinal, level.position) in anomalous.findings
    }
    return replace(anomalous, origins=origins)


def anomalous_in(state: PolicyState, arrays: Mapping[str, Sequence[Levels]], *, of_decision: bool = False) -> Anomalies:
    """The anomalous batches by the levels of each generator in each of these arrays, without their origins.

    of_decision: as of `anomalous_among`.
    """
    generators, experiment = state.stored.generators, state.experiment
    references = {
        name: reference_level(scale, experiment.columns[name]) for name, scale in experiment.scales.items() if scale > 0
    }
    contenders = {generator.ordinal for generator in state.contenders}

    def matters(anomaly: Anomaly) -> bool:
        generator = generators[anomaly.generator]
        is_used = not of_decision or state.goal.rests_on(generator, anomaly.position)
        return generator.ordinal in contenders and is_used

    anomalies = {name: [*filter(matters, those)] for name, those in found_among(arrays, references).items()}
    findings: dict[tuple[int, int], list[str]] = {}
    for name, those in anomalies.items():
        for anomaly in those:
            texts = findings.setdefault((anomaly.generator, anomaly.position), [])
            texts.append(f"is {finding(name, anomaly, len(arrays))}")
    groups = grouped(anomalies, [generator.name for generator in generators], len(arrays))
    return Anomalies(groups, findings=findings)


def with_anomalies(decision: DecisionInfo, anomalous: Anomalies) -> DecisionInfo:
    """A decision that is not latched, with what is anomalous now."""
    return decision.model_copy(update={"anomalies": anomalous.groups}) if anomalous.groups else decision


RECOMMENDED = "1% is recommended, because training a model again moves its FID by 1 to 2%"


def hint_of(state: PolicyState, decision: DecisionInfo, after: int | None) -> str | None:
    """A text that says what would end an undecided experiment of at least `after` samples; None if nothing is known."""
    if after is None or state.samples < after or decision.decided:
        return None
    if said := what_would_decide(decision.limits):
        return " ".join([f"Undecided after {state.samples:,} samples.", *said, *_budget(state)])
    bound = state.goal.deciding_tolerance(state.arms, state.looks)
    if decision.hardest is None and (bound is None or state.goal.mixture is None):
        return None
    said = [f"Undecided after {state.samples:,} samples."]
    if bound is not None:
        said.append(
            f"A tolerance of {_rounded_up(state, *bound)} would decide it now; it is set when an experiment is created "
            f"({RECOMMENDED})."
        )
    if decision.hardest is not None:
        said.append(_more(decision.hardest))
        said += _cost_of_more(state, decision.hardest)
    said += _with_tolerance(state)
    return " ".join([*said, *_budget(state)])


def _budget(state: PolicyState) -> list[str]:
    """A sentence on the budgets, or none."""
    if state.has_ended or state.max_cost is not None:
        return []
    texts = [budget.text for budget in state.budgets]
    return [f"Its budget is {' and '.join(texts)}." if texts else "A budget would end it undecided."]


def _more(hardest: HardestRival) -> str:
    if hardest.more_prompts_text:
        return f"{hardest.more_prompts_text}."
    if hardest.more_samples is None:
        return "How many more samples would decide it cannot be said: the difference may be too small."
    return f"{about(hardest.more_samples)} more samples would decide it."


def _cost_of_more(state: PolicyState, hardest: HardestRival) -> list[str]:
    """A sentence on what people's further scores would cost, or none."""
    if hardest.more_audits is None or not state.config.label_cost:
        return []
    each = state.config.label_cost * len(state.rivals)
    low, high = (float(f"{more * each:.2g}") for more in hardest.more_audits)
    return [f"People's scores would then cost {low:,g} to {high:,g} more."]


def _with_tolerance(state: PolicyState) -> list[str]:
    """A sentence, or none: the samples that a decision among many generators would take with the usual tolerance."""
    tolerant = state.goal.with_tolerance("1%")
    # From 10 generators on the best and its neighbours, such as checkpoints, are often too close to be told apart.
    if tolerant is None or not state.config.metric.positive or len(rivals(state.arms)) < 10:
        return []
    hardest = tolerant.explain(state.arms, state.looks).hardest
    if hardest is None or hardest.more_samples is None:
        return []
    more = about(hardest.more_samples).lower()
    return [f'Neighbours are nearly tied: with tolerance="1%" {more} more samples would decide it.']


def _rounded_up(state: PolicyState, tolerance: float, value: float) -> str:
    """The tolerance to two digits, as a share of this value where the metric allows it."""
    if state.config.metric.scale == "log":
        share = math.expm1(min(tolerance, 700.0))
    else:
        share = tolerance / value if value > 0.0 else math.inf
    is_share = state.config.metric.positive and share < 0.995
    number = 100.0 * share if is_share else tolerance
    step = 10.0 ** (math.floor(math.log10(number)) - 1) if number > 0.0 else 1.0
    text = f"{math.ceil(number / step * (1.0 + 1e-9)) * step:.2g}"
    return f"{text}%" if is_share else text


def explained_decision(state: PolicyState) -> DecisionInfo:
    """`state.decision` with its verdicts and the hardest rival; a latched one keeps the verdicts of then."""
    return state.decision if state.is_decided else _explained(state, state.decision)


def _explained(state: PolicyState, decision: DecisionInfo) -> DecisionInfo:
    why = state.goal.explain(state.arms, state.looks)
    return decision.model_copy(update={"verdicts": why.verdicts, "hardest": why.hardest, "limits": why.limits})


def decision_cost(state: PolicyState) -> float | None:
    """Cost of the samples that had been recorded when it was decided, at the present costs, as `PolicyState.cost`.

    None before the decision, and without costs.
    """
    if state.stored.decision is None or not state.costs:
        return None
    samples = json.loads(state.stored.decision)[_SAMPLES]
    # Generators that joined later have no samples here.
    told = zip(state.stored.generators, samples, strict=False)
    return sum(state.costs.get(generator.name, 0.0) * count for generator, count in told)


_SAMPLES = "samples"
"""The further field of a stored `DecisionInfo`: recorded samples of each generator, by ordinal."""


def latched_text(state: PolicyState, anomalous: Anomalies) -> str:
    """The JSON text that latches the live decision, with what is anomalous."""
    decision = with_anomalies(_explained(state, state.about_answers(state.live_decision)), anomalous).model_dump(
        mode="json"
    )
    samples = [generator.samples + generator.retracted for generator in state.stored.generators]
    return json.dumps({**decision, _SAMPLES: samples})
