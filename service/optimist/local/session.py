"""An evaluation as a whole: its report, its plot, and the file that it is saved in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from optimist.estimation.arrays import columns_of
from optimist.estimation.tracks import Arrays
from optimist.local.goals import Aim
from optimist.local.readings import Readings
from optimist.local.saving import metric_from, metric_parts, read, write
from optimist.local.scales import Scales
from optimist.numerics.mixtures.mixture import Mixture
from optimist.numerics.plausibility import Plausibility
from optimist.policies import Arm, Decision, shown_mixture
from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

REMEDY = "leave {it} out, or accept {it}"
"""What can be done about batches on another scale: nothing is kept that could be retracted."""


class Session(Readings):
    """What does not depend on how batches are told. `Evaluation` sets the attributes, and tells the batches."""

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
        return tuple(columns_of([tracks.question for tracks in self._metrics.values()]))

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

        `explain` adds a verdict for each rival and the comparison with the closest one, which takes half a millisecond.
        With the goal "mixture" it is decided that the best blend is known; the confidence is that it beats `best`.
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
            track, state = self._metrics[label].state()
            metrics[label] = {"settings": settings, "tracks": track}
            arrays |= own | {f"tracks/{place}/{name}": array for name, array in state.items()}
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
        for tracks, (place, one) in zip(found._metrics.values(), saved, strict=True):
            begin = f"tracks/{place}/"
            own = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
            tracks.restore(one["tracks"], own, found._widths or {})
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
