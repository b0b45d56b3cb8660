"""What a false claim costs: `paired=True` for generators that ignore their seeds, so that nothing is in common.

    python benchmarks/false_claim.py [--trials 200] [--jobs 2]

Top-two plays the same independent streams twice, analysed as if they were paired, and as they are. The
correlation is estimated, so the claim should change hardly anything. The table shows the mean samples to stop and the
wrong stops of both, and the ratio of the samples to stop with its standard error over streams.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import optimist
from optimist.estimation.question import Question
from optimist.simulation.result import SimulationResult
from optimist.simulation.sources import Draw, GaussianSource, Source, SourceSet, Stream, digits

FEATURES = 8


@dataclass(frozen=True)
class Heedless:
    """A source that ignores the common seed."""

    source: Source

    @property
    def origin(self) -> str:
        """A description of where the samples come from."""
        return self.source.origin

    @property
    def samples(self) -> int | None:
        """The number of samples; None if unlimited."""
        return self.source.samples

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each tensor, by name."""
        return self.source.widths

    def exact(self, question: Question) -> float | None:
        """The true score in closed form, if there is one."""
        return self.source.exact(question)

    def stream(self, draw: Draw) -> Stream:
        """The source's own stream, as in an unpaired draw."""
        return self.source.stream(replace(draw, paired=False))


@dataclass(frozen=True)
class FalseClaim:
    """The same streams, analysed as `claimed` and as they are."""

    claimed: SimulationResult
    honest: SimulationResult

    @property
    def stops(self) -> tuple[float, float]:
        """Mean samples until the trials ended, claimed and honest."""
        return float(_samples(self.claimed).mean()), float(_samples(self.honest).mean())

    @property
    def ratio(self) -> tuple[float, float]:
        """Claimed over honest samples, and its standard error over streams."""
        claimed, honest = _samples(self.claimed), _samples(self.honest)
        ratio = claimed.mean() / honest.mean()
        residual = (claimed - ratio * honest) / honest.mean()
        return float(ratio), float(residual.std(ddof=1) / math.sqrt(len(honest)))

    @property
    def wrong(self) -> tuple[int, int]:
        """Trials that stopped with a wrong generator, claimed and honest."""
        return self.claimed.summaries[0]["wrong_stops"], self.honest.summaries[0]["wrong_stops"]


def gaussians() -> SourceSet:
    """Four Gaussians for FID, at known distances from the reference."""
    means = [np.eye(FEATURES)[place] * shift for place, shift in enumerate((0.6, 0.9, 1.0, 1.5))]
    made = {f"g{place}": GaussianSource(mean, np.eye(FEATURES)) for place, mean in enumerate(means)}
    return SourceSet(made, {"reference": (np.zeros(FEATURES), np.eye(FEATURES))})


PROBLEMS = {"Gaussians, FID": gaussians, "digits, RKE": lambda: digits("rke")}


def play(problem: SourceSet, trials: int, rounds: int = 4000, jobs: int = 1, **settings: Any) -> FalseClaim:
    """Play `trials` trials of top-two on the same independent streams of `problem`, claimed to be paired and not."""
    sources: Mapping[str, Source] = {name: Heedless(source) for name, source in problem.sources.items()}
    given = SourceSet(sources, problem.settings, aligned=True)
    settings = {"policies": "top-two", "stop": True, "rounds": rounds, "trials": trials, "jobs": jobs} | settings
    found = [optimist.simulate(given, paired=paired, **settings) for paired in (True, False)]
    return FalseClaim(*found)


def _samples(result: SimulationResult) -> Any:
    return (result["top-two"].lengths * result.plan.batch_size).astype(np.float64)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="number of streams of each problem")
    parser.add_argument("--rounds", type=int, default=4000, help="batches after which a trial ends undecided")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS, help="problems to measure")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table(title=f"A false claim, {asked.trials} streams", box=box.MARKDOWN)
    for column in ("problem", "samples to stop, claimed", "unpaired", "ratio", "stopped", "wrong stops"):
        table.add_column(column, no_wrap=True)
    for name in asked.problems:
        found = play(PROBLEMS[name](), asked.trials, asked.rounds, asked.jobs)
        (claimed, honest), (ratio, error) = found.stops, found.ratio
        stopped = [result.summaries[0]["decided"] for result in (found.claimed, found.honest)]
        cells = f"{claimed:,.0f}", f"{honest:,.0f}", f"{ratio:.3f} ± {error:.3f}"
        table.add_row(name, *cells, "{}, {}".format(*stopped), "{}, {}".format(*found.wrong))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
