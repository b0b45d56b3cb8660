"""The goal "best" in a simulation: regret by true scores, and whether the best generator is named."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optimist.estimates.estimate import natural
from optimist.estimation.question import Question
from optimist.local.evaluation import Evaluation
from optimist.local.single import score
from optimist.metrics.threads import one_thread
from optimist.simulation.inputs import SimulationInputs
from optimist.simulation.judges.judge import CurveFigure, ReportColumn
from optimist.simulation.judges.sampled import SampledJudge, all_samples
from optimist.simulation.run import NO_GENERATOR, Bools, Floats, PolicyRun, last_known
from optimist.simulation.runner import Runner
from optimist.simulation.sources import Source
from optimist.simulation.trial import Recorder
from optimist_client.errors import FixError
from optimist_client.goals import Best
from optimist_client.metrics import Metric
from optimist_client.presets import presets
from optimist_client.tolerance import share_of


@dataclass(frozen=True, slots=True)
class TrueScore:
    """A generator's true score on the natural scale, and a text that says how it was obtained."""

    score: float
    origin: str


class NamedBest(Recorder):
    """Keeps the generator named best after each round, and the last estimates."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation)
        self._ordinals = {name: ordinal for ordinal, name in enumerate(evaluation.generators)}
        self._named: list[int] = []

    def record(self, stop: bool) -> bool:
        decision = self.evaluation.decision(explain=False)
        self._named.append(NO_GENERATOR if decision.best is None else self._ordinals[decision.best])
        return stop and decision.decided

    def seen(self) -> tuple[NDArray[np.int32], Floats]:
        """Ordinals of the named generators (rounds,); value, lower and upper end of each estimate (G, 3) or NaN."""
        ends = np.full((len(self._ordinals), 3), np.nan)
        for ordinal, estimate in enumerate(self.evaluation.estimates().values()):
            if estimate is not None:
                ends[ordinal] = [estimate.natural(end) for end in (estimate.value, estimate.lower, estimate.upper)]
        return np.array(self._named, np.int32), ends


@dataclass(frozen=True, eq=False)
class BestJudge(SampledJudge):
    """Judges by true scores: the regret of a pick is the gap of its generator to the best one (equations.md §5)."""

    goal = "best"
    policies = tuple(dict.fromkeys((*Best.policies, *presets())))
    default = ("ucb", "uniform")
    recorder = NamedBest
    columns = (
        ReportColumn("total regret", "regret"),
        ReportColumn("average regret", "average_regret"),
        ReportColumn("optimal pick ratio", "optimal_pick_ratio"),
        ReportColumn("accuracy", "accuracy"),
        ReportColumn("samples to 95 %", "samples_to_95"),
    )
    figures: ClassVar = {
        "total_regret": CurveFigure("regret", "total regret ({unit})"),
        "average_regret": CurveFigure("average_regret", "average regret per batch ({unit})"),
        "optimal_pick_ratio": CurveFigure("optimal_pick_ratio", "optimal pick ratio", is_share=True),
        "accuracy": CurveFigure("accuracy", "trials that name the best", is_share=True, has_band=False),
    }

    truth: Mapping[str, TrueScore]
    """The true score of each generator, on the natural scale."""
    tolerance: float | str = 0.0
    others: Mapping[str, BestJudge] = field(default_factory=dict, kw_only=True)

    @classmethod
    def with_truth(cls, inputs: SimulationInputs, truth: Any, runner: Runner) -> BestJudge:
        metric, seed = inputs.question.metric, inputs.plan.seed

        def true_scores(what: str, question: Question, sources: Mapping[str, Source]) -> dict[str, TrueScore]:
            tasks = [partial(true_score, *item, question, seed) for item in sources.items()]
            return dict(zip(sources, runner.run(what, tasks), strict=True))

        if truth is None:
            truth = true_scores("true scores", inputs.question, inputs.sources)
        else:
            truth = given_scores(truth, inputs.sources, metric)
        shared = tuple(inputs.sources), inputs.plan, inputs
        others = {
            label: cls(*shared, other.metric, true_scores(f"true scores by {label}", other, sources))
            for label, (other, sources) in inputs.watched.items()
        }
        return cls(*shared, metric, truth, inputs.plan.tolerance, others=others)

    @property
    def scores(self) -> Floats:
        """The true scores (G,)."""
        return np.array([truth.score for truth in self.truth.values()])

    @property
    def gaps(self) -> Floats:
        """The difference between each generator's score and the best one (G,), ≥ 0, on the natural scale."""
        scores = self.scores
        return scores - scores.min() if self.lower_is_better else scores.max() - scores

    @property
    def lower_is_better(self) -> bool:
        """True if the lowest score is sought."""
        return self.metric.lower_is_better

    @property
    def is_best(self) -> Bools:
        """True for each generator that counts as best (G,). A tolerance given as a number is on the estimates'
        scale."""
        share, lower = share_of(self.tolerance), self.lower_is_better
        if self.metric.scale == "linear":
            best = self.scores.min() if lower else self.scores.max()
            return self.gaps <= (float(self.tolerance) if share is None else share * best)
        logs = np.log(self.scores)
        apart = logs - logs.min() if lower else logs.max() - logs
        return apart <= (float(self.tolerance) if share is None else math.log1p(share))

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that count as best."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)

    def judged(self, run: PolicyRun, seen: Sequence[tuple[NDArray[np.int32], Floats]]) -> PolicyRun:
        rounds = run.picks.shape[1]
        pads = [(0, rounds - len(named)) for named, _ in seen]
        padded = [np.pad(named, pad, constant_values=NO_GENERATOR) for (named, _), pad in zip(seen, pads, strict=True)]
        gaps, is_best, named = self.gaps, self.is_best, np.stack(padded)
        marks = np.arange(1, rounds + 1)
        played = np.maximum(np.minimum(marks, run.lengths[:, None]), 1)
        regret = run.carried(np.cumsum(np.where(run.is_played, gaps[run.picks], 0.0), axis=1))
        hits = np.cumsum(run.is_played & is_best[run.picks], axis=1)
        accuracy = run.carried(((named != NO_GENERATOR) & is_best[named]).astype(np.float64))
        return replace(
            run,
            marks=marks,
            curves={
                "regret": regret,
                "average_regret": regret / played,
                "optimal_pick_ratio": run.carried(hits / played),
                "accuracy": accuracy,
            },
            arrays={"named": named, "estimates": np.stack([estimates for _, estimates in seen])},
            wrong=last_known(accuracy) == 0.0,
            extra=_samples_to_95(accuracy, run.batch_size),
        )

    @property
    def order(self) -> Sequence[int]:
        return np.argsort(self.gaps, kind="stable").tolist()

    def notes(self) -> Iterator[str]:
        origins = Counter(score.origin for score in self.truth.values())
        truth = ", ".join(origin if len(origins) == 1 else f"{origin} ({count})" for origin, count in origins.items())
        yield f"Best: {self.shown_best()}. Truth: {truth}. Mean ± standard error over trials."
        for label, other in self.others.items():
            yield f"Best by {label}: {other.shown_best()}."
        yield from super().notes()

    def shown_best(self) -> str:
        """The best generators with their scores."""
        return " and ".join(f"{name} ({self.truth[name].score:.4g})" for name in self.best)

    def document(self) -> dict[str, Any]:
        return {
            "metric": self.metric.name,
            "best": list(self.best),
            "truth": {name: true.score for name, true in self.truth.items()},
            "truth_origin": {name: true.origin for name, true in self.truth.items()},
        }


