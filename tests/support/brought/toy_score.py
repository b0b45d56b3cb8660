"""What scores `toy_metric.ColumnMean`."""

from dataclasses import dataclass

import torch
from toy_metric import ColumnMean

from optimist.metrics.base import Analysis, Score, Statistic


class Sums(Statistic):
    held = ("samples", "sums")

    def __init__(self, column):
        self.column, self.sums = column, torch.zeros(2, dtype=torch.float64)

    def update(self, rows):
        values = rows[:, self.column]
        self.sums = self.sums + torch.stack([values.sum(), values.square().sum()])
        self.samples += len(rows)


@dataclass
class MeanScore(Score):
    column: int
    widths: dict
    declared = ColumnMean

    def statistic(self):
        return Sums(self.column)

    def plug_in(self, statistic):
        return float(statistic.sums[0]) / statistic.samples

    def analyse(self, statistic, common=None):
        mean, square = (statistic.sums / statistic.samples).tolist()
        error = max(square - mean**2, 0.0) ** 0.5 / (statistic.samples - 1) ** 0.5
        return Analysis(plug_in=mean, estimate=mean, selection_error=error, stopping_error=error)


def make(declared, setting):
    return MeanScore(declared.column, dict(setting.widths))
