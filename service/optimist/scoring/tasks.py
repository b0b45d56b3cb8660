"""Work of a scorer: the state of each generator, and of each artefact of all generators, by one metric; and their sums,
as gauges."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from optimist.insight import metrics
from optimist.records import ExperimentState, GeneratorState
from optimist.scoring.cached import CachedStatistic
from optimist.store import MIXTURE, MODEL_UNIT, Announcement, ClaimSubject, claimed_for

if TYPE_CHECKING:
    from optimist.scoring.experiments import ScoredExperiment

Subject = tuple[str, str]
"""The full name of an experiment, and the label of one of its metrics."""
TaskKey = tuple[str, int, str]
"""The full name of an experiment, the ordinal of a generator, and the label as of `Subject`."""
PUBLISH_EVERY = 2.0
"""Seconds between two models at least, however fast samples grow: every dispatcher reads each of them."""
LONGEST_TAIL = 8 * 2**20
"""Maximum bytes of a log beyond the snapshot while the size of the statistic is unknown."""
At = TypeVar("At", bound=ClaimSubject)


@dataclass(slots=True, eq=False)
class ScoringTask(Generic[At]):
    """A unit of scoring with a claim: idle until something is to be done, then waiting for a thread, working, idle
    again.

    From its first quantum on the scorer may hold the claim, and data derived under it, until `release`.
    Times are monotonic seconds.
    """

    name: str
    """The full name of the experiment."""
    ordinal: At
    label: str = ""
    """Metric label."""
    decides: bool = field(default=False, kw_only=True)
    """True if asks may wait for the result."""
    state: Literal["idle", "waiting", "working"] = field(default="idle", kw_only=True)
    queued: float = field(default=0.0, kw_only=True)
    """Time at which it last began to wait."""
    worked: float = field(default=0.0, kw_only=True)
    """Time at which its last quantum or lock ended."""
    again: bool = field(default=False, kw_only=True)
    """True if another quantum follows, because work was announced or left over."""
    is_locked: bool = field(default=False, kw_only=True)
    """True while a mixture reads it, or is about to: it gets no quantum of its own meanwhile."""
    problem: Literal["", "broken off", "failed"] = field(default="", kw_only=True)
    """Failure of its last quantum. "broken off" is retried at the next sweep, "failed" at the next announcement."""
    seconds: float | None = field(default=None, kw_only=True)
    """Processor time of the last result, or an expected one before the first; None: not known yet."""
    token: str = field(default="", kw_only=True)
    """Token of the claim under which results are published; "" while the scorer has no claim."""
    experiment: ScoredExperiment | None = field(default=None, kw_only=True)
    bytes: int = field(default=0, kw_only=True)
    """Bytes that `evict` frees."""
    is_wanted: bool = field(default=False, kw_only=True)
    """True if somebody waits for a result beside estimates: the modes of a generator, a mixture, or a table."""

    @property
    def address(self) -> tuple[str, At]:
        """Experiment and ordinal."""
        return self.name, self.ordinal

    @property
    def subject(self) -> Subject:
        """Experiment and label, which determine the bound."""
        return self.name, self.label

    def __str__(self) -> str:
        return f"{self.name}/{self.ordinal} by {self.label}"

    @property
    def expected_seconds(self) -> float:
        """Expected seconds of the next quantum; 0 while nothing is known."""
        return self.seconds or 0.0

    @property
    def is_ahead(self) -> bool:
        """True if its threads have the usual priority."""
        return self.decides

    @property
    def is_held(self) -> bool:
        return bool(self.token)

    def evict(self) -> None:
        """Drop data in memory. It is computed again from snapshots and logs, bit for bit, on demand."""
        self.bytes = 0

    def forget(self) -> None:
        """Forget everything derived under the claim."""
        self.evict()

    def start(self, experiment: ScoredExperiment) -> None:
        """Start again from snapshots, with this experiment; keep the claim."""
        self.forget()
        self.experiment = experiment

    def release(self) -> None:
        """Forget the claim, and everything derived under it."""
        self.forget()
        self.token, self.experiment = "", None


@dataclass(slots=True, eq=False)
class GeneratorTask(ScoringTask[int]):
    """One generator by one metric."""

    due: int = field(default=0, kw_only=True)
    """The newest known log position at which an estimate is due; 0: none."""
    samples: int = field(default=0, kw_only=True)
    """Number of samples at the last sweep."""
    modes_seconds: float = field(default=0.0, kw_only=True)
    """Processor time of its last modes; 0 before the first."""
    cached: CachedStatistic | None = field(default=None, kw_only=True)
    """The statistic at some position of the log; None before the first quantum and after `evict`."""
    published: int = field(default=0, kw_only=True)
    """Position of the newest estimate that was published under this claim."""
    wants_estimate: bool = field(default=False, kw_only=True)
    """True if somebody waits for the estimate of all batches, though none is due."""
    has_changed: bool = field(default=False, kw_only=True)
    """True if the last estimate says that answers have changed."""
    room: int = field(default=LONGEST_TAIL, kw_only=True)
    """Bytes that the log may have beyond the snapshot before the next snapshot is taken."""

    @property
    def key(self) -> TaskKey:
        """Experiment, ordinal and label."""
        return self.name, self.ordinal, self.label

    @property
    def expected_seconds(self) -> float:
        """Seconds of the estimate, and of the modes if they are wanted."""
        return (self.seconds or 0.0) + (self.modes_seconds if self.is_wanted else 0.0)

    def evict(self) -> None:
        self.cached, self.bytes = None, 0

    def forget(self) -> None:
        self.evict()
        self.published, self.room = 0, LONGEST_TAIL

    def release(self) -> None:
        ScoringTask.release(self)
        self.due = 0


@dataclass(slots=True, eq=False)
class CombinedTask(ScoringTask[At]):
    """Task of an artefact of all generators together."""

    copies: dict[int, CachedStatistic] = field(default_factory=dict, kw_only=True)
    """Statistics of generators that this scorer does not hold, to be read only, by ordinal."""

    def evict(self) -> None:
        self.copies, self.bytes = {}, 0


@dataclass(slots=True, eq=False)
class MixtureTask(CombinedTask[Literal["mixture"]]):
    """The mixture of an experiment's generators by one metric."""

    ordinal: Literal["mixture"] = MIXTURE


