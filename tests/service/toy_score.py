"""What scores `toy_metric.ColumnMean`."""

from dataclasses import dataclass

import torch
from toy_metric import ColumnMean

from optimist.metrics.base import Analysis, Score, Statistic


class Sums(Statistic):
    def __init__(self, column, sums):
        self.column, self.sums, self.samples = column, sums, int(sums[0])

    def update(self, rows):
        values = rows[:, self.column]
        self.sums = self.sums + torch.stack([torch.tensor(float(len(rows))), values.sum(), values.square().sum()])
        self.samples += len(rows)

    def state(self):
        return {"sums": self.sums}


@dataclass
class MeanScore(Score):
    column: int
    widths: dict
    declared = ColumnMean

    def statistic(self):
        return Sums(self.column, torch.zeros(3, dtype=torch.float64))

    def restore(self, tensors):
        return Sums(self.column, tensors["sums"])

    def plug_in(self, statistic):
        return float(statistic.sums[1]) / statistic.samples

    def analyse(self, statistic):
        mean, square = (statistic.sums[1:] / statistic.samples).tolist()
        error = max(square - mean**2, 0.0) ** 0.5 / (statistic.samples - 1) ** 0.5
        return Analysis(plug_in=mean, estimate=mean, selection_error=error, stopping_error=error)


def make(declared, setting):
    return MeanScore(declared.column, dict(setting.widths))
