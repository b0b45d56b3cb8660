"""Makes the scores of the declared metrics Mean and WinRate."""

from __future__ import annotations

from optimist.metrics.implementations import Setting
from optimist.metrics.mean.bounds import BettingBound, EmpiricalBernsteinBound
from optimist.metrics.mean.score import MeanScore
from optimist_client.metrics.mean import OfValues

BOUNDS = {"empirical-bernstein": EmpiricalBernsteinBound, "betting": BettingBound}


def make(declared: OfValues, setting: Setting) -> MeanScore:
    """The score of the values. Its sums are a few numbers, which stay on the CPU whatever the device."""
    del setting
    return MeanScore(declared)
