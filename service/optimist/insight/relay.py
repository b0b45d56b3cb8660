"""Exports the metrics of a child process together with the parent's own, across restarts of the child."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

Report = dict[str, list[tuple[str, dict[str, str], float]]]
"""The samples of each metric: name, labels and value. It is sent to the parent as JSON."""
_Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def report(registry: CollectorRegistry) -> Report:
    """The current samples of all metrics in a registry."""
    return {
        metric.name: [(sample.name, sample.labels, sample.value) for sample in metric.samples]
        for metric in registry.collect()
    }


class Relay(Collector):
    """Combines the metrics of `own` with those that a child process reports of the same ones.

    Counters and histograms are summed over all runs of the child, so they do not fall when it is restarted. A gauge
    shows the value that the child reported last.
    """

    def __init__(self, own: CollectorRegistry) -> None:
        self._own = own
        # Totals of earlier runs, and the current run; replaced together because another thread may collect meanwhile.
        self._runs: tuple[Report, Report] = {}, {}

    def take(self, reported: Report) -> None:
        """Replace the child's previous report with a new one."""
        self._runs = self._runs[0], reported

    def end_life(self) -> None:
        """Keep the totals of the child, which has ended: the next one counts from zero."""
        before = {
            metric.name: [
                (name, dict(labels), value) for (name, labels), value in self._sum(metric, *self._runs).items()
            ]
            for metric in self._own.collect()
        }
        self._runs = before, {}

    def collect(self) -> Iterable[Metric]:
        """The metrics, for Prometheus."""
        runs = self._runs
        own = report(self._own)
        for metric in self._own.collect():
            shown = Metric(metric.name, metric.documentation, metric.type)
            for (name, labels), value in self._sum(metric, own, *runs).items():
                shown.add_sample(name, dict(labels), value)
            yield shown

    @staticmethod
    def _sum(metric: Metric, *reports: Report) -> _Values:
        found: _Values = {}
        for reported in reports:
            for name, labels, value in reported.get(metric.name, ()):
                # The creation times of counters cannot be added up.
                if not name.endswith("_created"):
                    key = name, tuple(sorted(labels.items()))
                    found[key] = value if metric.type == "gauge" else found.get(key, 0.0) + value
        return found