@dataclass(slots=True, eq=False)
class ModelTask(CombinedTask[Literal["model"]]):
    """The model that the picks of an experiment are made from, and its table, which is what somebody waits for.

    Asks are answered by the last model, and wait for no other.
    """

    ordinal: Literal["model"] = MODEL_UNIT
    published: float = field(default=-math.inf, kw_only=True)
    """Time at which the last model was published."""
    table_seconds: float = field(default=0.0, kw_only=True)
    """Processor time of its last table; 0 before the first."""
    left_out: frozenset[int] = field(default=frozenset(), kw_only=True)
    """Generators missing in the last model, because they could not be read."""

    @property
    def expected_seconds(self) -> float:
        """Seconds of the model, and of the table if it is wanted."""
        seconds = self.seconds or 0.0
        # Before the first table it is expected to take five times as long as the model.
        return seconds + (self.table_seconds or 5.0 * seconds if self.is_wanted else 0.0)

    @property
    def is_ahead(self) -> bool:
        """True: without a model nothing is learned, and while the machine is busy threads of low priority may make
        none for minutes."""
        return True

    @property
    def may_publish(self) -> bool:
        """True if the last model is old enough for another one."""
        return time.monotonic() >= self.published + PUBLISH_EVERY

    def forget(self) -> None:
        self.evict()
        self.left_out = frozenset()


