"""The bounds of the experiments that a scorer works on, one for each metric, built once its kernels can be fixed.

The first batches of a log fix open kernels and the bandwidth of contexts.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from optimist.arrays import Floats
from optimist.estimation.learner import Learner
from optimist.estimation.question import Question
from optimist.estimation.stored import (
    asked_prompt_of,
    batch_of,
    metric_of,
    pack_kernels,
    question_of,
    stored_reference,
    unpack_kernels,
)
from optimist.estimation.streaming import first_rows
from optimist.experiments.goals.base import WithModel
from optimist.experiments.goals.registry import goal_named, learner_of
from optimist.metrics.bound import Bound
from optimist.metrics.implementations import make_reference
from optimist.records import Claim, LogEntry
from optimist.references.real_data import Reference
from optimist.scoring.cached import EstimatorSettings
from optimist.scoring.tasks import GeneratorTask, MixtureTask, ModelTask, ScoringTask, Subject
from optimist.scoring.threads import InThread
from optimist.store import Store, kernels_digest, namespace_of
from optimist_client.metrics import Metric
from optimist_client.models import Experiment

SECONDS_PER_PRODUCT = 1e-9
"""Seconds for an eigendecomposition of a (d, d) matrix, divided by d³: 5 s at d = 2048 on one core."""


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """One of the first batches of a log."""

    entry: LogEntry
    tensors: dict[str, Tensor]
    first: Floats
    """As of `Learner.first`; (0,) where no learner is open."""

    @classmethod
    def from_entry(cls, entry: LogEntry, question: Question) -> FirstBatch:
        """Decode a batch. Raises ValueError for an unreadable batch."""
        batch = batch_of(entry)[0]
        if question.learner is None or not question.learner.is_open:
            return cls(entry, batch, np.zeros(0))
        return cls(entry, batch, question.learner.first(asked_prompt_of(entry)))


async def first_batches(
    store: Store, log: tuple[str, int], question: Question, rows: int, batches: int
) -> list[FirstBatch]:
    """The first readable batches with `rows` rows together, at least `batches`; [] if there are too few.

    log: experiment and ordinal.
    """
    first: list[FirstBatch] = []
    retracted = await store.retracted_log(*log)
    seq, chain = max(0, retracted.restart - 1), ""
    while entries := await store.read_log(*log, seq, max_entries=32, chain=chain):
        for entry in entries:
            if not entry.is_batch or entry in retracted:
                continue
            with contextlib.suppress(ValueError):
                first.append(FirstBatch.from_entry(entry, question))
                rows -= entry.rows
            if rows <= 0 and len(first) >= batches:
                return first
        seq, chain = entries[-1].seq, entries[-1].chain
    return []


@dataclass(slots=True)
class ScoredExperiment:
    """An experiment that can be scored by one metric; `instance` distinguishes it from others of the same name.

    Its bound may be dropped between quanta; it is then built again, bit for bit the same.
    """

    instance: str
    growth: float
    kernels: str
    """`kernels_digest` of the kernels that the first samples fixed; "" if none was open."""
    made: Bound | None
    bytes: int
    """Bytes of the bound's feature maps; 0 without a bound. References are shared and counted separately."""
    estimator_settings: EstimatorSettings
    """Settings of estimators beside bound and growth."""
    delta: float = 0.05
    """δ of the intervals of mixtures."""
    published: bool = False
    """True if mixtures are made for a published policy, see `cross_fitted`."""
    learner: Learner | None = None
    """Learner of the model that picks are made from; None without one, and of metrics that do not decide."""

    @property
    def bound(self) -> Bound:
        """The bound. It exists as long as a task of the experiment is at work."""
        assert self.made is not None, "dropped while it was worked on"
        return self.made


