"""What scores `toy_shift.ColumnShift`, and what it makes of real data."""

from dataclasses import dataclass, replace

import toy_score
from toy_shift import ColumnShift

from optimist.metrics.implementations import reference_of
from optimist.references.real_data import Reference


class RealMean(Reference):
    def __init__(self, mean):
        self.mean, self.dimension = mean, len(mean)


@dataclass
class ShiftScore(toy_score.MeanScore):
    real: float
    declared = ColumnShift

    def plug_in(self, statistic):
        return super().plug_in(statistic) - self.real

    def analyse(self, statistic, common=None):
        found = super().analyse(statistic)
        return replace(found, plug_in=found.plug_in - self.real, estimate=found.estimate - self.real)


def reference(declared, data, device):
    return RealMean(data.mean)


def make(declared, setting):
    real = reference_of(declared, RealMean)
    return ShiftScore(declared.column, {"features": real.dimension}, float(real.mean[declared.column]))