def true_score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    """The closed form if there is one, otherwise the de-biased score of all samples.

    Raises FixError, naming the source, if its samples cannot be scored.
    """
    exact = source.exact(question)
    if exact is not None:
        return TrueScore(natural(exact, question.metric.scale, question.metric.floor), "closed form")
    metric = question.metric
    if metric.is_repeatable:  # all samples have their mean, whatever they are answers to
        metric = metric.model_copy(update={"repeatable": False})
    with one_thread():
        rows, count = all_samples(name, source, seed)
        try:
            estimate = score(rows, metric)
        except (ValueError, ArithmeticError) as error:
            raise FixError(f"{source.origin}: {error}") from None
    return TrueScore(estimate.score, f"de-biased, {'' if source.samples is None else 'all '}{count:,} samples")


def given_scores(scores: Any, names: Mapping[str, Any], metric: Metric) -> dict[str, TrueScore]:
    """The caller's true scores. Raises FixError unless there is a valid score for each name and no other."""
    if not isinstance(scores, Mapping):
        raise FixError(f"truth: expected scores by generator for the goal 'best', got {type(scores).__name__}")
    if set(scores) != set(names):
        raise FixError(f"truth: expected scores of {', '.join(names)}; got {', '.join(scores) or 'none'}")
    bound = -math.inf if metric.scale == "linear" else 0.0
    wrong = {name: value for name, value in scores.items() if not (math.isfinite(value) and value > bound)}
    if wrong:
        name, value = next(iter(wrong.items()))
        raise FixError(f"truth: expected a finite score of {metric.name!r} for {name!r}, got {value}")
    return {name: TrueScore(float(scores[name]), "given") for name in names}


def _samples_to_95(accuracy: Floats, batch_size: int) -> dict[str, float | None]:
    """Samples after which at least 95 % of the trials name a best generator until the end; None: never."""
    trials = len(accuracy)
    resampled = np.random.default_rng(0).multinomial(trials, np.full(trials, 1.0 / trials), 400)
    weights = np.vstack([np.ones(trials), resampled.astype(np.float64)])
    samples = _first_right(weights, accuracy) * batch_size
    error = float(np.std(samples[1:], ddof=1)) if np.isfinite(samples).all() and trials > 1 else None
    return {"samples_to_95": float(samples[0]) if math.isfinite(samples[0]) else None, "samples_to_95_se": error}


def _first_right(weights: Floats, accuracy: Floats, share: float = 0.95) -> Floats:
    """The first round (resamples,) after which the fraction of right trials stays at least `share`; inf if none.

    `weights` (resamples, trials) say how often each trial counts. NaN in `accuracy` (trials, rounds) is ignored.
    """
    is_known = ~np.isnan(accuracy)
    counted = weights @ is_known
    is_short = (weights @ np.where(is_known, accuracy, 0.0) < share * counted - 1e-9) & (counted > 0)
    rounds = np.arange(1, accuracy.shape[1] + 1)
    last_short = np.where(is_short, rounds, 0).max(axis=1)
    last_known = np.where(counted > 0, rounds, 0).max(axis=1)
    return np.where(last_short < last_known, last_short + 1.0, np.inf)
