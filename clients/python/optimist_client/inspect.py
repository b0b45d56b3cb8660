"""Early stopping of tasks of inspect_ai: models that run side by side end as soon as it is decided which is better."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, cast

from optimist_client import models
from optimist_client.cells import number_of
from optimist_client.errors import FixError, NotFoundError, OptimistError
from optimist_client.experiment import AsyncExperiment, Experiment


class OptimistStopping:
    """An `EarlyStopping` of inspect_ai that tells each score to an experiment, and skips samples once that is decided.

    Each model has a task, and an object of this class, of its own:

        Task(…, model="vllm/qwen", early_stopping=OptimistStopping(experiment, generator="qwen"))

    Tasks of one process share an `optimist.Evaluation`; of several, an experiment of a service, for one epoch. Its
    metric is a mean, and with several epochs it has the questions as `prompts`. Question and epoch say a score's
    index, so that models are compared question by question. Samples are skipped, with the reason in the log, once the
    experiment is decided, or this model is known to be worse than the best one.
    """

    def __init__(self, experiment: Any, generator: str, *, scorer: str | None = None, part: str | None = None) -> None:
        """experiment: an `Experiment`, an `AsyncExperiment` or an `Evaluation`. generator: the model's name in it.

        scorer: whose score counts; None: the first one. part: which one of the score's numbers, if it has several.
        """
        self.experiment, self.generator, self._scorer, self._part = experiment, generator, scorer, part
        self._index_of: dict[str, int] = {}
        self._last: tuple[int, models.Report] | None = None
        self.told = 0
        """Scores that were told."""
        self.stopped = 0
        """Samples that were skipped."""

    @property
    def _is_served(self) -> bool:
        return isinstance(self.experiment, Experiment | AsyncExperiment)

    async def start_task(self, task: Any, samples: Sequence[Any], epochs: int) -> str:
        """The name of the manager, for the log. Raises FixError where the experiment does not fit the task."""
        self._index_of = {id: index for index, id in enumerate(sorted(f"{sample.id}" for sample in samples))}
        questions = len(self._index_of)
        if epochs > 1 and self._is_served:
            raise FixError(
                f"expected 1 epoch, found {epochs}: a service takes them as independent, an Evaluation does not"
            )
        prompts = None if self._is_served else self.experiment.state.config.prompts
        if epochs > 1 and len(prompts or ()) != questions:
            raise FixError(
                f"prompts: {epochs} epochs need one for each of {questions:,} samples, found {len(prompts or ())}"
            )
        report = await self._read()
        if self.generator not in {row.generator for row in report.standings}:
            raise NotFoundError(f"{self.generator!r}: the experiment has no such generator")
        return "optimist"

    async def schedule_sample(self, id: str | int, epoch: int) -> Any:
        """An `EarlyStop` with its reason if the sample is to be skipped, else None."""
        try:
            report = await self._read()
        except OptimistError as error:
            warnings.warn(f"optimist: nothing is stopped: {error}", stacklevel=2)
            return None
        reason = _reason(report, self.generator)
        if reason is None:
            return None
        self.stopped += 1
        return import_module("inspect_ai.util").EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, id: str | int, epoch: int, scores: Mapping[str, Any]) -> None:
        """Tell the score of a sample; one without a number is left out."""
        value = self._value(scores)
        if value is None or math.isnan(value):
            return
        index = self._index_of[f"{id}"]
        start = (epoch - 1) * len(self._index_of) + index
        try:
            if self._is_served:
                key = f"inspect {self.experiment.name} {self.generator} {start}"
                await self._call("append", self.generator, [value], start=start, key=key)
            else:
                prompts = {} if self.experiment.state.config.prompts is None else {"prompt_indices": [index]}
                self.experiment.tell(self.generator, [[value]], start=start, **prompts)
        except OptimistError as error:
            warnings.warn(f"optimist: a score of {self.generator} was not told: {error}", stacklevel=2)
            return
        self.told += 1

    async def complete_task(self) -> dict[str, Any]:
        """The result of the experiment at the end, for the log."""
        report = await self._read()
        return {
            "experiment": report.experiment,
            "generator": self.generator,
            "answer": report.answer,
            "told": self.told,
            "stopped": self.stopped,
        }

    def _value(self, scores: Mapping[str, Any]) -> float | None:
        if not scores:
            return None
        name = next(iter(scores)) if self._scorer is None else self._scorer
        if name not in scores:
            raise FixError(f"scorer {name!r}: expected one of {', '.join(scores)}")
        value = scores[name].score.value
        if isinstance(value, Mapping):
            parts = cast(Mapping[str, Any], value)
            if self._part is None or self._part not in parts:
                raise FixError(f"part: expected one of {', '.join(parts)}, got {self._part!r}")
            value = parts[self._part]
        return number_of(value)

    async def _read(self) -> models.Report:
        """The report; in memory only where something was told since the last one."""
        if self._is_served:
            return await self._call("report")
        samples = sum(generator.samples for generator in self.experiment.state.stored.generators)
        if self._last is None or samples != self._last[0]:
            self._last = samples, self.experiment.report()
        return self._last[1]

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """An operation of the service, without holding up other samples."""
        operation = partial(getattr(self.experiment, name), *args, **kwargs)
        if isinstance(self.experiment, AsyncExperiment):
            return await operation()
        assert isinstance(self.experiment, Experiment)
        return await import_module("anyio.to_thread").run_sync(operation)


def _reason(report: models.Report, generator: str) -> str | None:
    """Why no more samples of a generator are needed; None where they are."""
    decision = report.decision
    if decision.decided:
        return report.answer
    if any(verdict.generator == generator and verdict.verdict == "worse" for verdict in decision.verdicts):
        return f"{generator} is worse than {decision.best}: {report.answer}"
    return None