class Overview:
    """Sums over all generators as they were last seen, and the times since which estimates and snapshots are due."""

    def __init__(self) -> None:
        self._total: Counter[str] = Counter()
        self._sums: dict[str, Counter[str]] = {}
        """Sums by experiment, as `_due` and `_full`."""
        self._due: dict[str, dict[TaskKey, float]] = {}
        self._full: dict[str, dict[TaskKey, float]] = {}

    def keep(self, names: Collection[str]) -> None:
        """Forget all experiments but these."""
        for name in self._sums.keys() - set(names):
            self._total.subtract(self._sums.pop(name))
            del self._due[name], self._full[name]

    def see(self, name: str, generators: Iterable[GeneratorState], outgrown: Iterable[TaskKey]) -> None:
        """Count an experiment anew; outgrown: what a snapshot is due of, as the log is long.

        Nobody waits for estimates by metrics that do not decide.
        """
        sums, due, now = Counter[str](), list[TaskKey](), time.monotonic()
        for generator in generators:
            counts = generator.state != "retired"
            (first, primary), *others = generator.units.items()
            if counts and generator.due_seq > primary.estimate_seq:
                due.append((name, generator.ordinal, first))
            sums.update(
                generators=counts,
                scoring_errors=counts and primary.scoring_error is not None,
                watched_overdue=counts * sum(generator.due_seq > unit.estimate_seq for _, unit in others),
                watched_scoring_errors=counts * sum(unit.scoring_error is not None for _, unit in others),
                log_bytes=primary.log_bytes,
                log_entries=generator.seq - primary.snapshot_seq,
                quarantined=generator.quarantined_count,
            )
        self._total.subtract(self._sums.get(name, {}))
        self._total.update(sums)
        self._sums[name] = sums
        for times, keys in ((self._due, due), (self._full, outgrown)):
            before = times.get(name, {})
            times[name] = {key: before.get(key, now) for key in keys}

    def show(self, experiments: int, held: int, warm_bytes: int) -> None:
        now = time.monotonic()
        due = [since for times in self._due.values() for since in times.values()]
        full = [since for times in self._full.values() for since in times.values()]
        metrics.EXPERIMENTS.set(experiments)
        metrics.GENERATORS.set(self._total["generators"])
        metrics.SCORING_ERRORS.set(self._total["scoring_errors"])
        metrics.OVERDUE.set(len(due))
        metrics.WATCHED_OVERDUE.set(self._total["watched_overdue"])
        metrics.WATCHED_SCORING_ERRORS.set(self._total["watched_scoring_errors"])
        metrics.STALENESS.set(now - min(due, default=now))
        metrics.SNAPSHOT_AGE.set(now - min(full, default=now))
        metrics.LOG_BYTES.set(self._total["log_bytes"])
        metrics.LOG_ENTRIES.set(self._total["log_entries"])
        metrics.QUARANTINED_ENTRIES.set(self._total["quarantined"])
        metrics.HELD.set(held)
        metrics.WARM_BYTES.set(warm_bytes)
        metrics.LAST_SWEEP.set_to_current_time()


