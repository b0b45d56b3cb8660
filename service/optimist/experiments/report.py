"""The report of an experiment: standings by the metric that decides and by watched ones, regret, pick ratio, decision
and mixture. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimist.estimates.mixture import Mixture
from optimist.experiments.admission import needed_to_fit
from optimist.experiments.anomalies import (
    NOTHING,
    Anomalies,
    acceptances_of,
    anomalies_among,
    identical_so_far,
    retractions_of,
    standing_warnings,
)
from optimist.experiments.assignment import NO_LIMIT, Assignment
from optimist.experiments.decision import decision_cost, explained_decision, hint_of, with_anomalies
from optimist.experiments.goals.asked import positions_of
from optimist.experiments.goals.base import WithModel
from optimist.experiments.outlines import labels_of
from optimist.experiments.state import PolicyState
from optimist.policies import Arm, contrast, shown_mixture
from optimist.policies.agreement import agreement_among
from optimist.policies.arms import rivals
from optimist.policies.audits import Spent, said_of_judge, unanswered_text
from optimist.policies.gates import GateSides, gate_of
from optimist.policies.ranks import ranking_of
from optimist.policies.reports import contrasts_from_best, even_cost, metric_facts, regret, standing_of
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping
from optimist.records import (
    AuditsState,
    GeneratorState,
    NotFound,
    StoredArtefact,
    codec,
    extents,
    is_outgrown,
    ratings_of,
)
from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.goals import UNLIKE, find_goal
from optimist_client.metrics import Metric
from optimist_client.models import Contrast, Gate, Ranking, Report, WaitReason, WatchedReport

OLD = 0.25
"""The growth of the samples from which on a mixture is shown as stale."""


def watched_reports(state: PolicyState) -> dict[str, WatchedReport]:
    """The standings by each metric that does not decide, and whether it would, in the order of the config.

    Empty for a state without their units.
    """
    _, *metrics = state.config.metrics.items()
    is_read = all(label in generator.units for generator in state.stored.generators for label, _ in metrics)
    return {label: _report(state, label, metric) for label, metric in metrics} if is_read else {}


def _report(state: PolicyState, label: str, metric: Metric) -> WatchedReport:
    estimates, units = state.estimates_by(label), [generator.units[label] for generator in state.contenders]
    pairs = zip(state.arms, state.contenders, strict=True)
    arms = [replace(arm, estimate=estimates[generator.ordinal]) for arm, generator in pairs]
    stopping = Stopping(state.config.delta)  # without the tolerance, which is on the scale of the metric that decides
    is_fair = not state.config.asks.has_contexts
    decision = stopping.decide(rivals(arms), state.stored.told) if is_fair else state.decision
    return WatchedReport(
        **metric_facts(metric, arms),
        label=label,
        best=decision.best,
        confidence=decision.confidence,
        sure=decision.decided,
        standings=[
            standing_of(arm, state.stored.counted, generator, scoring_error=unit.scoring_error)
            for arm, generator, unit in zip(arms, state.contenders, units, strict=True)
        ],
        contrasts=contrasts_from_best(arms, stopping, state.stored.told, decision.best) if is_fair else [],
        ranks=_ranks_of(arms, metric, state),
        scored=_is_scored(state, metric, [unit.estimate_seq for unit in units]),
    )


def _ranks_of(arms: Sequence[Arm], metric: Metric, state: PolicyState) -> Ranking | None:
    """The ranks of these arms by a metric; None where they cannot be compared, or are too many."""
    compared = rivals(arms)
    is_scored = any(arm.estimate is not None for arm in compared)
    # All pairs of 20 generators take up to 50 ms.
    if state.config.asks.has_contexts or not is_scored or not 1 < len(compared) <= 20:
        return None
    return ranking_of(compared, state.config.delta, state.looks, metric.limits.get("values"))


def _is_scored(state: PolicyState, metric: Metric, positions: Sequence[int]) -> bool:
    """True if every estimate that is due and can be made has been made."""
    needed = 0 if any(positions) else needed_to_fit(metric, len(state.stored.active))
    if any(generator.samples < needed for generator in state.stored.active):
        return True
    return all(seq >= generator.due_seq for generator, seq in zip(state.contenders, positions, strict=True))


@dataclass(frozen=True)
class LoadedMixture:
    """A mixture as it is stored, and as it is read."""

    stored: StoredArtefact
    mixture: Mixture

    @classmethod
    def from_stored(cls, stored: StoredArtefact | None, earlier: LoadedMixture | None = None) -> LoadedMixture | None:
        """The stored one, None without one; `earlier` if that is the same, which is then not parsed again.

        Raises ValueError, KeyError or TypeError if it cannot be read.
        """
        if stored is None or (earlier is not None and earlier.stored.made == stored.made):
            return None if stored is None else earlier
        return cls(stored, codec.decode(Mixture, stored.payload))


def mixture_of(
    state: PolicyState, loaded: LoadedMixture | None = None, metric: Metric | None = None
) -> models.Mixture | None:
    """A mixture by this metric, None for the one that decides, as users see it; without `loaded` the one that picks are
    made from."""
    if loaded is None and state.goal.mixture is not None and state.stored.mixture is not None:
        loaded = LoadedMixture(state.stored.mixture, state.goal.mixture)
    if loaded is None:
        return None
    parts = loaded.stored.parts
    metric = metric or state.config.metric
    return shown_mixture(
        loaded.mixture,
        metric,
        state.goal.stopping,
        state.stored.told,
        experiment=state.config.name,
        label=metric.shown_label,
        positions=positions_of(parts, state.stored.generators),
        stale=is_outgrown(parts, extents(state.stored.mixable), OLD),
    )


def quarantine_warnings(generator: GeneratorState) -> list[str]:
    """A warning about the batches of a generator that cannot be read, if there are any."""
    if not generator.quarantined_count:
        return []
    positions = ", ".join(str(entry.seq) for entry in generator.quarantined[:3])
    return [f"batches that cannot be read are left out: {generator.quarantined_count}, as at position {positions}"]


def report_of(
    state: PolicyState,
    hint_after: int | None = None,
    *,
    mixture: models.Mixture | None = None,
    table: Any = None,
    anomalous: Anomalies = NOTHING,
    explain: bool = True,
    audits: AuditsState | None = None,
) -> Report:
    """Standings, regret, pick ratio and decision; from `hint_after` samples on, what would decide an undecided one.

    There are standings by the watched metrics where the state has their units. mixture: the newest one by the metric
    that decides, where it is not the goal. table: the newest one of a goal `WithModel`.
    anomalous: the batches on another scale. audits: what people were asked, and said. Without `explain` there are
    neither contrasts nor standings by other metrics, and a decision that is not latched has no verdicts, which take
    half a millisecond.
    """
    counted = state.stored.counted
    tags, note = labels_of(state.config, state.stored.controls)
    decision = explained_decision(state) if explain else state.decision
    if not state.is_decided:
        decision = with_anomalies(decision, anomalous)
    told, looks, stopping = state.stored.told, state.looks, state.goal.stopping
    is_compared = explain and not state.config.asks.has_contexts
    limited = bool(state.config.all_limits)
    against_best = None if limited else decision.best
    contrasts = contrasts_from_best(state.arms, stopping, looks, against_best) if is_compared else []
    if not decision.warnings and (same := identical_so_far(contrasts)):
        decision = decision.model_copy(update={"warnings": same})
    names_one, best = find_goal(state.config.goal).names_one and not limited, decision.best
    against = rivals(state.arms)
    even = stopping.uniform_samples(against, told) if decision.decided and names_one else None
    costly = even_cost(against, even, state.costs)
    chosen = next((arm.batches for arm in state.arms if arm.name == best and names_one), None)
    warnings = standing_warnings(state.contenders, anomalous)
    report = Report(
        **metric_facts(state.config.metric, state.arms),
        experiment=state.config.name,
        goal=state.config.goal,
        decision=decision,
        standings=[
            standing_of(
                arm,
                counted,
                generator,
                warnings=[*said, *quarantine_warnings(generator)],
                scoring_error=generator.primary.scoring_error,
                cost=_cost_of(state, generator),
            )
            for arm, generator, said in zip(state.arms, state.contenders, warnings, strict=True)
        ],
        samples=state.samples,
        rounds=told,
        cost=state.cost if state.costs else None,
        uniform_cost=costly if costly is not None and costly > state.cost else None,
        uniform_samples=even if even is not None and even > state.samples else None,
        regret=regret(state.arms, best, counted) if names_one else None,
        optimal_pick_ratio=chosen / counted if counted and chosen is not None else None,
        contrasts=contrasts,
        judge=said_of_audits(state, audits) if explain else [],
        ranks=_ranks_of(state.arms, state.config.metric, state) if explain else None,
        tags=tags,
        note=note,
        state=state.phase,
        waits_for=waits_for(state),
        ended=state.has_ended,
        open_picks=len(state.open_picks),
        active=state.stored.changed_at,
        how=state.config.how,
        budget=state.budget,
        max_cost=state.max_cost,
        spent=next((budget.text for budget in state.budgets if budget.left <= 0), None),
        decision_cost=decision_cost(state),
        scored=state.is_scored,
        hint=hint_of(state, decision, hint_after),
        anomalies=anomalies_among(state.contenders, anomalous),
        retractions=retractions_of(state.stored.generators),
        acceptances=acceptances_of(state.stored.generators),
        watched=watched_reports(state) if explain else {},
        mixture=mixture_of(state) if mixture is None else mixture,
    )
    return state.goal.reported(report, table) if isinstance(state.goal, WithModel) and table is not None else report


def said_of_audits(state: PolicyState, audits: AuditsState | None) -> list[str]:
    """Sentences on the worth of the judge, what people cost, the agreement of raters, and audits without an answer.

    audits: None in memory, where each sample has one score.
    """
    config, spent = state.config, None
    if config.label_cost is not None:
        means = [one.audited for one in state.estimates if one is not None and one.audited is not None]
        scores = sum(len(one.audits) for one in means) if audits is None else len(ratings_of(audits.audits.values()))
        costs = [state.costs.get(each.name, math.nan) for each in state.contenders]
        per_sample = sum(costs) / len(costs)
        of_samples = None if state.unpriced else state.cost
        spent = Spent(scores, config.label_cost, of_samples, None if math.isnan(per_sample) else per_sample)
    said = said_of_judge(rivals(state.arms), spent)
    if audits is None:
        return [*said]
    agreement = agreement_among(ratings_of(audits.audits.values()), state.config.delta)
    return [*said, *agreement.sentences, *unanswered_text(audits.unanswered)]


def _cost_of(state: PolicyState, generator: GeneratorState) -> float | None:
    """The cost of a sample of a generator, as it was given, or as it is measured; None where it is not known."""
    if state.config.cost_metric is None:
        return state.costs.get(generator.name)
    measured = state.estimates_by(state.config.cost_metric)[generator.ordinal]
    return None if measured is None else measured.score


def check_compared(state: PolicyState) -> None:
    """Raise FixError where generators are not compared by their means: each had prompts of its own."""
    if state.config.asks.has_contexts:
        raise FixError(f"no contrast of {state.config.name!r}. {UNLIKE}")


def gate_on(state: PolicyState, candidate: str, baseline: str, margins: Mapping[str, float | str]) -> Gate:
    """The answer whether a generator is at least as good as another one, but for these margins by the labels of
    metrics.

    Both may be retired. Raises as `contrast_of` and `policies.gates.gate_of` do.
    """
    check_compared(state)
    indices = [_ordinal(state, name) for name in (candidate, baseline)]
    compared: dict[str, GateSides] = {}
    for label, metric in state.config.metrics.items():
        estimates = state.estimates_by(label)
        compared[label] = GateSides(metric, *(estimates[index] for index in indices))
    return gate_of(candidate, baseline, compared, margins, state.config.delta, state.looks)


def _ordinal(state: PolicyState, name: str) -> int:
    """The ordinal of a generator, which may be retired. Raises `NotFound`."""
    ordinal = next((generator.ordinal for generator in state.stored.generators if generator.name == name), None)
    if ordinal is None:
        raise NotFound(f"experiment {state.config.name!r} has no generator {name!r}")
    return ordinal


def contrast_of(state: PolicyState, generator: str, against: str, label: str) -> Contrast:
    """The difference of two generators, of which both may be retired, and its error.

    label: of the metric by which they are compared.
    Raises `NotFound` for an unknown name, FixError where asks bring contexts, else as `policies.contrast` does.
    """
    check_compared(state)
    estimates = state.estimates_by(label)
    arm, base = (Arm(name, estimates[_ordinal(state, name)]) for name in (generator, against))
    reach = Stopping(state.config.delta).threshold(len(rivals(state.arms)), state.looks)
    return contrast(arm, base, reach, FEWEST_SAMPLES)


def waits_for(state: PolicyState) -> WaitReason | None:
    """The wait of asks now, whichever worker asks."""
    if state.has_ended:
        return None
    return Assignment(state, NO_LIMIT).lacking() or state.waits_for(state.goal.pending(state.stored))
