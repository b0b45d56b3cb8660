"""What can be read of an evaluation at any time: estimates, differences, modes, the best blend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimist.estimation.track import Track
from optimist.estimation.tracks import Tracks
from optimist.metrics.modes import Mode, PromptGroup
from optimist.numerics.checks import check_whole
from optimist.numerics.estimate import Estimate
from optimist.policies import Arm, Stopping, contrast, optimistic, shown_mixture
from optimist.policies.reports import report_on, standing_of, watched_report
from optimist_client import models
from optimist_client.errors import NotFoundError
from optimist_client.models import Contrast, DecisionInfo
from optimist_client.models.experiments import State


class Readings:
    """The tracks of generators by each metric, and what they say. The base of `Evaluation`, which tells them."""

    def __init__(self, generators: tuple[str, ...], metrics: Mapping[str, Tracks], stopping: Stopping) -> None:
        """metrics: by label, the one that decides first."""
        self.generators = generators
        self._metrics = dict(metrics)
        self._primary = next(iter(self._metrics.values()))
        self._stopping = stopping
        self._samples, self._batches, self._ends = (dict.fromkeys(generators, 0) for _ in range(3))

    @property
    def told(self) -> int:
        """Batches told so far, the t of decisions.md §3."""
        return sum(self._batches.values())

    @property
    def samples(self) -> int:
        """Samples told so far, of all generators together."""
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
        """How much worse `generator` scores than `against`, with the error of the difference.

        metric: as of `estimates`. Raises NotFoundError for an unknown name or label, FixError if the two are the same
        or one of them has no estimate.
        """
        for name in (generator, against):
            self._check_name(name)
        found = self._of(metric).estimates
        one, other = (Arm(name, found[name]) for name in (generator, against))
        return contrast(one, other, self._stopping.delta)

    def modes(self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None) -> list[Mode]:
        """The generator's largest modes, each with the ids of the samples that show it most (equations.md §3c).

        metric: as of `estimates`. Raises NotFoundError for an unknown name or label, FixError for metrics without modes
        and before the first estimate.
        """
        track = self._track(generator, metric)
        return track.modes(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def prompt_groups(
        self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None
    ) -> list[PromptGroup]:
        """The score by type of prompt, the largest first, each with samples of such prompts (equations.md §4).

        Raises as `modes` does; only the scores of pairs have prompts.
        """
        track = self._track(generator, metric)
        return track.prompt_groups(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def mixture(self, metric: str | None = None) -> models.Mixture:
        """The best blend of all generators, by all samples told: weights, score, gain over the best single generator.

        metric: as of `estimates`. Raises NotFoundError for an unknown label; FixError for a metric whose blends have no
        score, and while a generator has fewer than 4 samples, or too few to fix open kernels.
        """
        tracks = self._of(metric)
        return shown_mixture(tracks.mixture(), tracks.question.metric, self._stopping, self.told)

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
        for label, tracks in list(self._metrics.items())[1:]:
            own = [replace(arm, estimate=tracks.estimates[arm.name]) for arm in arms]
            rows = [standing_of(arm, told) for arm in own]
            how: dict[str, Any] = {"delta": delta, "told": told, "scored": True}
            watched[label] = watched_report(label, tracks.question.metric, own, rows, **how)
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

    def _of(self, metric: str | None) -> Tracks:
        if metric is not None and metric not in self._metrics:
            raise NotFoundError(f"unknown metric {metric!r}; expected one of {', '.join(self._metrics)}")
        return self._primary if metric is None else self._metrics[metric]

    def _track(self, generator: str, metric: str | None) -> Track:
        self._check_name(generator)
        return self._of(metric).track(generator)
