"""An online evaluation in memory: the papers' Protocol 1."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from optimist.anomalies.batches import check_number, check_whole
from optimist.anomalies.plausibility import levelled, magnitudes, sized
from optimist.estimates.mixture import Mixture
from optimist.estimation.arrays import RawBatch, arrays_of, check_arrays, columns_of, tensors_of
from optimist.estimation.audited import AuditAnswer
from optimist.estimation.metric_estimators import (
    MetricEstimators,
    Start,
    StreamBatch,
    checked_prompts,
    checked_start,
    names_of,
    score_due,
)
from optimist.estimation.question import Question, prepared, with_real_data
from optimist.experiments.goals.asked import AskedContext
from optimist.experiments.goals.registry import learner_of
from optimist.experiments.report import said_of_audits
from optimist.experiments.state import PolicyState
from optimist.local.basis import FEATURES
from optimist.local.config import experiment_of
from optimist.local.gaps import gaps_after
from optimist.local.session import BaseEvaluation
from optimist.metrics.devices import find_device
from optimist.policies import blend_counts
from optimist.policies.arms import rivals
from optimist.policies.audits import A_BATCH, new_audits
from optimist.records import (
    NEVER_SCORED,
    AcceptanceRecord,
    AskedPrompt,
    ExperimentState,
    GeneratorState,
    LogExtent,
    checked_context,
)
from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.models import Blend
from optimist_client.tensors import IDS, unpack_ids


class Evaluation(BaseEvaluation):
    """Ask which generator to sample, tell the batch that came out, read estimates and decision at any time.

    `generators` are names. `metric`, its settings (`reference`, `order`, `truncation`, `kernel`, `prompt_kernel`) and
    the `device` are as in `score`, but open kernels are fixed by the first samples of all generators together; before
    that there are no estimates. `watch` are further metrics, as objects, of the same samples: a batch then holds the
    arrays of all (`Metric.array_names`) by name. Their estimates equal an evaluation's by that metric alone, and
    decide nothing. `direction` ("minimize", "maximize") is the metric's own, or is refused; a `Mean` that was not
    given `higher_is_better` takes it.

    `settings` are an experiment's (`ExperimentConfig` describes each), with the same defaults, and are checked
    as a service does; None is the default. Only what a service alone has is refused, such as `lease`. `batch_size` is
    the number of samples that a caller plans per pick: `tell` takes batches of any size, also without a pick. With the
    `goal` "mixture" samples are spent to know the best mixture of all generators. With "route" each pick is for a
    prompt, whose embedding of `context` numbers is given to `ask` and to `tell`. With `prompts_are` "list" samples
    should go through the `prompts` in passes, and `tell` must be told which prompt each belongs to. A warning is
    issued for a batch that is on another scale than others; a decision that rests on it is provisional until it is
    accepted. The same `seed` and the same tells give the same picks. `next_start` gives the index from which seeds can
    be made:

        name = evaluation.ask()
        start = evaluation.next_start(name)
        evaluation.tell(name, np.stack([sample(name, seed=start + i) for i in range(evaluation.batch_size)]))

    Raises FixError for invalid arguments.
    """

    def __init__(
        self,
        generators: Sequence[str],
        *,
        metric: str | Metric = "fid",
        watch: Sequence[Metric] = (),
        reference: Any = None,
        order: float = 1.0,
        truncation: int | None = None,
        kernel: Mapping[str, Any] | None = None,
        prompt_kernel: Mapping[str, Any] | None = None,
        direction: str | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        names, torch_device = names_of(generators), find_device(device)
        directed = with_real_data(
            metric,
            reference=reference,
            order=order,
            truncation=truncation,
            kernel=kernel,
            prompt_kernel=prompt_kernel,
        )
        metrics = [directed.in_direction(direction), *map(with_real_data, watch)]
        experiment = experiment_of("evaluation", names, metrics, settings)
        config = experiment.config
        estimators: dict[str, MetricEstimators] = {}  # by label, the one that decides first
        for label, metric in config.metrics.items():
            how: dict[str, Any] = {"delta": config.delta, "device": torch_device, "paired": experiment.is_paired}
            if metric is config.metric:
                how |= {"bound": config.bound, "options": config.bound_options.given()}
                how |= {"learner": learner_of(config)}
            how |= {"prompts": config.known_prompts(metric), "are_list": config.prompts_are == "list"}
            how |= {"clusters": config.clusters, "generators": len(names)}
            estimators[label] = MetricEstimators(
                Question(prepared(metric, torch_device), **how), names, config.rescore_growth
            )
        generator_states = [
            GeneratorState(
                *(ordinal, name, 0, 0, 0, 0, 0),
                units=dict.fromkeys(estimators, NEVER_SCORED),
                is_seedless=name in config.seedless,
            )
            for ordinal, name in enumerate(names)
        ]
        stored = ExperimentState(
            0,
            0,
            generator_states,
            instance=experiment.instance,
            limited=tuple(config.also_deciding),
            mixture_growth=experiment.mixture_growth,
            model_growth=experiment.model_growth,
        )
        super().__init__(PolicyState(experiment, stored), estimators)
        columns_of(self._questions)  # raises where metrics cannot read the same array
        self._drawn: tuple[bytes, str, float | None] = b"", "", None
        """The last context that was asked for, the generator that it got, and the probability of that."""

    def ask(
        self,
        *,
        among: Collection[str] | None = None,
        pending: Mapping[str, int] | None = None,
        context: ArrayLike | None = None,
    ) -> str:
        """Name of the generator to sample next; with the same arguments the same until the next tell.

        among: the generators that can be sampled; None: all. pending: how many batches of `batch_size` of each were
        asked for and have not been recorded. context: with the goal "route", the embedding (d,) of the prompt that a
        generator is wanted for. Raises NotFoundError for an unknown name, FixError if none can be sampled, or for a
        context where there is to be none, or another one.
        """
        for name in (*(among or ()), *(pending or ())):
            self._generator(name)
        arms = self._arms(pending)
        if among is not None or self.state.experiment.end is not None:
            able = {arm.name for arm in self.state.able(among) if arm.active}
            if not able and among is None:
                raise FixError("every prompt of the list has been answered")
            arms = [replace(arm, active=arm.name in able) for arm in arms]
        number = self.told + sum(arm.pending_batches for arm in arms) + 1
        asked = self._context(context)
        goal = self.state.goal
        choice = goal.pick(arms, self.told, number, asked, goal.overspent(self.state))
        name = self.generators[choice.index]
        if asked is not None:
            self._drawn = asked.row.tobytes(), name, choice.probability
        return name

    def _context(self, context: ArrayLike | None) -> AskedContext | None:
        config = self.state.config
        if config.context is None:
            if context is not None:
                raise FixError(f"context: only with the goal 'route'; the goal is {config.goal!r}")
            return None
        if context is None:
            raise FixError(f"context: expected the embedding of the prompt, {config.context} numbers")
        return AskedContext(checked_context(np.asarray(context), config.context))

    def next_start(self, generator: str) -> int:
        """1 + the largest index of `generator`, where "next" starts. Raises NotFoundError for an unknown name."""
        self._generator(generator)
        return self._ends[generator]

    def tell(
        self,
        generator: str,
        batch: RawBatch,
        *,
        prompt_indices: Sequence[int] | None = None,
        start: Start = "next",
        context: ArrayLike | None = None,
        prompt: str = "",
        seconds: float | None = None,
    ) -> None:
        """Add a batch (n, d) of `generator`. Raises NotFoundError for an unknown name, FixError for a bad batch.

        A batch that is refused changes nothing. The id of a sample without one says in which place it was recorded.
        prompt_indices: with `prompts`, the place of each sample's prompt among them. A batch without them counts as one
        with prompts drawn at random.
        start: the index of the batch's first sample, by which paired generators are compared; the others follow it.
        "next" is the index after the largest one told. With None the samples have no index, and are not compared.
        context: with the goal "route", as of `ask`: the prompt that the batch was made for, whose text is `prompt`.
        seconds: the time from when it was asked for until now. Means whose batches go with it decide as with
        `Mean.timed`.
        """
        if seconds is not None and not 0.0 <= seconds < math.inf:
            raise FixError(f"seconds: expected a number of at least 0, got {seconds!r}")
        asked = self._context(context)
        told_for = None
        if asked is not None:
            row, start = asked.row, None
            drawn = self._drawn[2] if self._drawn[:2] == (row.tobytes(), generator) else None
            told_for = AskedPrompt(row, drawn, prompt, self._generator(generator).seq + 1)
        self._tell(generator, batch, prompt_indices, start, asked=told_for, seconds=seconds)

    def settle(self, pick: models.Pick, batch: RawBatch) -> None:
        """Add a batch for a pick that was opened on the `state`. Raises FixError for a bad batch."""
        seconds = max(time.time() - pick.opened, 0.0)
        self._tell(pick.generator, batch, pick.prompt_indices, pick.start, pick.number, seconds=seconds)

    def _tell(
        self,
        generator: str,
        batch: RawBatch,
        prompt_indices: Sequence[int] | None,
        start: Start,
        pick: int | None = None,
        asked: AskedPrompt | None = None,
        seconds: float | None = None,
    ) -> None:
        told_of, config, columns = self._generator(generator), self.state.config, self.state.experiment.columns
        arrays = check_arrays(arrays_of(batch, columns_of(self._questions)), self._questions, columns or None)
        declared = [question.metric for question in self._questions]
        widths = {name: array.shape[1] for name, array in arrays.items()}
        levels = levelled(declared, widths) if config.on_anomaly == "hold" else ()
        sizes = magnitudes(arrays, sized(declared), levels)
        is_usual = self._plausibility.check(sizes)
        tensors = tensors_of(arrays)
        rows = len(next(iter(tensors.values())))
        listed = checked_prompts(prompt_indices, rows, None if config.prompts is None else len(config.prompts))
        if listed is not None:
            listed = torch.tensor([config.clusters_of_prompts[prompt] for prompt in listed.tolist()])
        indices = checked_start(start, rows, self._ends[generator])
        first = told_of.samples
        ids = unpack_ids(arrays[IDS]) if IDS in arrays else [f"{row}" for row in range(first, first + rows)]
        told = StreamBatch(tensors, ids, listed, None if told_of.is_seedless else indices, asked, seconds)
        # What may be refused comes first, for all metrics.
        begun = {label: estimators.begun(generator, told) for label, estimators in self._metrics.items()}
        for label, estimators in self._metrics.items():
            estimators.add(generator, told, begun[label])
        columns |= {name: widths[name] for name in tensors}  # the first batch tells
        if is_usual:
            self._plausibility.add(generator, sizes, rows)
        if pick is None:
            self.state.count(told_of, rows)
        else:
            self.state.settle(pick, rows)
        told_of.answered = told_of.seq
        position = told_of.batches
        self._scales.add(told_of.ordinal, position, sizes, rows)
        if self._primary.question.arrays == (FEATURES,):
            self._copies.add(generator, arrays[self._primary.question.reads[FEATURES]])
        if findings := self.findings(generator, position):
            warnings.warn(f"batch {position} of {generator} {'; '.join(findings)}", stacklevel=3)
        if indices is not None:
            end = self._ends[generator]
            self._gaps[generator] = gaps_after(self._gaps[generator], end, indices)
            self._ends[generator] = max(end, sum(indices))
        score_due(self._metrics)
        self._follow()

    def audits(self, count: int = 10) -> list[int]:
        """The indices of the samples that people are to score next, in their order: of each generator in question.

        They are chosen among those that a judge has scored of all these generators, at random or by its doubt, and stay
        the same until they are answered. Raises FixError for a metric without a judge.
        """
        check_whole("count", count, 1)
        arms = rivals(self._arms())
        audited = [self._primary.estimator(arm.name).audited for arm in arms]
        rows = min(len(one.scores) for one in audited)
        is_there = np.logical_and.reduce([one.is_scored[:rows] for one in audited])
        is_answered = np.logical_and.reduce([one.is_answered[:rows] for one in audited])
        self._weights |= {answer.audit: answer.weight for one in audited for answer in one.answers}
        is_asked = np.isin(np.arange(rows), [*self._weights])
        is_open = is_there & is_asked & ~is_answered
        open_audits = [index for index in self._weights if index < rows and is_open[index]][:count]
        seed = self.state.config.seed
        means = [arm.estimate.audited for arm in arms if arm.estimate is not None and arm.estimate.audited]
        means = means if len(means) == len(arms) else []
        more = count - len(open_audits)
        new = new_audits(seed, is_there, is_there & ~is_asked, means, len(self._weights), more)
        self._weights |= dict(new)
        return [*open_audits, *(index for index, _ in new)]

    def answer(self, audit: int, scores: Mapping[str, float]) -> None:
        """Record what people say of a sample that `audits` named, by generator. The same answer again changes nothing.

        The rule looks at every fifth audit. Raises NotFoundError for an unknown name; FixError, changing nothing, for a
        sample that a judge has not scored, for a score that is none, and for another answer to the same audit.
        """
        check_whole("audit", audit, 0)
        numbers = [check_number(f"audit {audit}: score of {name!r}", score) for name, score in scores.items()]
        answers = [AuditAnswer(audit, audit, self._weights.get(audit, 1.0), score) for score in numbers]
        audited = [self._estimator(name, None).audited for name in scores]
        for judged, answer in zip(audited, answers, strict=True):
            judged.check([answer])
        for name, judged, answer in zip(scores, audited, answers, strict=True):
            before = len(judged.answers)
            judged.answer([answer])
            if len(judged.answers) > before and len(judged.answers) % A_BATCH == 0:
                self._primary.score_all(name)
        self._follow()

    @property
    def judge(self) -> tuple[str, ...]:
        """The worth of the judge, the cost of people, and a warning for each generator that the judge favours; nothing
        before the audits."""
        return tuple(said_of_audits(self.state, None))

    def _follow(self) -> None:
        """Take what is new of the estimates into the state, and make the mixture that is due."""
        self._take_estimates()
        state, stored = self.state, self.state.stored
        if state.can_be_scored and stored.is_mixture_due:
            parts = {generator.ordinal: LogExtent(generator.seq, generator.samples) for generator in stored.mixable}
            self._put_mixture(self._primary.mixture(published=stored.mixture_growth == 0.0), parts)
        if state.can_be_scored and stored.is_model_due:
            parts = {generator.ordinal: LogExtent(generator.seq, generator.samples) for generator in stored.modelled}
            self._put_model(self._primary.model([*parts]), parts)

    def findings(self, generator: str, position: int) -> list[str]:
        """Phrases that say what is anomalous about a batch, by all recorded batches. position: as of `accept`."""
        return self._scales.anomalous(self.state).findings.get((self._ordinals[generator], position), [])

    def accept(self, generator: str, position: int | None = None) -> bool:
        """Accept a batch on another scale than others as it is; without a position, all of a generator so far.

        A decision that rests on it is then no longer provisional. position: of the batch among its generator's batches,
        from 1. Returns False if it had been accepted. Raises NotFoundError for an unknown name, FixError for a position
        without a batch.
        """
        state = self._generator(generator)
        if position is not None and not 1 <= check_whole("position", position, 1) <= state.batches:
            raise FixError(f"position: {generator!r} has {state.batches} batches, got {position}")
        until = position or state.batches
        if until <= state.accepted_until or position in state.accepted:
            return False
        state.acceptances.append(AcceptanceRecord(state.ordinal, position or 0, until, "", time.time(), ""))
        self._scales.forget()
        return True

    def blend(self, size: int) -> Blend:
        """The counts of samples to take next of each generator, `size` in all, to serve users with the best mixture.

        With the goal "mixture" the weights are the newest mixture's, else of one made now. What one call rounds
        the next ones make up for: all counts together differ from the shares by less than one sample each, as long as
        the weights are the same. Raises FixError before there is a mixture, as `mixture` does.
        """
        check_whole("size", size, 1)
        mixture = self.state.goal.mixture or self._primary.mixture()
        counts, self._credits = blend_counts(mixture.weights, self._credits, size)
        shared = zip(self.generators, counts, strict=True)
        return Blend(counts={name: count for name, count in shared if count}, weights=mixture.shares)

    @property
    def latest_mixture(self) -> Mixture | None:
        """With the goal "mixture" the newest mixture, by which picks are made; None before the first."""
        return self.state.goal.mixture

    @property
    def _questions(self) -> list[Question]:
        return [estimators.question for estimators in self._metrics.values()]
