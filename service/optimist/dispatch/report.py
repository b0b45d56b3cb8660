"""The report of an experiment: standings, regret, pick ratio and decision. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimist.dispatch.decision import explained_decision
from optimist.dispatch.hint import hint_of
from optimist.dispatch.retractions import retractions_of
from optimist.dispatch.state import PolicyState
from optimist.dispatch.suspects import standing_warnings, suspects_among
from optimist.policies import Arm, contrast, described
from optimist.store import GeneratorState, NotFound
from optimist_client.models import Contrast, Regret, Report, Standing


def report_of(state: PolicyState, hint_after: int | None = None, *, explain: bool = True) -> Report:
    """Standings, regret, pick ratio and decision; from `hint_after` samples on, what would decide an undecided one.

    Without `explain` there are no contrasts, and a decision that is not latched has no verdicts, which take half a
    millisecond.
    """
    told = state.stored.counted
    decision = explained_decision(state) if explain else state.decision
    scores = {arm.name: arm.estimate.score for arm in state.arms if arm.estimate is not None}
    metric = state.config.declared
    best = decision.best
    regret = None
    if told and best is not None and best in scores and len(scores) == len(state.arms):
        gaps = {name: abs(score - scores[best]) for name, score in scores.items()}
        total = sum(arm.batches * gaps[arm.name] for arm in state.arms)
        regret = Regret(total=total, average=total / told)
    chosen = next((arm.batches for arm in state.arms if arm.name == best), None)
    even = state.policy.stopping.uniform_samples(state.rivals, state.stored.told) if decision.decided else None
    return Report(
        experiment=state.config.name,
        metric=metric.name,
        title=metric.title,
        lower_is_better=metric.lower_is_better,
        scale=metric.scale,
        offers=sorted(metric.offers),
        state=state.phase,
        ended=state.has_ended,
        decision=decision,
        standings=[
            _standing(arm, told, g, state.costs.get(arm.name), standing_warnings(g, state.contenders))
            for arm, g in zip(state.arms, state.contenders, strict=True)
        ],
        samples=state.samples,
        rounds=state.stored.told,
        open_picks=len(state.open_picks),
        budget=state.budget,
        cost=state.cost if state.costs else None,
        max_cost=state.max_cost,
        regret=regret,
        optimal_pick_ratio=chosen / told if told and chosen is not None else None,
        uniform_samples=even if even is not None and even > state.samples else None,
        scored=state.is_scored,
        hint=hint_of(state, decision, hint_after),
        suspects=suspects_among(state.contenders),
        retractions=retractions_of(state.stored.generators),
        contrasts=_contrasts(state, best) if explain else [],
    )


def contrast_of(state: PolicyState, generator: str, against: str) -> Contrast:
    """How much worse one generator is than another; both may be retired.

    Raises `NotFound` for an unknown name, else as `policies.contrast` does.
    """
    estimates = {known.name: state.estimates[known.ordinal] for known in state.stored.generators}
    for name in (generator, against):
        if name not in estimates:
            raise NotFound(f"experiment {state.config.name!r} has no generator {name!r}")
    one, other = (Arm(name, estimates[name]) for name in (generator, against))
    return contrast(one, other, state.config.delta)


def _contrasts(state: PolicyState, best: str | None) -> list[Contrast]:
    arms = [arm for arm in state.arms if arm.estimate is not None and arm.estimate.stopping_error is not None]
    return described(arms, state.config.delta, best) if arms else []


def _standing(
    arm: Arm, told: int, generator: GeneratorState, cost: float | None, suspicions: Sequence[str]
) -> Standing:
    estimate = arm.estimate
    error = lower = upper = bracket = None
    if estimate is not None:
        bracket = estimate.bracket and (estimate.natural(estimate.bracket[0]), estimate.natural(estimate.bracket[1]))
        lower, upper = (
            _finite(estimate.natural(estimate.lower)),
            _finite(estimate.natural(estimate.upper)),
        )
        if estimate.stopping_error is not None:
            # On the log scale an error is relative: d exp(v) = exp(v) dv.
            error = estimate.stopping_error * (estimate.score if estimate.scale == "log" else 1.0)
    warnings = list(estimate.warnings) if estimate else []
    warnings += suspicions
    if generator.aside_count:
        positions = ", ".join(str(entry.seq) for entry in generator.aside[:3])
        warnings.append(
            f"batches that cannot be read are left out: {generator.aside_count}, as at position {positions}"
        )
    if generator.damage:
        warnings.append(f"not scored: {generator.damage}")
    return Standing(
        generator=arm.name,
        state=generator.state,
        score=_finite(estimate.score) if estimate else None,
        error=error,
        lower=lower,
        upper=upper,
        samples=arm.samples,
        batches=arm.batches,
        pick_ratio=arm.batches / told if told else 0.0,
        pending=arm.pending_samples,
        scored_samples=estimate.samples if estimate else 0,
        warnings=tuple(warnings),
        damaged=bool(generator.aside_count or generator.damage),
        bracket=bracket,
        cost_per_sample=cost,
        cost=None if cost is None else cost * (arm.samples + generator.retracted),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
