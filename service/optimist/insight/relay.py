"""Metrics of a child process, shown by its parent as if they were its own, over all lives of the child."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

Report = dict[str, list[tuple[str, dict[str, str], float]]]
"""By metric, its samples: name, labels and value. It crosses to the parent as JSON."""
_Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def report(registry: CollectorRegistry) -> Report:
    """What stands in a registry, but for the times at which its counters were made."""
    return {
        metric.name: [(sample.name, sample.labels, sample.value) for sample in metric.samples]
        for metric in registry.collect()
    }


class Relay(Collector):
    """The metrics of `own`, and on top of them what a child reports of the same ones.

    Counters and histograms add up over the lives of the child: none falls when it is started again. Of a gauge the
    child's last word is shown.
    """

    def __init__(self, own: CollectorRegistry) -> None:
        self._own = own
        # Of the lives before, and of the present one; replaced together, as another thread may collect meanwhile.
        self._lives: tuple[Report, Report] = {}, {}

    def take(self, reported: Report) -> None:
        """Show what the child reports now in place of what it did before."""
        self._lives = self._lives[0], reported

    def end_life(self) -> None:
        """The child has ended: another one counts from zero."""
        before = {
            metric.name: [
                (name, dict(labels), value) for (name, labels), value in self._sum(metric, *self._lives).items()
            ]
            for metric in self._own.collect()
        }
        self._lives = before, {}

    def collect(self) -> Iterable[Metric]:
        """The metrics, for Prometheus."""
        lives = self._lives
        own = report(self._own)
        for metric in self._own.collect():
            shown = Metric(metric.name, metric.documentation, metric.type)
            for (name, labels), value in self._sum(metric, own, *lives).items():
                shown.add_sample(name, dict(labels), value)
            yield shown

    @staticmethod
    def _sum(metric: Metric, *reports: Report) -> _Values:
        found: _Values = {}
        for reported in reports:
            for name, labels, value in reported.get(metric.name, ()):
                # When a counter was made is nothing that adds up.
                if not name.endswith("_created"):
                    key = name, tuple(sorted(labels.items()))
                    found[key] = value if metric.type == "gauge" else found.get(key, 0.0) + value
        return found
