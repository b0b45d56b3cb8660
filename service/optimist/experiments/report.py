"""The report of an experiment: standings, regret, pick ratio, decision. No I/O."""

from __future__ import annotations

from optimist.experiments.anomalies import (
    NOTHING,
    Anomalous,
    acceptances_of,
    anomalies_among,
    identical_so_far,
    retractions_of,
    standing_warnings,
)
from optimist.experiments.decision import decision_cost, explained_decision, hint_of, with_anomalies
from optimist.experiments.outlines import labels_of
from optimist.experiments.standings import (
    mixture_of,
    quarantine_warnings,
    watched_reports,
)
from optimist.experiments.state import PolicyState
from optimist.policies import Arm, Stopping, contrast
from optimist.policies.arms import rivals
from optimist.policies.reports import contrasts_from_best, even_cost, metric_facts, regret, standing_of
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import NotFound
from optimist_client.goals import find_goal
from optimist_client.models import Contrast, Mixture, Report, Routes


def report_of(
    state: PolicyState,
    hint_after: int | None = None,
    *,
    mixture: Mixture | None = None,
    routes: Routes | None = None,
    anomalous: Anomalous = NOTHING,
    explain: bool = True,
) -> Report:
    """Standings, regret, pick ratio and decision; from `hint_after` samples on, what would decide an undecided one.

    There are standings by the watched metrics where the state has their units. mixture: the newest one by the metric
    that decides, where it is not the goal. routes: the newest table, where these are the goal.
    anomalous: the batches on another scale. Without `explain` there are neither contrasts nor
    standings by other metrics, and a decision that is not latched has no verdicts, which take half a millisecond.
    """
    counted = state.stored.counted
    tags, note = labels_of(state.config, state.stored.controls)
    decision = explained_decision(state) if explain else state.decision
    if not state.is_decided:
        decision = with_anomalies(decision, anomalous)
    told, stopping = state.stored.told, state.goal.stopping
    contrasts = contrasts_from_best(state.arms, stopping, told, decision.best) if explain else []
    if not decision.warnings and (same := identical_so_far(contrasts)):
        decision = decision.model_copy(update={"warnings": same})
    names_one, best = find_goal(state.config.goal).names_one, decision.best
    against = rivals(state.arms)
    even = stopping.uniform_samples(against, told) if decision.decided and names_one else None
    costly = even_cost(against, even, state.costs)
    chosen = next((arm.batches for arm in state.arms if arm.name == best and names_one), None)
    return Report(
        **metric_facts(state.config.metric),
        experiment=state.config.name,
        goal=state.config.goal,
        decision=decision,
        standings=[
            standing_of(
                arm,
                counted,
                generator,
                warnings=[*standing_warnings(generator, state.contenders, anomalous), *quarantine_warnings(generator)],
                scoring_error=generator.primary.scoring_error,
                cost=state.costs.get(arm.name),
            )
            for arm, generator in zip(state.arms, state.contenders, strict=True)
        ],
        samples=state.samples,
        rounds=told,
        cost=state.cost if state.costs else None,
        uniform_cost=costly if costly is not None and costly > state.cost else None,
        uniform_samples=even if even is not None and even > state.samples else None,
        regret=regret(state.arms, best, counted) if names_one else None,
        optimal_pick_ratio=chosen / counted if counted and chosen is not None else None,
        contrasts=contrasts,
        tags=tags,
        note=note,
        state=state.phase,
        ended=state.has_ended,
        open_picks=len(state.open_picks),
        active=state.stored.changed_at,
        how=state.config.how,
        budget=state.budget,
        max_cost=state.max_cost,
        decision_cost=decision_cost(state),
        scored=state.is_scored,
        hint=hint_of(state, decision, hint_after),
        anomalies=anomalies_among(state.contenders, anomalous),
        retractions=retractions_of(state.stored.generators),
        acceptances=acceptances_of(state.stored.generators),
        watched=watched_reports(state) if explain else {},
        mixture=mixture_of(state) if mixture is None else mixture,
        routes=routes,
    )


def contrast_of(
    state: PolicyState,
    generator: str,
    against: str,
    label: str,
) -> Contrast:
    """The difference of two generators, of which both may be retired, and its error.

    label: of the metric by which they are compared.
    Raises `NotFound` for an unknown name, else as `policies.contrast` does.
    """
    known = state.estimates_by(label)
    estimates = {generator.name: known[generator.ordinal] for generator in state.stored.generators}
    for name in (generator, against):
        if name not in estimates:
            raise NotFound(f"experiment {state.config.name!r} has no generator {name!r}")
    one, other = (Arm(name, estimates[name]) for name in (generator, against))
    reach = Stopping(state.config.delta).threshold(len(rivals(state.arms)), state.stored.told)
    return contrast(one, other, reach, FEWEST_SAMPLES)
