"""The report of an experiment: standings, regret, pick ratio and decision. No I/O."""

from __future__ import annotations

from optimist.dispatch.decision import decision_cost, explained_decision
from optimist.dispatch.hint import hint_of
from optimist.dispatch.mixtures import mixture_of
from optimist.dispatch.retractions import retractions_of
from optimist.dispatch.standings import aside_warnings, standing_of
from optimist.dispatch.state import PolicyState
from optimist.dispatch.suspects import standing_warnings, suspects_among
from optimist.dispatch.watched import WatchedEstimates, contrasts_from_best, watched_reports
from optimist.policies import Arm, contrast
from optimist.store import NotFound
from optimist_client.models import Contrast, Mixture, Regret, Report, Routes


def report_of(
    state: PolicyState,
    hint_after: int | None = None,
    *,
    watched: WatchedEstimates | None = None,
    mixture: Mixture | None = None,
    routes: Routes | None = None,
    explain: bool = True,
) -> Report:
    """Standings, regret, pick ratio and decision; from `hint_after` samples on, what would decide an undecided one.

    watched: the estimates of the watched metrics; without them there are no standings by these. mixture: the newest
    one by the metric that decides, where it is not the goal. routes: the newest table, where these are the goal.
    Without `explain` there are no contrasts, and a decision that is not latched has no verdicts, which take half a
    millisecond.
    """
    told, is_best = state.stored.counted, state.config.goal == "best"
    decision = explained_decision(state) if explain else state.decision
    scores = {arm.name: arm.estimate.score for arm in state.arms if arm.estimate is not None}
    metric = state.config.declared
    best = decision.best
    regret = None
    if is_best and told and best is not None and best in scores and len(scores) == len(state.arms):
        gaps = {name: abs(score - scores[best]) for name, score in scores.items()}
        total = sum(arm.batches * gaps[arm.name] for arm in state.arms)
        regret = Regret(total=total, average=total / told)
    chosen = next((arm.batches for arm in state.arms if arm.name == best and is_best), None)
    even = _even_samples(state) if decision.decided and is_best else None
    even_cost = _even_cost(state, even)
    return Report(
        experiment=state.config.name,
        goal=state.config.goal,
        metric=metric.name,
        title=metric.shown_title,
        lower_is_better=metric.lower_is_better,
        scale=metric.scale,
        offers=sorted(metric.offers),
        state=state.phase,
        ended=state.has_ended,
        decision=decision,
        standings=[
            standing_of(
                arm,
                generator,
                told,
                warnings=[*standing_warnings(generator, state.contenders), *aside_warnings(generator)],
                damage=generator.damage,
                cost=state.costs.get(arm.name),
            )
            for arm, generator in zip(state.arms, state.contenders, strict=True)
        ],
        samples=state.samples,
        rounds=state.stored.told,
        open_picks=len(state.open_picks),
        budget=state.budget,
        cost=state.cost if state.costs else None,
        max_cost=state.max_cost,
        uniform_cost=even_cost if even_cost is not None and even_cost > state.cost else None,
        decision_cost=decision_cost(state),
        regret=regret,
        optimal_pick_ratio=chosen / told if told and chosen is not None else None,
        uniform_samples=even if even is not None and even > state.samples else None,
        scored=state.is_scored,
        hint=hint_of(state, decision, hint_after),
        suspects=suspects_among(state.contenders),
        retractions=retractions_of(state.stored.generators),
        contrasts=contrasts_from_best(state.arms, state.config.delta, best) if explain else [],
        watched={} if watched is None else watched_reports(state, watched),
        mixture=mixture_of(state) if mixture is None else mixture,
        routes=routes,
    )


def contrast_of(
    state: PolicyState,
    generator: str,
    against: str,
    label: str = "",
    watched: WatchedEstimates | None = None,
) -> Contrast:
    """How much worse one generator is than another; both may be retired.

    watched: if given, they are compared by the watched metric of this label, else by the one that decides.
    Raises `NotFound` for an unknown name, else as `policies.contrast` does.
    """
    known = state.estimates if watched is None else [watched.of(g.ordinal, label)[1] for g in state.stored.generators]
    estimates = {generator.name: known[generator.ordinal] for generator in state.stored.generators}
    for name in (generator, against):
        if name not in estimates:
            raise NotFound(f"experiment {state.config.name!r} has no generator {name!r}")
    one, other = (Arm(name, estimates[name]) for name in (generator, against))
    return contrast(one, other, state.config.delta)


def _even_samples(state: PolicyState) -> int | None:
    return state.goal.stopping.uniform_samples(state.rivals, state.stored.told)


def _even_cost(state: PolicyState, samples: int | None) -> float | None:
    """Cost of that many samples in all, as many of each rival; None if a rival has no cost."""
    names = [arm.name for arm in state.rivals]
    if samples is None or not all(name in state.costs for name in names):
        return None
    return samples * sum(state.costs[name] for name in names) / len(names)