class ReferenceCache:
    """Real data as metrics compare with it, for all experiments that this process scores.

    Metrics that differ in nothing but their labels and the arrays that they read share what they make of equal data. It
    is made once, and kept as long as the bound of an experiment uses it.
    """

    def __init__(self, store: Store, in_thread: InThread, device: torch.device) -> None:
        self._store = store
        self._in_thread = in_thread
        self._device = device
        self._made: WeakValueDictionary[tuple[str, str], Reference] = WeakValueDictionary()
        self._making: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def bytes(self) -> int:
        """Bytes of all references in memory."""
        return sum(reference.bytes for reference in list(self._made.values()))

    async def get(self, full_name: str, metric: Metric) -> Reference:
        """The reference that a metric names, in an experiment's namespace, converted for the metric.

        Raises ValueError where the reference is gone, or does not suffice for the metric.
        """
        named = metric.setting("reference")
        stored = self._store.in_namespace(namespace_of(full_name)).references
        digest = await stored.digest(named)
        if digest is not None:
            key = digest, metric.model_dump_json(exclude={"reference", "label", "reads"})
            async with self._making.setdefault(key, asyncio.Lock()):
                if (cached := self._made.get(key)) is not None:
                    return cached
                if (stored_data := await stored.get(named)) is not None:
                    made = self._made[key] = await self._in_thread(_made_of, metric, stored_data[1], self._device)
                    return made
        raise ValueError(f"reference {named!r} is gone")


def _made_of(metric: Metric, body: bytes, device: torch.device) -> Reference:
    return make_reference(metric, stored_reference(body), device)


