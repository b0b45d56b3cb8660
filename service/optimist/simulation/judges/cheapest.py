"""The goal "cheapest" in a simulation: the samples' costs, and trials that name the cheapest good generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optimist.simulation.inputs import SimulationInputs
from optimist.simulation.judges.best import BestJudge
from optimist.simulation.judges.judge import CurveFigure, ReportColumn
from optimist.simulation.judges.sampled import SampledJudge
from optimist.simulation.run import Bools, Floats, PolicyRun
from optimist.simulation.trial import Contender, Trial
from optimist_client.goals import CheapestGoodEnough


@dataclass(frozen=True, eq=False)
class CheapestJudge(BestJudge):
    """Judges by true scores: the right answer is the cheapest generator that is good enough."""

    goal = "cheapest"
    policies = CheapestGoodEnough.policies
    default = policies
    takes = (SampledJudge.takes - {"tolerance"}) | {"good_enough", "costs"}
    columns = (
        ReportColumn("cost", "cost"),
        ReportColumn("accuracy", "accuracy"),
        ReportColumn("samples to 95 %", "samples_to_95"),
    )
    figures: ClassVar = {
        "cost": CurveFigure("cost", "cost of all samples"),
        "accuracy": CurveFigure("accuracy", "trials that name the right one", is_share=True, has_band=False),
    }

    @classmethod
    def _trial(cls, inputs: SimulationInputs, contender: Contender, number: int) -> Trial:
        plan = inputs.plan
        shared: dict[str, Any] = {"metric": inputs.metric, "delta": plan.delta, "goal": cls.goal}
        shared |= {"good_enough": plan.good_enough, "costs": plan.costs}
        return Trial(inputs.sources, contender, shared, plan, number, cls.recorder)

    @property
    def costs(self) -> Floats:
        """The cost of a sample of each generator (G,), infinite where it is not known."""
        return np.array([self.plan.costs.get(name, np.inf) for name in self.truth])

    @property
    def is_best(self) -> Bools:
        """True for each generator (G,) that is the cheapest of the good enough ones."""
        enough = replace(self, tolerance=0.0 if self.plan.good_enough is None else self.plan.good_enough)
        is_good: Bools = BestJudge.is_best.__get__(enough)
        return is_good & (self.costs == self.costs[is_good].min())

    def judged(self, run: PolicyRun, seen: Sequence[tuple[NDArray[np.int32], Floats]]) -> PolicyRun:
        as_best = super().judged(run, seen)
        spent = np.where(run.is_played, self.costs[run.picks] * run.batch_size, 0.0)
        curves = {"cost": run.carried(np.cumsum(spent, axis=1)), "accuracy": as_best.curves["accuracy"]}
        return replace(as_best, curves=curves)

    def notes(self) -> Iterator[str]:
        yield f"Cheapest that is good enough: {self.shown_best()}. Mean ± standard error over trials."
        yield from SampledJudge.notes(self)

    def document(self) -> dict[str, Any]:
        return {**super().document(), "good_enough": self.plan.good_enough, "costs": self.plan.costs}
