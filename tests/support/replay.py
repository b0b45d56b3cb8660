"""An exported experiment run again in memory: every estimate made anew, and every pick chosen anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from optimist.archive.file import Archive
from optimist.estimates.estimate import Estimate
from optimist.estimates.mixture import Mixture
from optimist.estimation.artefacts import mixture_of
from optimist.estimation.question import Question
from optimist.estimation.stored import take
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.goals.mixture import ForMixture
from optimist.experiments.goals.registry import goal_named
from optimist.policies import Arm
from optimist.records import ExperimentState, LogEntry
from optimist.simulation.sources.files import question_in
from optimist_client.errors import FixError
from optimist_client.models import Experiment, Pick


@dataclass(frozen=True, slots=True)
class ReplayedPick:
    """A pick as it was made, and the generator that is chosen now from what it was made from."""

    pick: Pick
    generator: str

    @property
    def is_reproduced(self) -> bool:
        """Whether both are the same."""
        return self.generator == self.pick.generator


@dataclass(frozen=True, slots=True)
class Replay:
    """What came out: the estimates by generator and log position, at every due one, and the picks told by number."""

    estimates: dict[str, dict[int, Estimate]]
    picks: list[ReplayedPick]
    watched: dict[str, dict[str, dict[int, Estimate]]]
    """The same estimates by each watched metric, by its label."""


def replay(path: str | Path) -> Replay:
    """Run an exported experiment again from its log, as scorers and API did.

    Picks that were never told left no record. Raises FixError for a file that is no whole archive, and where the
    experiment did not keep its log or has retractions.
    """
    with Path(path).open("rb") as file:
        archive = Archive(file)
        experiment = archive.contents.experiment
        if not experiment.config.keep_log:
            raise FixError("the experiment was made without keep_log: there is no log to replay")
        if any(generator.retractions for generator in archive.contents.generators):
            raise FixError("batches of the experiment were retracted, but picks were made from scores with them")
        names = [generator.name for generator in archive.contents.generators]
        questions = [question_in(archive, label) for label in archive.labels]
        estimators = [_Replayed(archive, ordinal, questions) for ordinal in range(len(names))]
        by_name = dict(zip(names, estimators, strict=True))
        picks = sorted((pick for estimator in estimators for pick in estimator.picks), key=lambda pick: pick.number)
        begun = [estimator_of(experiment, questions[0]) for _ in names]
        mixtures = ReplayedMixtures(
            archive, {name: estimator for name, estimator in zip(names, begun, strict=True) if estimator}
        )
        chosen = [ReplayedPick(pick, _chosen(pick, by_name, experiment, mixtures)) for pick in picks]
    return Replay(
        {name: estimator.estimates for name, estimator in by_name.items()},
        chosen,
        {
            label: {name: estimator.watched[label] for name, estimator in by_name.items()}
            for label in archive.labels[1:]
        },
    )


class _Replayed:
    """One generator's log, taken a batch at a time."""

    def __init__(self, archive: Archive, ordinal: int, questions: Sequence[Question]) -> None:
        """questions: of the metric that decides, and of the watched ones."""
        self.picks: list[Pick] = []
        rows: list[int] = []
        estimators = [estimator_of(archive.contents.experiment, question) for question in questions]
        made: list[dict[int, Estimate]] = [{} for _ in estimators]
        for page in archive.log(ordinal):
            for entry in page:
                rows += [entry.rows] if entry.is_batch else []
                if entry.record:
                    self.picks.append(Pick.model_validate_json(entry.record))
                for estimator, estimates in zip(estimators, made, strict=True):
                    if estimator is not None and take(estimator, entry).is_due and estimator.statistic.samples:
                        estimates[entry.seq] = estimator.estimate()
        self.estimates = made[0]
        self.watched = dict(zip(archive.labels[1:], made[1:], strict=True))
        self.samples = [0, *accumulate(rows)]
        """By the number of batches told."""


def estimator_of(experiment: Experiment, question: Question) -> StreamingEstimator | None:
    """What one metric scores a log by; None where its kernels were still open, so that nothing was scored."""
    if question.is_open:
        return None
    widths = experiment.columns
    bound = question.bound_for({own: widths[name] for own, name in question.reads.items()})
    how = {"paired": question.is_paired, "clusters": question.counts, "reads": question.reads}
    return StreamingEstimator(bound, experiment.config.rescore_growth, **how)


def _chosen(pick: Pick, estimators: dict[str, _Replayed], experiment: Experiment, mixtures: ReplayedMixtures) -> str:
    contenders = generators_of(pick, list(estimators))
    goal = goal_named(experiment.config.goal)
    is_best = not issubclass(goal, ForMixture)
    costs = pick.costs or [None] * len(contenders)
    counts = (pick.positions, pick.batches, pick.pending_samples, pick.pending_batches, costs)
    arms = [
        Arm(
            name,
            estimators[name].estimates[position] if position and is_best else None,
            estimators[name].samples[batches],
            batches,
            pending_samples,
            pending_batches,
            active=name not in pick.excluded,
            cost=cost,
        )
        for name, position, batches, pending_samples, pending_batches, cost in zip(contenders, *counts, strict=True)
    ]
    active = sum(arm.active for arm in arms)
    needed = 0 if any(pick.positions) else goal.needed(experiment.config, active)
    now = goal.from_state(experiment, ExperimentState(0, 0, []), needed, None)
    if isinstance(now, ForMixture):
        now = replace(now, mixture=mixtures.of(pick, published=now.policy.goes_by_published))
    return contenders[now.pick(arms, pick.told, pick.number, None, 0.0).index]


def generators_of(pick: Pick, names: Sequence[str]) -> list[str]:
    """The generators that the lists of a pick are about. Generators are only ever added behind the others."""
    return [name for name in names if name not in pick.retired][: len(pick.positions)]


class ReplayedMixtures:
    """Goes through the logs of all generators once, as far as the picks ask for, in their order."""

    def __init__(self, archive: Archive, estimators: Mapping[str, StreamingEstimator]) -> None:
        """estimators: of all generators in order, begun anew; none where nothing could be scored."""
        self._estimators = estimators
        self._logs: dict[str, Iterator[LogEntry]] = {
            name: (entry for page in archive.log(ordinal) for entry in page) for ordinal, name in enumerate(estimators)
        }
        self._read = dict.fromkeys(estimators, 0)
        self._made: tuple[dict[str, int], Mixture] | None = None

    def of(self, pick: Pick, *, published: bool) -> Mixture | None:
        """The mixture that a pick was made from, at its positions; None without one. published: as of `mixture_of`.

        Picks must come in order, so that no position is smaller than one before.
        """
        named = zip(generators_of(pick, list(self._estimators)), pick.positions, strict=True)
        positions = {name: position for name, position in named if position}
        if not positions:
            return None
        if self._made is None or self._made[0] != positions:
            for name, position in positions.items():
                while self._read[name] < position:
                    entry = next(self._logs[name])
                    take(self._estimators[name], entry)
                    self._read[name] = entry.seq
            made = mixture_of({name: self._estimators[name] for name in positions}, published=published)
            self._made = positions, made
        return self._made[1]
