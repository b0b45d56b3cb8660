"""Runs a file: its models are the functions of `optimist.run`, or of `Experiment.run` with a service."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist.evaluating.asked import AnswerRow, BudgetSpent, PlanModels
from optimist.evaluating.files import FilePrompt, read_plan, read_questions
from optimist.evaluating.ledger import Ledger, Tally
from optimist.evaluating.scorers import check_answers, comparing, rubric_of
from optimist.evaluating.spec import EvaluationPlan
from optimist_client.callbacks import Callback
from optimist_client.chat import FailedCall
from optimist_client.errors import FixError, GeneratorError
from optimist_client.metrics import Mean, Metric, WinRate
from optimist_client.models import Report

if TYPE_CHECKING:
    from optimist.local.evaluation import Evaluation
    from optimist_client import Optimist

SCORE, SECONDS, DOLLARS = "score", "seconds", "dollars"
"""The labels of the metrics."""


@dataclass(frozen=True)
class EvaluationResult:
    """The result of a plan."""

    plan: EvaluationPlan
    report: Report
    questions: Mapping[str, FilePrompt]
    rows: Mapping[tuple[str, str], AnswerRow]
    """By model and prompt, the answers that this process knows."""
    tallies: Mapping[str, Tally]
    """The requests of all runs of the file, by who was asked."""
    judgements: int
    """Requests to the judge for an answer."""
    stopped: str = ""
    """Why it ended before there was an answer; "" else."""


class Job:
    """A file that was read and checked, before anything is asked."""

    def __init__(self, file: Path) -> None:
        """Raises FixError, with the places of all mistakes, and OSError."""
        self.file, self.home = file, file.parent.resolve()
        self.plan = read_plan(file, keys=True)
        prompts = self.home / self.plan.prompts
        questions = read_questions(prompts)
        check_answers(self.plan.score, questions, prompts)
        self.questions = {question.id: question for question in questions}
        if self.plan.score.judge is None:
            comparing(self.plan.score, self.home)
        rubric_of(self.plan.score, self.home)

    @property
    def folder(self) -> Path:
        """Where answers are kept unless another folder is given."""
        return self.home / f"{self.file.stem}.answers"

    @property
    def name(self) -> str:
        """The name of its experiment unless another one is given."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.file.stem).strip("-._")[:64] or "evaluate"

    def settings(self) -> dict[str, Any]:
        """The settings of its experiment."""
        plan = self.plan
        settings: dict[str, Any] = {
            "prompts": [*self.questions],
            "prompts_are": "list",
            "batch_size": 1,
            "seed": plan.seed,
            "delta": plan.delta,
            "stop": plan.stop,
        }
        if not plan.stop:
            settings["policy"] = "uniform"
        if not plan.wants_cheapest:
            return {**settings, "tolerance": plan.tolerance}
        cheapest = {"good_enough": plan.good_enough, "limits": plan.limits, "cost_metric": DOLLARS}
        return {**settings, "goal": "cheapest", **cheapest}

    def metrics(self) -> list[Metric]:
        """Its metrics, the one that decides first."""
        low, high = self.plan.score.limits
        # A prompt has one answer of each model, which is kept: whenever it is asked for, its score is the same.
        own: dict[str, Any] = {"label": SCORE, "repeatable": True}
        if self.plan.score.pairwise is not None:
            score: Metric = WinRate(**own)
        else:
            score = Mean(**own, timed=True, range=(low, high) if high < float("inf") else None)
        less: dict[str, Any] = {"higher_is_better": False, "timed": True, "repeatable": True}
        seconds = Mean(label=SECONDS, reads="seconds", censored_at=self.plan.timeout, **less)
        return [score, seconds, Mean(label=DOLLARS, reads="dollars", **less)]

    def run(
        self,
        folder: Path | None = None,
        *,
        again: bool = False,
        callbacks: Sequence[Callback] = (),
        progress: bool | None = None,
    ) -> EvaluationResult:
        """Ask until the answer is sure, in this process. It goes on where an earlier run of the file was left.

        folder: of the answers. again: ask again what was not answered in time, or refused. Raises FixError.
        """
        from optimist.local.evaluation import Evaluation
        from optimist.local.run import run

        with self._asked(folder, again=again) as asked:
            score, *watch = self.metrics()
            evaluation = Evaluation([*self.plan.models], metric=score, watch=watch, **self.settings())
            self._tell_remembered(evaluation, asked)
            how = {"callbacks": callbacks, "progress": progress, "name": self.name, "evaluation": evaluation}
            play = partial(run, asked.functions(with_records=False), **self._limits(), **how)
            return self._evaluated(asked, play, lambda: evaluation.report(self.name))

    def serve(
        self,
        optimist: Optimist,
        name: str | None = None,
        folder: Path | None = None,
        *,
        again: bool = False,
        progress: bool | None = None,
    ) -> EvaluationResult:
        """Work for an experiment of a service, with any number of others, until it ends. Raises as its `run` does."""
        with self._asked(folder, shared=True, again=again) as asked:
            score, *watch = self.metrics()
            how: dict[str, Any] = {"metric": score, "watch": watch, "keep_log": True, **self.settings()}
            experiment = optimist.create_experiment(name or self.name, [*self.plan.models], **how)
            play = partial(experiment.run, asked.functions(with_records=True), **self._limits(), progress=progress)
            return self._evaluated(asked, play, experiment.report)

    @contextmanager
    def _asked(self, folder: Path | None, *, shared: bool = False, again: bool) -> Generator[PlanModels]:
        """The models with the ledger of their answers."""
        with Ledger(folder or self.folder, shared=shared) as ledger:
            if again:
                ledger.forget_ended()
            with PlanModels(self.plan, self.home, self.questions, ledger) as asked:
                yield asked

    def _tell_remembered(self, evaluation: Evaluation, asked: PlanModels) -> None:
        """Tell an evaluation what was answered and judged before, each at its own index.

        One at a time, as a run does: the evidence that a decision needs grows with the batches told.
        """
        from optimist.experiments.slices import prompt_order

        ids = [*self.questions]
        for start, index in enumerate(prompt_order(len(ids), self.plan.seed, 0, len(ids), passes=True)):
            for model in self.plan.models:
                if (row := asked.remembered(model, ids[index])) is not None:
                    evaluation.tell(model, asked.batch([row]), prompt_indices=[index], start=start)

    def _limits(self) -> dict[str, Any]:
        """The arguments of a run that the file determines."""
        minutes = self.plan.budget.minutes
        workers = min(self.plan.at_once, len(self.questions) * len(self.plan.models))
        return {"workers": workers, "catch": FailedCall, "timeout": None if minutes is None else 60.0 * minutes}

    def _evaluated(self, asked: PlanModels, play: Callable[[], Report], read: Callable[[], Report]) -> EvaluationResult:
        """The result of a run. Raises FixError where it ended for another reason than a spent budget.

        read: reads the report of a run that its budget ended.
        """
        stopped = ""
        try:
            report = play()
        except GeneratorError as error:
            if not isinstance(error.__cause__, BudgetSpent):
                raise FixError(f"{error.generator}: {error.__cause__ or error}") from None
            stopped, report = f"{error.__cause__}", read()
        tallies = asked.ledger.tallies()
        return EvaluationResult(self.plan, report, self.questions, asked.rows, tallies, asked.judgements, stopped)
