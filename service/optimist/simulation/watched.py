"""Further metrics of a simulation: what the same picks cost by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from optimist.estimation.arrays import arrays_of
from optimist.numerics.batches import as_matrices
from optimist.simulation.run import Bools, Run
from optimist.simulation.sources import ArraySource, Source
from optimist.simulation.truth import TrueScore, gaps
from optimist_client.errors import FixError
from optimist_client.metrics import Metric


@dataclass(frozen=True, eq=False)
class Watched:
    """The trials of all policies by a metric that decided nothing."""

    title: str
    truth: dict[str, TrueScore]
    """The true score of each generator by this metric, on the natural scale."""
    is_best: Bools
    runs: dict[str, Run]
    """The runs of the policies, with regret and accuracy by this metric."""

    @classmethod
    def of(cls, metric: Metric, truth: dict[str, TrueScore], runs: Mapping[str, Run]) -> Watched:
        """The runs as they look by another metric, whose true scores these are."""
        behind, is_best = gaps(truth, metric, 0.0)
        return cls(
            metric.title,
            truth,
            is_best,
            {policy: replace(run, gaps=behind, is_best=is_best) for policy, run in runs.items()},
        )

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that are best by this metric."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)


def arrays_read(metrics: Iterable[Metric]) -> dict[str, int | None]:
    """The arrays that the metrics read, with their columns where the settings say them."""
    found: dict[str, int | None] = {}
    for metric in metrics:
        for own, name in metric.array_names.items():
            found[name] = found.get(name) or metric.widths.get(own)
    return found


def parts_for(metric: Metric, sources: Mapping[str, Source]) -> dict[str, Source]:
    """The sources with the arrays of one metric alone, as far as they have them."""
    names = set(metric.array_names.values())

    def part(source: Source) -> Source:
        if not isinstance(source, ArraySource) or not names < set(source.rows):
            return source
        return replace(source, rows={name: rows for name, rows in source.rows.items() if name in names})

    return {name: part(source) for name, source in sources.items()}


def source_of(name: str, made: Any, arrays: Mapping[str, int | None]) -> Source:
    """The source of a generator given in memory. Raises FixError, naming it, for what is no arrays."""
    if hasattr(made, "stream"):
        return made
    try:
        columns = {array: width for array, width in arrays.items() if width is not None}
        return ArraySource(as_matrices(arrays_of(made, arrays), columns), f"generator {name!r}")
    except ValueError as error:
        raise FixError(f"generator {name!r}: {error}") from None
