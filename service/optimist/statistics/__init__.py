"""Streaming sufficient statistics: update, merge, to and from tensors. They know nothing of scores."""

from optimist.statistics.gaussian import MAX_MAGNITUDE, GaussianStatistic

__all__ = ["MAX_MAGNITUDE", "GaussianStatistic"]