class ExperimentCache:
    """The bounds of all experiments and metrics that this process scores, built when needed."""

    def __init__(self, store: Store, in_thread: InThread, device: torch.device) -> None:
        self._device = device
        self._store = store
        self._in_thread = in_thread
        self._references = ReferenceCache(store, in_thread, device)
        self._cached: dict[Subject, ScoredExperiment] = {}
        self._making: dict[Subject, asyncio.Lock] = {}

    async def get(self, task: ScoringTask[Any], claim: Claim) -> ScoredExperiment | None:
        """The experiment of this claim; None if it was deleted, or has too few samples to fix its kernels.

        Raises ValueError if the reference of its metric was deleted.
        """
        subject = task.subject
        async with self._making.setdefault(subject, asyncio.Lock()):
            cached = self._cached.get(subject)
            if cached is not None and cached.instance == claim.instance and cached.made is not None:
                return cached
            self._cached.pop(subject, None)
            made = await self._make(task, claim)
            if made is None:
                return None
            if cached is not None and (cached.instance, cached.kernels) == (made.instance, made.kernels):
                # Keep the same object, so that tasks keep their statistics.
                cached.made, cached.bytes = made.made, made.bytes
                made = cached
            self._cached[subject] = made
            return made

    async def expected_seconds(self, task: ScoringTask[Any]) -> float:
        """A rough estimate of the time of a first quantum, from the sizes of its matrices; never 0."""
        text = await self._store.config(task.name)
        if text is None:
            return SECONDS_PER_PRODUCT
        experiment = Experiment.model_validate_json(text)
        goal = goal_named(experiment.config.goal)
        if isinstance(task, ModelTask) and issubclass(goal, WithModel):
            return SECONDS_PER_PRODUCT * goal.work(experiment.config)
        metric = metric_of(experiment, task.label)
        kernels = [kernel for name in metric.kernels if (kernel := metric.setting(name)) is not None]
        columns = experiment.widths_of(metric)[metric.first_array()]
        features = [kernel.features or 0 for kernel in kernels]
        width = max(columns, *(2 * count for count in features), 1)
        if isinstance(task, MixtureTask):  # products of each two, of both halves and of all
            return SECONDS_PER_PRODUCT * 3 * len(experiment.config.generators) ** 2 * width**2
        samples = task.samples if isinstance(task, GeneratorTask) else 0
        rows = min(max(samples, 1), width)
        is_cached = task.subject in self.cached
        if metric.setting("reference") is None:
            drawn = 0 if is_cached else columns * sum(features)
            # To draw one number of a feature map takes 20 ns.
            return SECONDS_PER_PRODUCT * rows**2 * width + 2e-8 * drawn
        return SECONDS_PER_PRODUCT * (rows if is_cached else width) * width**2

    def forget_fitted(self, subject: Subject | None = None) -> None:
        """Drop the bounds with fixed kernels, of one metric or of all: Redis may have lost these kernels."""
        for cached in list(self._cached) if subject is None else [subject]:
            if cached in self._cached and self._cached[cached].kernels:
                del self._cached[cached]

    @property
    def bytes(self) -> int:
        """Bytes of all feature maps and references."""
        return sum(cached.bytes for cached in self._cached.values()) + self._references.bytes

    @property
    def cached(self) -> list[Subject]:
        """The experiments and metrics whose bound is in memory."""
        return [subject for subject, experiment in self._cached.items() if experiment.made is not None]

    def evict(self, subject: Subject) -> int:
        """Drop the bound of a metric until it is needed again. Returns the number of bytes freed."""
        before, cached = self._references.bytes, self._cached[subject]
        freed, cached.made, cached.bytes = cached.bytes, None, 0
        return freed + before - self._references.bytes

    def keep(self, names: set[str]) -> None:
        """Forget all experiments but these, and experiments being built."""
        for subject in [subject for subject in self._making if subject[0] not in names]:
            if not self._making[subject].locked():
                del self._making[subject]
                self._cached.pop(subject, None)

    async def _make(self, task: ScoringTask[Any], claim: Claim) -> ScoredExperiment | None:
        name, label = task.subject
        text = await self._store.config(name)
        if text is None:
            return None
        experiment = Experiment.model_validate_json(text)
        metric = metric_of(experiment, label)
        reference = None if metric.setting("reference") is None else await self._references.get(name, metric)
        learner = learner_of(experiment.config)
        question = await self._in_thread(question_of, experiment, reference, self._device, label, learner)
        fitted = None
        if question.is_open:
            fitted = await self._store.fitted(name, label) or await self._fit(question, task, claim)
            if fitted is None:
                return None
            question = unpack_kernels(question, fitted)
        bound = await self._in_thread(question.bound_for, experiment.widths_of(metric))
        digest = kernels_digest(fitted)
        growth = experiment.config.rescore_growth
        drawn = () if question.learner is None else question.learner.arrays
        size = bytes_of(bound, {id(reference)}) + sum(array.nbytes for array in drawn)
        estimator_settings = EstimatorSettings(
            paired=question.is_paired, clusters=question.counts, reads=question.reads, learner=question.learner
        )
        return ScoredExperiment(
            *(claim.instance, growth, digest, bound, size, estimator_settings),
            delta=experiment.config.delta,
            published=experiment.mixture_growth == 0.0 and metric is experiment.config.metric,
            learner=question.learner,
        )

    async def _fit(self, question: Question, task: ScoringTask[Any], claim: Claim) -> bytes | None:
        """Fix the open kernels, and the learner, permanently; None while active generators have too few
        samples."""
        name = task.name
        active = (await self._store.state(name)).active
        rows, batches = question.rows_to_fit(len(active)), question.batches_to_fit(len(active))
        if not active or any(state.samples < rows or state.batches < batches for state in active):
            return None
        read = {
            state.ordinal: await first_batches(self._store, (name, state.ordinal), question, rows, batches)
            for state in active
        }
        if not all(read.values()):
            return None
        logs = [[question.own(first.tensors) for first in log] for log in read.values()]
        firsts = [np.stack([batch.first for batch in log[:batches]]) for log in read.values()] if batches else []
        fitted = await self._in_thread(question.fitted, first_rows(logs, rows), firsts)
        # The first scorer to store them wins; from the same generators all compute the same.
        ends = {ordinal: log[-1].entry for ordinal, log in read.items()}
        packed = pack_kernels(question, fitted)
        return await self._store.put_fitted(*task.address, packed, claim.token, ends, label=task.label)


def bytes_of(thing: Any, seen: set[int] | None = None) -> int:
    """Bytes of all tensors in an object and its parts, each storage counted once, except storages in `seen` by id."""
    seen = set() if seen is None else seen
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
    else:
        key, size = id(thing), 0
    if key in seen:
        return 0
    seen.add(key)
    parts = thing.values() if isinstance(thing, dict) else getattr(thing, "__dict__", {}).values()
    return size + sum(bytes_of(part, seen) for part in parts)
