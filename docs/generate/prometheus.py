"""reference/prometheus.md from the definitions of the metrics."""

from __future__ import annotations

from notes import cell
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from optimist.insight import metrics

INTRODUCTION = """# Metrics for Prometheus

This page lists the metrics that `/metrics` of a service, and `optimist scorer --metrics-port`, export. How to scrape
them, and what to alert on: [metrics and alerts](../deploy.md#metrics-and-alerts). A service also exports what its
processes use, as `process_*` and `scorer_process_*`: processor time, memory and open files.

| metric | kind | labels | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page, in the order in which the metrics are defined."""
    return INTRODUCTION + "\n".join(_row(one) for one in vars(metrics).values() if isinstance(one, MetricWrapperBase))


def _row(metric: MetricWrapperBase) -> str:
    (family,) = metric.describe()
    counts = isinstance(metric, Counter)
    kind = "counter" if counts else "histogram" if isinstance(metric, Histogram) else "gauge"
    labels = ", ".join(metric._labelnames)
    name = family.name + ("_total" if counts else "")
    return f"| `{name}` | {kind} | {labels} | {cell(family.documentation)} |"
