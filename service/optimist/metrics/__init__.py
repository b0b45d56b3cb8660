"""Scores of a generator: from a statistic to the value the papers publish."""

from optimist.metrics.base import Metric
from optimist.metrics.frechet import FrechetDistance
from optimist.metrics.reference import Reference

METRICS = ("fid",)
"""The names `make_metric` knows."""


def make_metric(name: str, *, reference: Reference | None = None) -> FrechetDistance:
    """The metric of that name. Raises ValueError on an unknown name, or where the metric lacks its reference."""
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}: one of {', '.join(METRICS)}")
    if reference is None:
        raise ValueError(f"the metric {name!r} needs a reference")
    return FrechetDistance(reference)


__all__ = ["METRICS", "FrechetDistance", "Metric", "Reference", "make_metric"]
