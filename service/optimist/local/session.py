"""An evaluation as a whole: estimates, differences, modes, its report and plot, and the file that it is saved in."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.anomalies.batches import check_whole
from optimist.anomalies.plausibility import Plausibility
from optimist.estimates.estimate import Estimate
from optimist.estimates.mixture import Mixture
from optimist.estimation.arrays import columns_of
from optimist.estimation.metric_estimators import Arrays, MetricEstimators
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.answers import waiting_text
from optimist.experiments.decision import latched_text
from optimist.experiments.goals.base import WithModel
from optimist.experiments.goals.mixture import ForMixture
from optimist.experiments.report import check_compared, gate_on, report_of
from optimist.experiments.state import PolicyState
from optimist.local.config import SETTINGS
from optimist.local.copies_told import CopyCounts
from optimist.local.gaps import IndexRun
from optimist.local.saving import metric_from, metric_parts, read, write
from optimist.local.scales import Scales
from optimist.policies import Arm, Decision, contrast, optimistic, shown_mixture
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import AcceptanceRecord, GeneratorState, LogExtent, StoredArtefact, codec, extents
from optimist_client import models
from optimist_client.errors import FixError, NotFoundError
from optimist_client.margins import Margin, by_label
from optimist_client.models import Contrast, Gate
from optimist_client.models.modes import ModeInfo, PromptGroupInfo


class Readings:
    """The estimators of generators by each metric, and what they say. The base of `Evaluation`, which tells them."""

    def __init__(self, state: PolicyState, metrics: Mapping[str, MetricEstimators]) -> None:
        """metrics: by label, the one that decides first."""
        self.state = state
        """Counts, estimates, open picks and goal, as a service has them."""
        self.generators: tuple[str, ...] = tuple(state.config.generators)
        self._ordinals = {name: ordinal for ordinal, name in enumerate(self.generators)}
        self._metrics = dict(metrics)
        self._primary = next(iter(self._metrics.values()))

    @property
    def told(self) -> int:
        """Batches recorded so far, the t of rules/stopping.md."""
        return self.state.stored.told

    @property
    def samples(self) -> int:
        """Samples recorded so far, of all generators together."""
        return self.state.samples

    def counts(self, generator: str) -> tuple[int, int]:
        """Samples and batches of a generator. Raises NotFoundError for an unknown name."""
        state = self._generator(generator)
        return state.samples, state.batches

    def estimates(self, metric: str | None = None) -> dict[str, Estimate | None]:
        """The latest estimate of each generator, None before its first; `optimistic` is what `ucb` ranks by now.

        metric: the label of one of the metrics; None: the one that decides. Raises NotFoundError for another label.
        """
        return {
            name: estimate and replace(estimate, optimistic=optimistic(estimate, self.told))
            for name, estimate in self._of(metric).estimates.items()
        }

    @property
    def watched(self) -> dict[str, dict[str, Estimate | None]]:
        """The `estimates` of each watched metric by its label."""
        return {label: self.estimates(label) for label in list(self._metrics)[1:]}

    def contrast(self, generator: str, against: str, *, metric: str | None = None) -> Contrast:
        """The difference by which `generator` scores worse than `against`, with its error.

        metric: as of `estimates`. Raises NotFoundError for an unknown name or label, FixError if the two are the same
        or one of them has no estimate, and with the goal "route", where each had prompts of its own.
        """
        for name in (generator, against):
            self._generator(name)
        check_compared(self.state)
        estimates = self._of(metric).estimates
        arm, other = (Arm(name, estimates[name]) for name in (generator, against))
        return contrast(
            arm, other, self.state.goal.stopping.threshold(len(estimates), self.state.looks), FEWEST_SAMPLES
        )

    def gate(self, candidate: str, baseline: str, margin: Margin) -> Gate:
        """A gate: `candidate` is at least as good as `baseline`, but for a margin; it holds at every look.

        margin: a difference on the scale on which scores are compared, or a share of the baseline's score such as "1%",
        by the metric that decides; or margins by the labels of metrics, all of which are to be met. Raises
        NotFoundError for an unknown name, FixError for an unknown label, for a margin that is none, and as `contrast`.
        """
        for name in (candidate, baseline):
            self._generator(name)
        return gate_on(self.state, candidate, baseline, by_label(margin, [next(iter(self._metrics))]))

    def modes(self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None) -> list[ModeInfo]:
        """The generator's largest modes, each with the ids of the samples that show it most (equations.md §3c).

        metric: as of `estimates`. Raises NotFoundError for an unknown name or label, FixError for metrics without modes
        and before the first estimate.
        """
        estimator = self._estimator(generator, metric)
        return estimator.modes(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def prompt_groups(
        self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None
    ) -> list[PromptGroupInfo]:
        """The score by type of prompt, the largest first, each with samples of such prompts (equations.md §4).

        Raises as `modes` does; only the scores of pairs have prompts.
        """
        estimator = self._estimator(generator, metric)
        return estimator.prompt_groups(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def influence(self, generator: str, batch: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """By how much each of some of a generator's samples makes its score better, up to a constant.

        None if the metric does not say it. batch: rows (n, …) that were told, by array. By the metric that decides, on
        the scale on which scores are compared. Raises NotFoundError for an unknown name, FixError before the second
        sample.
        """
        estimator = self._estimator(generator, None)
        influence = estimator.influence({name: torch.from_numpy(np.asarray(rows)) for name, rows in batch.items()})
        return None if influence is None else (-influence if estimator.metric.lower_is_better else influence)

    def mixture(self, metric: str | None = None) -> models.Mixture:
        """The best mixture of all generators, by all samples: weights, score, gain over the best single generator.

        metric: as of `estimates`. Raises NotFoundError for an unknown label; FixError for a metric whose mixtures have
        no score, and while a generator has fewer than 4 samples, or too few to fix open kernels.
        """
        estimators = self._of(metric)
        return shown_mixture(estimators.mixture(), estimators.question.metric, self.state.goal.stopping, self.told)

    def _generator(self, name: str) -> GeneratorState:
        if name not in self._ordinals:
            raise NotFoundError(f"unknown generator {name!r}; expected one of {', '.join(self.generators)}")
        return self.state.stored.generators[self._ordinals[name]]

    def _of(self, metric: str | None) -> MetricEstimators:
        if metric is not None and metric not in self._metrics:
            raise NotFoundError(f"unknown metric {metric!r}; expected one of {', '.join(self._metrics)}")
        return self._primary if metric is None else self._metrics[metric]

    def _estimator(self, generator: str, metric: str | None) -> StreamingEstimator:
        self._generator(generator)
        return self._of(metric).estimator(generator)


_COUNTS = ("samples", "batches", "seq", "due_samples", "due_seq", "answered", "unanswered")
"""The counts of a generator that a saved evaluation keeps."""
REMEDY = "leave {it} out, or accept {it}"
"""The advice about batches on another scale: nothing is kept that could be retracted."""


class BaseEvaluation(Readings):
    """The part of an evaluation that does not depend on how batches are recorded: report, plot, file.

    `Evaluation` tells the batches.
    """

    def __init__(self, state: PolicyState, metrics: Mapping[str, MetricEstimators]) -> None:
        super().__init__(state, metrics)
        self._ends = dict.fromkeys(self.generators, 0)
        """By generator the index after the largest one told."""
        self._gaps = {name: list[IndexRun]() for name in self.generators}
        """By generator the runs of indices before that which were not told, ascending."""
        self._weights: dict[int, float] = {}
        """The weight of each audit that somebody was asked for, by its index."""
        self._credits = [0.0] * len(self.generators)
        self._table: models.Routes | None = None
        """The newest table of the goal's model."""
        self._plausibility = Plausibility(state.experiment.scales, state.config.max_magnitude)
        self._scales = Scales(len(self.generators))
        real = self._primary.question.reference
        self._copies = CopyCounts(self.generators, None if real is None else real.hashes)

    def gaps(self, generator: str) -> list[IndexRun]:
        """The first and the length of each run of indices before `next_start` that were not told, ascending."""
        return self._gaps[generator]

    @property
    def batch_size(self) -> int:
        """The samples of a pick."""
        return self.state.config.batch_size

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays of a batch, first the array of the metric that decides."""
        return tuple(columns_of([estimators.question for estimators in self._metrics.values()]))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that it was made with, beside generators and metrics."""
        return self.state.config.model_dump(mode="json", include=SETTINGS, exclude_unset=True)

    @property
    def best(self) -> str | None:
        """The best generator so far; None before every generator has an estimate."""
        return self.decision(explain=False).best

    def decision(self, explain: bool = True, *, pending: Mapping[str, int] | None = None) -> Decision:
        """The best generator, the confidence in it, whether that is enough to stop, and the reason.

        `explain` adds a verdict for each rival and the comparison with the hardest one, which takes half a millisecond.
        With the goal "mixture" it is decided that the best mixture is known; the confidence is that it beats `best`.

        pending: as of `ask`; None: the open picks of `run`. Where scores go with the time of an answer (`Mean.timed`),
        nothing is decided while there are any: `awaited` then has them. Ask for no others, and look again once they are
        told.
        """
        state = self._present(pending)
        decision = (state.goal.explain if explain else state.goal.decide)(state.arms, state.looks)
        if not decision.decided or not state.lacks_answers:
            return decision
        awaited = state.awaited
        reason = f"{decision.reason}; {waiting_text(awaited, state.is_timed)}"
        return replace(decision, decided=False, reason=reason, awaited=awaited)

    def report(
        self, name: str | None = None, *, budget: int | None = None, pending: Mapping[str, int] | None = None
    ) -> models.Report:
        """Standings, contrasts, regret, pick ratio and decision: the same class as the report of a service.

        name: what the report calls the evaluation. budget: samples after which the caller ends: an evaluation that has
        as many and is undecided is "out of budget". pending: as of `ask`. The decision is the one of this moment.
        """
        now = self.now(pending)
        now.budget = now.budget if budget is None else budget
        now.arms = self._arms(pending)
        now.config = now.config if name is None else now.config.model_copy(update={"name": name})
        anomalous = self._scales.anomalous(now)
        report = report_of(now, table=self._table, anomalous=anomalous)
        real = [each for each in self._copies.from_reference if not self._generator(each.generator).accepted_until]
        real = real if now.config.on_anomaly == "hold" else []
        changed = {"remedy": REMEDY, "anomalies": (*anomalous.groups, *real)}
        standings = [
            row.model_copy(update={"warnings": (*row.warnings, *self._copies.warnings(row.generator))})
            for row in report.standings
        ]
        return report.model_copy(
            update={
                "decision": report.decision.model_copy(update=changed),
                "standings": standings,
                "basis": self._copies.basis({row.generator: row.samples for row in report.standings}),
                "open_picks": sum(arm.pending_batches for arm in now.arms),
            }
        )

    def now(self, pending: Mapping[str, int] | None = None) -> PolicyState:
        """The state, with the decision of this moment if there is one. Later samples may undo it. pending: as of
        `ask`."""
        now = self._present(pending)
        if now.would_stop and not now.is_held:
            now.stored = replace(now.stored, decision=latched_text(now, self._scales.anomalous(now)))
        return now

    def _present(self, pending: Mapping[str, int] | None) -> PolicyState:
        """The state with these batches on their way; with estimates of all batches, where a decision needs them."""
        now = copy(self.state)
        now.pending = pending
        if not (now.awaits_answers and now.unscored and now.live_decision.decided) or now.awaited:
            return now
        for generator in now.unscored:
            for label in (now.config.metric.shown_label, *now.stored.limited):
                self._metrics[label].score_all(generator.name)
                if (estimate := self._metrics[label].estimates[generator.name]) is not None:
                    self.state.put_estimate(generator.ordinal, estimate, label, generator.seq)
        now = copy(self.state)
        now.pending = pending
        return now

    def route_table(self) -> models.Routes:
        """With the goal "route": which generator is the best one for which prompts, and what routing gains.

        Raises FixError for another goal, and while there are too few samples.
        """
        goal, rows = self.state.goal, self._primary.rows()
        assert isinstance(goal, WithModel)
        parts = extents(self.state.stored.generators)
        table = self._table = goal.table(self.state, rows, parts)
        return table

    def plot(self, axes: Any = None, *, metric: str | None = None) -> Any:
        """Draw scores and intervals with matplotlib, as `Report.plot` does."""
        return self.report().plot(axes, metric=metric)

    def save(self, file: str | Path) -> None:
        """Write everything to one file without pickles (`.npz`), for `load`. An existing file is replaced at once.

        Real data and statistics are in it: by FID at 2,048 features some 70 MB for each generator. Raises OSError, and
        FixError for a reference that is not real data.
        """
        arrays: Arrays = {}
        metrics: dict[str, Any] = {}
        for index, (label, metric) in enumerate(self.state.config.metrics.items()):
            settings, own = metric_parts(metric, f"metric/{index}")
            estimator, state = self._metrics[label].state()
            metrics[label] = {"settings": settings, "estimators": estimator}
            arrays |= own | {f"estimators/{index}/{name}": array for name, array in state.items()}
        arrays |= {f"hashes/{index}": self._copies.hashes(name) for index, name in enumerate(self.generators)}
        if self._copies.reference is not None:
            arrays["hashes/reference"] = self._copies.reference
        stored, mixture = self.state.stored, self.state.goal.mixture
        values: dict[str, Any] = {
            "generators": self.generators,
            "settings": self.settings,
            "metrics": metrics,
            "counts": {name: [getattr(state, name) for state in stored.generators] for name in _COUNTS},
            "ends": self._ends,
            "gaps": self._gaps,
            "audits": [*self._weights.items()],
            "credits": self._credits,
            "columns": self.state.experiment.columns,
            "accepted": [
                [[each.position, each.until, each.when] for each in state.acceptances] for state in stored.generators
            ],
            "plausibility": self._plausibility.state(),
            "scales": self._scales.state(),
            "mixture": mixture and codec.encode(mixture),
            "mixed": stored.mixture and [[ordinal, *part] for ordinal, part in stored.mixture.parts.items()],
            "modelled": stored.model and [[ordinal, *part] for ordinal, part in stored.model.parts.items()],
        }
        if stored.model is not None:
            arrays["model"] = np.frombuffer(stored.model.payload, np.uint8)
        write(Path(file), values, arrays)

    @classmethod
    def load(cls, file: str | Path, *, device: str = "cpu") -> Self:
        """The evaluation that `save` wrote, which goes on as the saved one would have. Raises FixError.

        Metrics that are not part of Optimist must be registered before.
        """
        values, arrays = read(Path(file))
        try:
            return cls._restored(values, arrays, device)
        except (KeyError, ValueError, TypeError, AssertionError) as error:
            raise FixError(f"{file}: expected a file that Evaluation.save wrote: {error}") from None

    @classmethod
    def _restored(cls, values: Mapping[str, Any], arrays: Arrays, device: str) -> Self:
        saved = list(enumerate(values["metrics"].values()))
        first, *watch = (metric_from(each["settings"], arrays, f"metric/{index}") for index, each in saved)
        make: Any = cls  # Evaluation, whose arguments these are
        restored = make(values["generators"], metric=first, watch=watch, device=device, **values["settings"])
        restored._credits, restored._ends = values["credits"], values["ends"]
        restored._gaps = {name: [(start, size) for start, size in runs] for name, runs in values["gaps"].items()}
        restored._weights = dict(map(tuple, values["audits"]))
        columns = restored.state.experiment.columns
        columns |= values["columns"]
        for estimators, (index, metric) in zip(restored._metrics.values(), saved, strict=True):
            begin = f"estimators/{index}/"
            own = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
            estimators.restore(metric["estimators"], own, columns)
        restored._plausibility.restore(values["plausibility"])
        restored._scales.restore(values["scales"])
        for index, name in enumerate(restored.generators):
            restored._copies.restore(name, arrays[f"hashes/{index}"])
        restored._copies.reference = arrays.get("hashes/reference")
        restored._restore_state(values, arrays)
        return restored

    def _restore_state(self, values: Mapping[str, Any], arrays: Arrays) -> None:
        stored, counts = self.state.stored, values["counts"]
        for name in _COUNTS:
            for generator, value in zip(stored.generators, counts[name], strict=True):
                setattr(generator, name, value)
        for generator, accepted in zip(stored.generators, values["accepted"], strict=True):
            generator.acceptances = [
                AcceptanceRecord(generator.ordinal, position, until, "", when, "") for position, until, when in accepted
            ]
        stored.told = sum(counts["batches"])
        self.state = PolicyState(self.state.experiment, stored)
        self._take_estimates()
        if values["mixture"] is not None:
            parts = {ordinal: LogExtent(seq, samples) for ordinal, seq, samples in values["mixed"]}
            self._put_mixture(codec.decode(Mixture, values["mixture"]), parts)
        if values["modelled"] is not None:
            parts = {ordinal: LogExtent(seq, samples) for ordinal, seq, samples in values["modelled"]}
            self._put_model(arrays["model"].tobytes(), parts)

    def _take_estimates(self) -> None:
        """Take what is new of the estimates into the state."""
        for label, estimators in self._metrics.items():
            earlier = self.state.estimates_by(label)
            for ordinal, estimate in enumerate(estimators.estimates.values()):
                if estimate is not None and estimate is not earlier[ordinal]:
                    self.state.put_estimate(ordinal, estimate, label)

    def _put_mixture(self, mixture: Mixture, parts: Mapping[int, LogExtent]) -> None:
        stored, goal = self.state.stored, self.state.goal
        assert isinstance(goal, ForMixture)
        stored.mixture = StoredArtefact(f"{stored.told}", parts)
        self.state.put_goal(replace(goal, stored=stored.mixture, mixture=mixture))

    def _put_model(self, payload: bytes, parts: Mapping[int, LogExtent]) -> None:
        stored, goal = self.state.stored, self.state.goal
        assert isinstance(goal, WithModel)
        stored.model = StoredArtefact(f"{stored.told}", parts, payload)
        self.state.put_goal(goal.with_model(stored.model))

    def _arms(self, pending: Mapping[str, int] | None = None) -> list[Arm]:
        """The arms, with so many open picks of each in place of the state's."""
        if pending is None:
            return list(self.state.arms)
        size = self.batch_size
        counts = [pending.get(arm.name, 0) for arm in self.state.arms]
        return [
            replace(arm, pending_samples=size * count, pending_batches=count)
            for arm, count in zip(self.state.arms, counts, strict=True)
        ]
