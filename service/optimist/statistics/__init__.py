"""Streaming sufficient statistics: update, merge, to and from tensors. They know nothing of scores."""

from optimist.statistics.gaussian import GaussianStatistic

__all__ = ["GaussianStatistic"]
