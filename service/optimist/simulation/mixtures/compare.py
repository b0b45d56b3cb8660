"""Plays the policies of the goal "mixture" and judges them by the truth."""

from __future__ import annotations

import math

import numpy as np

from optimist.estimation.question import Question
from optimist.metrics.threads import one_thread
from optimist.simulation.mixtures.result import MixtureResult
from optimist.simulation.mixtures.run import Judge
from optimist.simulation.mixtures.trial import MixtureTrial
from optimist.simulation.mixtures.truth import TrueBlends, true_blends
from optimist.simulation.plan import Plan
from optimist.simulation.runner import Runner
from optimist_client.errors import FixError
from optimist_client.tolerance import share_of


def compare(plan: Plan, runner: Runner, truth: TrueBlends | None) -> MixtureResult:
    """Play every trial of a plan. Raises FixError for further metrics, and as `true_blends` does."""
    asked, question = plan.asked, plan.asked.question
    if asked.watched:
        raise FixError("watch: further metrics are compared with the goal 'best' only")
    if truth is None:
        truth = true_blends(asked.sources, question, plan.seed)
    plays = plan.sorted(runner.run("trials", [trial.blended for trial in plan.trials_of(MixtureTrial)]))
    count = len(asked.sources)
    least = truth.loss(truth.weights)
    singles = np.array([truth.loss(alone) for alone in np.eye(count)])
    judge = Judge(
        loss=truth.loss,
        least=least,
        best_single=float(singles.min()),
        is_log=question.metric.scale == "log",
        tolerated=_tolerated(asked.settings["tolerance"], question, least),
        delta=asked.settings["delta"],
    )
    with one_thread():
        runs = {label: judge.run_of(own, count, plan.rounds, plan.batch_size) for label, own in plays.items()}
    return MixtureResult(
        metric=question.metric.name,
        generators=tuple(asked.sources),
        origin=truth.origin,
        weights=truth.weights,
        least=least,
        singles=singles,
        single_share=float(judge.share(singles.min(keepdims=True) - least)[0]),
        batch_size=plan.batch_size,
        rounds=plan.rounds,
        seed=plan.seed,
        stop=plan.stop,
        paired=asked.paired,
        runs=runs,
    )


def _tolerated(tolerance: float | str, question: Question, least: float) -> float:
    """The tolerance as an excess on the metric's scale."""
    share = share_of(tolerance)
    if share is None:
        return float(tolerance)
    return math.log1p(share) if question.metric.scale == "log" else share * max(least, 0.0)