class ScoringTasks(dict[TaskKey, GeneratorTask]):
    """The tasks of all generators and metrics; `mixtures` and `models` have the tasks of these.

    Announcements and the state bring work.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overview = Overview()
        self.mixtures: dict[Subject, MixtureTask] = {}
        self.models: dict[str, ModelTask] = {}
        self.labels: dict[str, Sequence[str]] = {}
        """Labels of each experiment's metrics, the deciding metric's first."""
        self._limited: dict[str, Sequence[str]] = {}
        """Labels of the other deciding metrics of each experiment, which have limits."""
        self._mixture_goals: set[str] = set()  # experiments whose goal is the mixture

    @property
    def every(self) -> list[ScoringTask[Any]]:
        """The tasks of generators, of mixtures and of models."""
        return [*self.values(), *self.mixtures.values(), *self.models.values()]

    def keep(self, names: Collection[str]) -> None:
        """Forget all experiments but these, and of these the tasks that were released after long rest without a
        failure. Claimed generators of forgotten experiments are released later, as idle ones."""
        self.overview.keep(names)
        self.labels = {name: labels for name, labels in self.labels.items() if name in names}
        self._limited = {name: labels for name, labels in self._limited.items() if name in names}
        self._mixture_goals.intersection_update(names)
        kinds: list[dict[Any, Any]] = [self, self.mixtures, self.models]
        # Nothing is remembered of a task that was released, and rests for two minutes.
        rested = time.monotonic() - 120.0
        for tasks in kinds:
            for key, task in list(tasks.items()):
                rests = task.worked < rested and not task.problem
                if (rests or task.name not in names) and task.state == "idle" and not task.is_held:
                    del tasks[key]

    def hear(self, announcement: Announcement) -> Sequence[ScoringTask[Any]]:
        """The tasks that an announcement gives work to, the deciding metric's first."""
        name, wanted = announcement.experiment, announcement.wanted
        if wanted is not None:
            of = claimed_for(wanted)
            combined = self._mixture if of == MIXTURE else self._model
            task = self.task_of(name, of, wanted.label) if isinstance(of, int) else combined(name, wanted.label)
            if wanted.kind == "estimate" and isinstance(task, GeneratorTask):
                task.wants_estimate = True
            else:
                task.is_wanted = True
            return [task]
        # Estimates are due by all metrics.
        tasks = [self.task_of(name, announcement.generator, label) for label in self.labels.get(name, ())]
        for task in tasks:
            task.due = max(task.due, announcement.seq)
        return tasks

    def look_at(self, name: str, state: ExperimentState) -> Iterator[ScoringTask[Any]]:
        """The tasks with something due; state: with the units of all metrics."""
        self.labels[name], self._limited[name] = state.labels, state.limited
        outgrown: list[TaskKey] = []
        for generator in state.generators:
            for label, unit in generator.units.items():
                key = name, generator.ordinal, label
                task = self.get(key)
                is_outgrown = unit.log_bytes >= (LONGEST_TAIL if task is None else task.room)
                outgrown += [key] * is_outgrown
                is_due = is_outgrown or generator.due_seq > unit.estimate_seq
                if task is not None:
                    if task.state == "idle":
                        task.decides = self._decides(name, label)
                    is_due = task.problem != "failed" and (is_due or task.problem == "broken off")
                elif is_due:
                    task = self.task_of(name, generator.ordinal, label)
                if task is not None:
                    task.due, task.samples = generator.due_seq, generator.samples
                    if is_due:
                        yield task
        self.overview.see(name, state.generators, outgrown)
        (self._mixture_goals.discard if state.mixture_growth is None else self._mixture_goals.add)(name)
        for label in state.labels:
            mixture = self.mixtures.get((name, label))
            is_due = state.is_mixture_ready and label == state.labels[0]
            if is_due and (mixture is None or mixture.problem != "failed"):
                yield self._mixture(name, label)
            elif mixture is not None and mixture.problem == "broken off":
                yield mixture
        if state.is_model_ready:
            model = self._model(name, state.labels[0])
            # A failed model is tried again after 30 seconds; meanwhile picks use the earlier one.
            rests = model.problem == "failed" and time.monotonic() < model.worked + 30.0
            if model.may_publish and not rests:
                yield model

    def _decides(self, name: str, label: str) -> bool:
        return label in self.labels.get(name, ())[:1] or label in self._limited.get(name, ())

    def _mixture(self, name: str, label: str) -> MixtureTask:
        task = self.mixtures.setdefault((name, label), MixtureTask(name, label=label))
        task.decides = name in self._mixture_goals and self._decides(name, label)
        return task

    def _model(self, name: str, label: str) -> ModelTask:
        return self.models.setdefault(name, ModelTask(name, label=label))

    def task_of(self, name: str, ordinal: int, label: str) -> GeneratorTask:
        """The task of a generator by a metric, created if needed."""
        task = self.get((name, ordinal, label))
        if task is None:
            task = self[name, ordinal, label] = GeneratorTask(name, ordinal, label, decides=self._decides(name, label))
        return task
