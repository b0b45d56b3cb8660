"""An evaluation as a whole: estimates, differences, modes, its report and plot, and the file that it is saved in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from optimist.estimation.arrays import columns_of
from optimist.estimation.metric_estimators import Arrays, MetricEstimators
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.goals import Aim
from optimist.local.saving import metric_from, metric_parts, read, write
from optimist.local.scales import Scales
from optimist.metrics.modes import Mode, PromptGroup
from optimist.numerics.batches import check_whole
from optimist.numerics.estimate import Estimate
from optimist.numerics.mixture import Mixture
from optimist.numerics.plausibility import Plausibility
from optimist.policies import Arm, Decision, Stopping, contrast, optimistic, shown_mixture
from optimist.policies.reports import report_on, standing_of, watched_report
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client import models
from optimist_client.errors import FixError, NotFoundError
from optimist_client.metrics import Metric
from optimist_client.models import Contrast, DecisionInfo
from optimist_client.models.experiments import State


class Readings:
    """The estimators of generators by each metric, and what they say. The base of `Evaluation`, which tells them."""

    def __init__(
        self, generators: tuple[str, ...], metrics: Mapping[str, MetricEstimators], stopping: Stopping
    ) -> None:
        """metrics: by label, the one that decides first."""
        self.generators = generators
        self._metrics = dict(metrics)
        self._primary = next(iter(self._metrics.values()))
        self._stopping = stopping
        self._samples, self._batches, self._ends = (dict.fromkeys(generators, 0) for _ in range(3))

    @property
    def told(self) -> int:
        """Batches recorded so far, the t of decisions.md §3."""
        return sum(self._batches.values())

    @property
    def samples(self) -> int:
        """Samples recorded so far, of all generators together."""
        return sum(self._samples.values())

    def counts(self, generator: str) -> tuple[int, int]:
        """Samples and batches of a generator. Raises NotFoundError for an unknown name."""
        self._check_name(generator)
        return self._samples[generator], self._batches[generator]

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
        or one of them has no estimate.
        """
        for name in (generator, against):
            self._check_name(name)
        found = self._of(metric).estimates
        one, other = (Arm(name, found[name]) for name in (generator, against))
        return contrast(one, other, self._stopping.threshold(len(found), self.told), FEWEST_SAMPLES)

    def modes(self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None) -> list[Mode]:
        """The generator's largest modes, each with the ids of the samples that show it most (equations.md §3c).

        metric: as of `estimates`. Raises NotFoundError for an unknown name or label, FixError for metrics without modes
        and before the first estimate.
        """
        estimator = self._estimator(generator, metric)
        return estimator.modes(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def prompt_groups(
        self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None
    ) -> list[PromptGroup]:
        """The score by type of prompt, the largest first, each with samples of such prompts (equations.md §4).

        Raises as `modes` does; only the scores of pairs have prompts.
        """
        estimator = self._estimator(generator, metric)
        return estimator.prompt_groups(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def mixture(self, metric: str | None = None) -> models.Mixture:
        """The best mixture of all generators, by all samples: weights, score, gain over the best single generator.

        metric: as of `estimates`. Raises NotFoundError for an unknown label; FixError for a metric whose mixtures have
        no score, and while a generator has fewer than 4 samples, or too few to fix open kernels.
        """
        estimators = self._of(metric)
        return shown_mixture(estimators.mixture(), estimators.question.metric, self._stopping, self.told)

    def _report(
        self,
        name: str,
        arms: Sequence[Arm],
        decision: DecisionInfo,
        *,
        state: State,
        costs: Mapping[str, float],
        budget: int | None = None,
        **known: Any,
    ) -> models.Report:
        """The report on these arms in this state; known: further fields of `Report`."""
        told, delta = self.told, self._stopping.delta
        watched: dict[str, models.WatchedReport] = {}
        for label, estimators in list(self._metrics.items())[1:]:
            own = [replace(arm, estimate=estimators.estimates[arm.name]) for arm in arms]
            rows = [standing_of(arm, told) for arm in own]
            how: dict[str, Any] = {"delta": delta, "told": told, "scored": True}
            watched[label] = watched_report(label, estimators.question.metric, own, rows, **how)
        return report_on(
            name,
            self._primary.question.metric,
            arms,
            [standing_of(arm, told, cost=costs.get(arm.name)) for arm in arms],
            decision,
            stopping=self._stopping,
            told=told,
            counted=told,
            samples=self.samples,
            costs=costs,
            cost=sum(costs.get(generator, 0.0) * count for generator, count in self._samples.items()),
            state=state,
            ended=state in ("decided", "out of budget"),
            open_picks=sum(arm.pending_batches for arm in arms),
            budget=budget,
            scored=True,
            watched=watched,
            **known,
        )

    def _check_name(self, generator: str) -> None:
        if generator not in self._batches:
            raise NotFoundError(f"unknown generator {generator!r}; expected one of {', '.join(self.generators)}")

    def _of(self, metric: str | None) -> MetricEstimators:
        if metric is not None and metric not in self._metrics:
            raise NotFoundError(f"unknown metric {metric!r}; expected one of {', '.join(self._metrics)}")
        return self._primary if metric is None else self._metrics[metric]

    def _estimator(self, generator: str, metric: str | None) -> StreamingEstimator:
        self._check_name(generator)
        return self._of(metric).estimator(generator)


REMEDY = "leave {it} out, or accept {it}"
"""What can be done about batches on another scale: nothing is kept that could be retracted."""


class Session(Readings):
    """The part of an evaluation that does not depend on how batches are recorded: report, plot, file.

    `Evaluation` sets the attributes, and tells the batches.
    """

    batch_size: int
    _given: dict[str, Any]
    """The arguments that a saved evaluation is made with again, beside generators and metrics."""
    _declared: dict[str, Metric]
    """The metrics with their real data, by label."""
    _costs: dict[str, float]
    _aim: Aim
    _credits: list[float]
    _widths: dict[str, int] | None
    _plausibility: Plausibility
    _scales: Scales

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays of a batch, first that of the metric that decides."""
        return tuple(columns_of([estimators.question for estimators in self._metrics.values()]))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with, beside generators and metrics."""
        return dict(self._given)

    @property
    def best(self) -> str | None:
        """The best generator so far; None before every generator has an estimate."""
        return self.decision(explain=False).best

    def decision(self, explain: bool = True) -> Decision:
        """The best generator, the confidence in it, whether that is enough to stop, and the reason.

        `explain` adds a verdict for each rival and the comparison with the hardest one, which takes half a millisecond.
        With the goal "mixture" it is decided that the best mixture is known; the confidence is that it beats `best`.
        """
        return self._aim.decide(self._arms(), self.told, explain)

    def report(
        self, name: str = "evaluation", *, budget: int | None = None, pending: Mapping[str, int] | None = None
    ) -> models.Report:
        """Standings, contrasts, regret, pick ratio and decision: the same class as the report of a service.

        name: what the report calls the evaluation. budget: samples after which the caller ends: an evaluation that has
        as many and is undecided is "out of budget". pending: as of `ask`. The decision is the one of this moment.
        """
        arms, decision = self._arms(pending), self.decision()
        spent = budget is not None and self.samples >= budget
        state = "running" if self._aim.has_begun(arms) else "warming up"
        mixture, questioned = self._aim.mixture, self._primary.question.metric
        weights = {} if mixture is None else dict(zip(mixture.generators, mixture.weights, strict=True))
        known = {field: getattr(decision, field) for field in decision.__slots__}
        return self._report(
            name,
            arms,
            models.DecisionInfo(**known, weights=weights, anomalies=self._scales.anomalous, remedy=REMEDY),
            state="decided" if decision.decided else "out of budget" if spent else state,
            costs=self._costs,
            budget=budget,
            max_cost=None,
            goal=self._given["goal"],
            mixture=None if mixture is None else shown_mixture(mixture, questioned, self._stopping, self.told),
        )

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
        for place, (label, metric) in enumerate(self._declared.items()):
            settings, own = metric_parts(metric, f"metric/{place}")
            estimator, state = self._metrics[label].state()
            metrics[label] = {"settings": settings, "estimators": estimator}
            arrays |= own | {f"estimators/{place}/{name}": array for name, array in state.items()}
        mixture, counts = self._aim.mixture, (self._samples, self._batches, self._ends)
        known: dict[str, Any] = {
            "generators": self.generators,
            "given": self._given,
            "metrics": metrics,
            "counts": [list(one.values()) for one in counts],
            "credits": self._credits,
            "widths": self._widths,
            "plausibility": self._plausibility.state(),
            "scales": self._scales.state(),
            "mixture": None if mixture is None else mixture.to_dict(),
        }
        write(Path(file), known, arrays)

    @classmethod
    def load(cls, file: str | Path, *, device: str = "cpu") -> Self:
        """The evaluation that `save` wrote, which goes on as the saved one would have. Raises FixError.

        Metrics that are not part of Optimist must be registered before.
        """
        known, arrays = read(Path(file))
        try:
            return cls._restored(known, arrays, device)
        except (KeyError, ValueError, TypeError, AssertionError) as error:
            raise FixError(f"{file}: expected a file that Evaluation.save wrote: {error}") from None

    @classmethod
    def _restored(cls, known: Mapping[str, Any], arrays: Arrays, device: str) -> Self:
        saved = list(enumerate(known["metrics"].values()))
        first, *watch = (metric_from(one["settings"], arrays, f"metric/{place}") for place, one in saved)
        given = dict(known["given"])
        names, options = known["generators"], given.pop("options")
        make: Any = cls  # Evaluation, whose arguments these are
        found = make(names, metric=first, watch=watch, device=device, **given, **options)
        for counts, values in zip((found._samples, found._batches, found._ends), known["counts"], strict=True):
            counts.update(zip(names, values, strict=True))
        found._widths, found._credits = known["widths"], known["credits"]
        for estimators, (place, one) in zip(found._metrics.values(), saved, strict=True):
            begin = f"estimators/{place}/"
            own = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
            estimators.restore(one["estimators"], own, found._widths or {})
        found._plausibility.restore(known["plausibility"])
        found._scales.restore(known["scales"])
        found._aim.mixture = None if known["mixture"] is None else Mixture.from_dict(known["mixture"])
        return found

    def _arms(self, pending: Mapping[str, int] | None = None) -> list[Arm]:
        found, picks = self._primary.estimates, pending or {}
        return [
            Arm(
                name,
                found[name],
                self._samples[name],
                self._batches[name],
                self.batch_size * picks.get(name, 0),
                picks.get(name, 0),
                cost=self._costs.get(name),
            )
            for name in self.generators
        ]
