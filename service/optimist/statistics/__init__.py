"""Streaming sufficient statistics: update, merge, to and from tensors. They know nothing of scores."""

from optimist.statistics.base import Statistic
from optimist.statistics.classes import ClassStatistic
from optimist.statistics.feature_maps import Cosine, FeatureMap, GaussianFourier, Nystrom
from optimist.statistics.gaussian import GaussianStatistic
from optimist.statistics.joint import JointStatistic
from optimist.statistics.kernel import KernelStatistic
from optimist.statistics.reservoir import Reservoir

__all__ = [
    "ClassStatistic",
    "Cosine",
    "FeatureMap",
    "GaussianFourier",
    "GaussianStatistic",
    "JointStatistic",
    "KernelStatistic",
    "Nystrom",
    "Reservoir",
    "Statistic",
]
