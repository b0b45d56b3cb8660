"""What the store holds of an experiment, as policies and users see it: arms, decision, state and report. No I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from optimist.dispatch.suspects import decision_warnings, standing_warnings
from optimist.numerics.estimate import Estimate
from optimist.numerics.kernel.open_kernels import rows_to_fit
from optimist.policies import Arm, Decision, Policy, Stopping, warmup_batches
from optimist.store import COST, GeneratorState, Look
from optimist_client.models import DecisionInfo, Experiment, ExperimentConfig, Pick, Regret, Report, Standing, State


def make_policy(config: ExperimentConfig, needed: int) -> Policy:
    """The policy that picks are made by while `needed` samples of each generator are needed to fix open kernels."""
    warmup = warmup_batches(config.kind, config.bound, config.warmup, needed, config.batch_size)
    return Policy(config.policy, warmup, Stopping(config.delta, config.tolerance), config.seed)


def needed_to_fit(config: ExperimentConfig, active: int) -> int:
    """Samples that each of so many active generators must have before open kernels can be fixed."""
    return rows_to_fit(config.kernels.values(), active)


# One look after the other shows mostly the same estimates and picks.
@lru_cache(4096)
def _estimate(payload: str) -> Estimate:
    return Estimate.from_dict(json.loads(payload))


@lru_cache(4096)
def _pick(record: str, nonce: str) -> Pick:
    pick = Pick.model_validate_json(record)
    return pick.model_copy(update={"nonce": nonce}) if nonce else pick


_SLACK = 1e-12
"""Part of a limit on costs by which sums of floats may miss it."""


@dataclass(frozen=True)
class View:
    """One experiment at one moment: pure functions of its config, its rules and one look at the store."""

    experiment: Experiment
    look: Look

    @property
    def config(self) -> ExperimentConfig:
        """What it asks."""
        return self.experiment.config

    @cached_property
    def policy(self) -> Policy:
        """The policy the experiment's picks are made by; warm-up lasts until its kernels can be fixed."""
        return make_policy(self.config, self.needed_to_fit)

    @cached_property
    def estimates(self) -> list[Estimate | None]:
        """The latest estimate of each generator, in the experiment's order."""
        return [_estimate(g.estimate) if g.estimate else None for g in self.look.generators]

    @cached_property
    def open_picks(self) -> list[Pick]:
        """Picks whose lease still runs, by number."""
        return [_pick(pick.record, pick.nonce) for pick in self.look.open_picks]

    @cached_property
    def contenders(self) -> list[GeneratorState]:
        """The generators that are not retired, in the order of `arms`."""
        return [generator for generator in self.look.generators if generator.state != "retired"]

    @cached_property
    def arms(self) -> list[Arm]:
        """Each contender with its estimate, counts and open picks."""
        pending: dict[str, list[int]] = {generator.name: [] for generator in self.look.generators}
        for pick in self.open_picks:
            pending[pick.generator].append(pick.size)
        return [
            Arm(
                g.name,
                self.estimates[g.ordinal],
                g.samples,
                g.batches,
                sum(pending[g.name]),
                len(pending[g.name]),
                active=g.state == "active",
            )
            for g in self.contenders
        ]

    @cached_property
    def rivals(self) -> list[Arm]:
        """The arms that a decision is between: a paused one without estimate would hold it up for ever."""
        return [arm for arm in self.arms if arm.active or arm.estimate is not None]

    @property
    def budget(self) -> int | None:
        """Samples in all after which no more picks are made."""
        return int(self.look.controls["budget"]) if "budget" in self.look.controls else self.config.budget

    @property
    def max_wait(self) -> float:
        """Seconds an ask waits for estimates."""
        return float(self.look.controls.get("max_wait", self.config.max_wait))

    @property
    def stops(self) -> bool:
        """Whether picks end once the answer is sure."""
        return self.look.controls["stop"] == "1" if "stop" in self.look.controls else self.config.stop

    @property
    def samples(self) -> int:
        """Samples told in all."""
        return sum(g.samples for g in self.look.generators)

    @property
    def pending(self) -> int:
        """Samples on their way under open picks."""
        return sum(pick.size for pick in self.open_picks)

    @cached_property
    def costs(self) -> dict[str, float]:
        """What a sample costs, by generator, where that is known; what was changed counts for every sample."""
        controls = self.look.controls.items()
        changed = {name.removeprefix(COST): float(cost) for name, cost in controls if name.startswith(COST)}
        return {**(self.config.costs or {}), **changed}

    @property
    def unpriced(self) -> list[str]:
        """The generators, retired ones included, whose cost is not known."""
        return [generator.name for generator in self.look.generators if generator.name not in self.costs]

    @property
    def max_cost(self) -> float | None:
        """Cost in all after which no more picks are made."""
        return float(self.look.controls["max_cost"]) if "max_cost" in self.look.controls else self.config.max_cost

    @property
    def cost(self) -> float:
        """Cost of the samples told."""
        return sum(self.costs.get(g.name, 0.0) * g.samples for g in self.look.generators)

    @property
    def cost_left(self) -> float | None:
        """What may still be told at a cost, not above 0 when it is spent; None: without limit."""
        return None if self.max_cost is None else (1 - _SLACK) * self.max_cost - self.cost

    @property
    def pending_cost(self) -> float:
        """Cost of the samples on their way under open picks."""
        return sum(self.costs.get(pick.generator, 0.0) * pick.size for pick in self.open_picks)

    @cached_property
    def needed_to_fit(self) -> int:
        """Samples that each active generator must have before open kernels can be fixed; 0 once they are."""
        return 0 if any(self.estimates) else needed_to_fit(self.config, len(self.look.active))

    @cached_property
    def can_be_scored(self) -> bool:
        """Whether there are samples enough to fix the kernels: before that nobody waits for estimates."""
        return all(generator.samples >= self.needed_to_fit for generator in self.look.active)

    @property
    def is_scored(self) -> bool:
        """Whether every estimate that is due and can be made has been made."""
        return not self.can_be_scored or all(g.estimate_seq >= g.due_seq for g in self.contenders)

    @cached_property
    def live_decision(self) -> DecisionInfo:
        """What the stopping rule says now."""
        now: Decision = self.policy.stopping.decide(self.rivals, self.look.told)
        return DecisionInfo(
            best=now.best,
            confidence=now.confidence,
            decided=now.decided,
            reason=now.reason,
            warnings=decision_warnings(self.contenders),
        )

    @cached_property
    def decision(self) -> DecisionInfo:
        """The latched decision if there is one, else the live one, which decides nothing before it is latched."""
        if self.look.decision is not None:
            return DecisionInfo.model_validate_json(self.look.decision)
        return self.live_decision.model_copy(update={"decided": False}) if self.stops else self.live_decision

    @property
    def would_stop(self) -> bool:
        """Whether the stopping rule, where the experiment has one, says stop."""
        return self.stops and self.live_decision.decided

    @property
    def is_decided(self) -> bool:
        """Whether picks have ended because the answer is sure."""
        return self.look.decision is not None

    @property
    def has_ended(self) -> bool:
        """Whether there are no more picks to be had."""
        return self.is_decided or self.is_spent or self.is_stopped

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped the experiment."""
        return "stopped" in self.look.controls

    @property
    def is_spent(self) -> bool:
        """Whether picks have ended because the budget, of samples or of cost, is used up."""
        left = self.cost_left
        return (self.budget is not None and self.samples >= self.budget) or (left is not None and left <= 0)

    @property
    def state(self) -> State:
        """The experiment's phase in a word."""
        if self.is_decided:
            return "decided"
        if self.is_stopped:
            return "stopped"
        if self.is_spent:
            return "out of budget"
        begun = (arm.batches >= self.policy.warmup and arm.estimate is not None for arm in self.arms if arm.active)
        return "running" if all(begun) else "warming up"

    def report(self) -> Report:
        """Standings, regret, pick ratio and decision."""
        told = self.look.told
        scores = {arm.name: arm.estimate.score for arm in self.arms if arm.estimate is not None}
        metric = self.config.kind
        best = self.decision.best
        regret = None
        if told and best is not None and best in scores and len(scores) == len(self.arms):
            gaps = {name: abs(score - scores[best]) for name, score in scores.items()}
            total = sum(arm.batches * gaps[arm.name] for arm in self.arms)
            regret = Regret(total=total, average=total / told)
        chosen = next((arm.batches for arm in self.arms if arm.name == best), None)
        return Report(
            experiment=self.config.name,
            metric=metric.name,
            title=metric.title,
            lower_is_better=metric.lower_is_better,
            scale=metric.scale,
            offers=sorted(metric.offers),
            state=self.state,
            ended=self.has_ended,
            decision=self.decision,
            standings=[
                _standing(arm, told, g, self.costs.get(arm.name), standing_warnings(g, self.contenders))
                for arm, g in zip(self.arms, self.contenders, strict=True)
            ],
            samples=self.samples,
            rounds=told,
            open_picks=len(self.open_picks),
            budget=self.budget,
            cost=self.cost if self.costs else None,
            max_cost=self.max_cost,
            regret=regret,
            optimal_pick_ratio=chosen / told if told and chosen is not None else None,
            uniform_samples=self.policy.stopping.uniform_samples(self.rivals, told),
            scored=self.is_scored,
        )


def _standing(
    arm: Arm, told: int, generator: GeneratorState, cost: float | None, suspicions: Sequence[str]
) -> Standing:
    estimate = arm.estimate
    error = lower = upper = None
    if estimate is not None:
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
        cost_per_sample=cost,
        cost=None if cost is None else cost * arm.samples,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
