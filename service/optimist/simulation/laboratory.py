"""Runs policies on given samples in many trials and compares what they cost and how soon they find what is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from optimist.estimation.question import Question
from optimist.metrics.threads import one_thread
from optimist.numerics.batches import check_whole
from optimist.simulation.inputs import SimulationInputs, SimulationWarning, check_amounts
from optimist.simulation.mixture_result import MixtureResult, TrueMixtures, checked_truth, true_mixtures
from optimist.simulation.mixture_run import Judge, MixtureTrial
from optimist.simulation.plan import Runner, SimulationPlan
from optimist.simulation.result import Result, TrueScore, Watched, gaps, given_scores, true_score
from optimist.simulation.run import Run
from optimist.simulation.sources import Source, SourceSet
from optimist.simulation.trial import Trial, contenders
from optimist_client.config import Goal
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.tolerance import checked as checked_tolerance
from optimist_client.tolerance import share_of

__all__ = ["SimulationWarning", "simulate"]

MOST_ROUNDS = 10_000_000
"""Maximum rounds in all trials of a policy together. They are kept in memory and take about 500 MB."""


@overload
def simulate(
    sources: SourceSet | Mapping[str, Any] | str | Path,
    *,
    goal: Literal["mixture"],
    metric: str | Metric | None = None,
    watch: Sequence[Metric] = (),
    policies: str | Sequence[str] | Mapping[str, str] | None = None,
    rounds: int = 1000,
    batch_size: int = 5,
    trials: int = 20,
    seed: int = 0,
    stop: bool = False,
    delta: float | None = None,
    tolerance: float | str | None = None,
    jobs: int | None = None,
    reference: Any = None,
    order: float | None = None,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    truth: TrueMixtures | None = None,
    shuffle: bool = True,
    progress: bool = False,
    paired: bool | None = None,
) -> MixtureResult: ...
@overload
def simulate(
    sources: SourceSet | Mapping[str, Any] | str | Path,
    *,
    goal: Literal["best"] = "best",
    metric: str | Metric | None = None,
    watch: Sequence[Metric] = (),
    policies: str | Sequence[str] | Mapping[str, str] | None = None,
    rounds: int = 1000,
    batch_size: int = 5,
    trials: int = 20,
    seed: int = 0,
    stop: bool = False,
    delta: float | None = None,
    tolerance: float | str | None = None,
    jobs: int | None = None,
    reference: Any = None,
    order: float | None = None,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    shuffle: bool = True,
    progress: bool = False,
    paired: bool | None = None,
) -> Result: ...
def simulate(
    sources: SourceSet | Mapping[str, Any] | str | Path,
    *,
    goal: Goal = "best",
    metric: str | Metric | None = None,
    watch: Sequence[Metric] = (),
    policies: str | Sequence[str] | Mapping[str, str] | None = None,
    rounds: int = 1000,
    batch_size: int = 5,
    trials: int = 20,
    seed: int = 0,
    stop: bool = False,
    delta: float | None = None,
    tolerance: float | str | None = None,
    jobs: int | None = None,
    reference: Any = None,
    order: float | None = None,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | TrueMixtures | None = None,
    shuffle: bool = True,
    progress: bool = False,
    paired: bool | None = None,
) -> Result | MixtureResult:
    """Run each policy in `trials` trials of `rounds` batches with `batch_size` samples, and compare their costs.

    `goal` "mixture" asks for the best mixture of the generators in place of the best one of them; the result is then a
    `MixtureResult`, the policies are those of this goal ("ogd" by default), and `truth` is a `TrueMixtures`, if given.

    `sources` are the generators by name, each an array (n, d) that the metric scores, a mapping of such arrays by
    tensor, or a `Source`. They may also be a `SourceSet` or a path: a folder or file of features (see `sources.files`),
    or an exported experiment (.zip), which includes its metric with its settings. `metric`, `reference`, `order`,
    `truncation`, `kernel`, `prompt_kernel`, `delta` and `tolerance` are those of `Evaluation`. By default they are
    those of the sources, or else "fid" and its defaults; `reference` may be a file. Open kernels (σ "median",
    landmarks) are fitted once before all trials. `watch` are further metrics, as objects, that decide nothing: sources
    have the arrays of all metrics by name, and the result has regret and accuracy by each. `policies` are names or
    presets, optionally with options: "ucb:bound=theorem,delta=0.1"; the keys of a mapping are their labels.

    In a trial samples are drawn without replacement. Their random order depends only on (`seed`, trial, generator), so
    that all policies see the same streams, whatever `jobs` is. Without `shuffle` samples keep their given order.
    `paired` draws the same rows of every generator and compares their scores by row: True says that row i has the same
    seed or prompt in all, None takes the sources' word (`SourceSet.aligned`), False draws each generator by itself. A
    trial ends early if the chosen generator has no full batch left or, with `stop`, when the stopping rule decides.
    `truth` are the true scores on the natural scale; by default they are computed in closed form or from all samples.
    joblib runs the trials in `jobs` processes (None: as set by `joblib.parallel_config`, which may use other machines,
    otherwise one).

    Raises FixError before anything is run if an argument is invalid, saying what was expected and what was found.
    Warns (`SimulationWarning`) if a generator may run out of samples.
    """
    of_metric = {
        "reference": reference,
        "order": order,
        "truncation": truncation,
        "kernel": kernel,
        "prompt_kernel": prompt_kernel,
    }
    given: dict[str, Any] = {"delta": delta, "tolerance": tolerance}
    if tolerance is not None:
        given["tolerance"] = checked_tolerance(tolerance)
    for name, count in (("rounds", rounds), ("batch_size", batch_size), ("trials", trials)):
        check_whole(name, count, 1)
    if rounds * trials > MOST_ROUNDS:
        expected = f"rounds, trials: expected at most {MOST_ROUNDS:,} rounds in total"
        raise FixError(f"{expected}, got {rounds:,} × {trials:,}")
    check_whole("seed", seed, 0)
    if jobs == 0:
        raise FixError("jobs: expected a number of processes, or -1 for as many as there are cores; got 0")
    competing = contenders(policies, goal)
    inputs = SimulationInputs.from_arguments(sources, metric, watch, of_metric, given, paired, seed)
    plan = SimulationPlan(inputs, competing, goal, rounds, batch_size, trials, seed, stop, shuffle)
    plan.check()
    check_amounts(inputs.sources, batch_size, rounds)
    if goal == "mixture":
        mixtures = checked_truth(truth, inputs)
        with Runner(jobs, progress) as runner:
            return _compare_mixtures(plan, runner, mixtures)
    if isinstance(truth, TrueMixtures):
        raise FixError("truth: expected scores by generator, got TrueMixtures, which is for the goal 'mixture'")
    known = None if truth is None else given_scores(truth, inputs.sources, inputs.question.metric)
    with Runner(jobs, progress) as runner:
        return _compare(plan, runner, known)


def _compare(plan: SimulationPlan, runner: Runner, known: dict[str, TrueScore] | None) -> Result:
    inputs, question = plan.inputs, plan.inputs.question
    if known is None:
        tasks = [partial(_score, *each, question, plan.seed) for each in inputs.sources.items()]
        known = dict(zip(inputs.sources, runner.run("true scores", tasks), strict=True))
    others = {
        label: runner.run(f"true scores by {label}", [partial(_score, *each, one, plan.seed) for each in part.items()])
        for label, (one, part) in inputs.watched.items()
    }
    plays = plan.sorted(runner.run("trials", [trial.play for trial in plan.trials_of(Trial)]))
    behind, is_best = gaps(known, question.metric, inputs.settings["tolerance"])
    runs = {label: Run.from_plays(own, plan.rounds, plan.batch_size, behind, is_best) for label, own in plays.items()}
    return Result(
        metric=question.metric.name,
        truth=known,
        gaps=behind,
        is_best=is_best,
        batch_size=plan.batch_size,
        rounds=plan.rounds,
        seed=plan.seed,
        stop=plan.stop,
        paired=inputs.paired,
        runs=runs,
        watched={
            label: Watched.from_runs(one.metric, dict(zip(inputs.everything, others[label], strict=True)), runs)
            for label, (one, _) in inputs.watched.items()
        },
    )


def _score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    with one_thread():
        return true_score(name, source, question, seed)


def _compare_mixtures(plan: SimulationPlan, runner: Runner, truth: TrueMixtures | None) -> MixtureResult:
    """Play every trial of a plan. Raises FixError for further metrics, and as `true_mixtures` does."""
    inputs, question = plan.inputs, plan.inputs.question
    if inputs.watched:
        raise FixError("watch: further metrics are compared with the goal 'best' only")
    if truth is None:
        truth = true_mixtures(inputs.sources, question, plan.seed)
    plays = plan.sorted(runner.run("trials", [trial.play_mixture for trial in plan.trials_of(MixtureTrial)]))
    count = len(inputs.sources)
    least = truth.loss(truth.weights)
    singles = np.array([truth.loss(alone) for alone in np.eye(count)])
    judge = Judge(
        loss=truth.loss,
        least=least,
        best_single=float(singles.min()),
        is_log=question.metric.scale == "log",
        tolerated=_tolerated_excess(inputs.settings["tolerance"], question, least),
        delta=inputs.settings["delta"],
    )
    with one_thread():
        runs = {label: judge.run_of(own, count, plan.rounds, plan.batch_size) for label, own in plays.items()}
    return MixtureResult(
        metric=question.metric.name,
        generators=tuple(inputs.sources),
        origin=truth.origin,
        weights=truth.weights,
        least=least,
        singles=singles,
        single_share=float(judge.share(singles.min(keepdims=True) - least)[0]),
        batch_size=plan.batch_size,
        rounds=plan.rounds,
        seed=plan.seed,
        stop=plan.stop,
        paired=inputs.paired,
        runs=runs,
    )


def _tolerated_excess(tolerance: float | str, question: Question, least: float) -> float:
    """The tolerance as an excess on the metric's scale."""
    share = share_of(tolerance)
    if share is None:
        return float(tolerance)
    return math.log1p(share) if question.metric.scale == "log" else share * max(least, 0.0)
