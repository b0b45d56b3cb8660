"""How often is the gate's answer wrong, and after how many pairs does it come?

    python benchmarks/gates.py [--runs 1000] [--only margin] [--once]

Pairs of a candidate and the baseline are told until the gate says yes or no, at most 2,000, and the gate is asked
whenever they have grown by 15 %. Differences of pairs have a deviation of 1, and those of several metrics a correlation
of 0.5; of pass or fail most pairs are equal. Exactly at the margin a no is wrong, and just over it a yes. The table has
the shares of both, each with its one-sided 95 % upper limit (Clopper and Pearson), and the median number of pairs. Rows
that are not at the margin have a quarter of the runs. With --once the gate is asked once, at 500 pairs, as of files.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.estimates.estimate import is_due
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.mean import MeanScore
from optimist.policies.gates import GateSides, gate_of
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client.metrics import Mean
from rankings import DELTA, said
from rare_values import estimate

BATCH, GROWTH = 5, 0.15
HORIZON, FIXED = 2_000, 500
"""Pairs at most, and at the fixed look."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bed:
    """A candidate that is worse by these amounts (M,), with a margin."""

    worse: Sequence[float]
    margin: float
    metric: Mean = field(default_factory=Mean)
    rows: Callable[[np.random.Generator, float], tuple[Array, Array]] | None = None
    """The values of the candidate, which is so much worse, and of the baseline; None: normal ones."""

    @property
    def is_at(self) -> bool:
        """Whether an answer can be wrong."""
        return max(self.worse) == self.margin


def lopsided(better: float) -> Callable[[np.random.Generator, float], tuple[Array, Array]]:
    """Pass or fail: the baseline passes in 80 %, the candidate fails in some of these pairs, and alone passes in a part
    of `better` times as many."""

    def rows(rng: np.random.Generator, worse: float) -> tuple[Array, Array]:
        draws = rng.random(HORIZON)
        baseline = draws < 0.8
        fails = worse / (1.0 - better)
        candidate = (draws >= fails) & (draws < 0.8 + better * fails)
        return candidate.astype(float), baseline.astype(float)

    return rows


def beds() -> Mapping[str, Bed]:
    """All beds by name."""
    made: dict[str, Bed] = {}
    for margin in (0.1, 0.2, 0.4):
        parts = {
            "at the margin": 1.0,
            "equal": 0.0,
            "better by half of it": -0.5,
            "worse by half of it": 0.5,
            "worse by twice it": 2.0,
        }
        made |= {f"margin {margin:g} σ, {name}": Bed([part * margin], margin) for name, part in parts.items()}
    for metrics in (2, 5):
        made[f"{metrics} metrics, margin 0.2 σ, all at the margin"] = Bed([0.2] * metrics, 0.2)
        made[f"{metrics} metrics, margin 0.2 σ, one at the margin"] = Bed([0.2, *[-0.6] * (metrics - 1)], 0.2)
        made[f"{metrics} metrics, margin 0.2 σ, equal"] = Bed([0.0] * metrics, 0.2)
    scored = Mean(range=(0, 1))
    for margin in (0.05, 0.1):
        made[f"pass or fail, at the margin of {margin:g}, never better"] = Bed([margin], margin, scored, lopsided(0.0))
        made[f"pass or fail, at the margin of {margin:g}, 2 : 1"] = Bed([margin], margin, scored, lopsided(0.5))
        made[f"pass or fail, margin {margin:g}, equal"] = Bed([0.0], margin, scored, lopsided(0.0))
    return made


class Run(NamedTuple):
    """The answer of a run, and after how many pairs it came."""

    answer: str
    pairs: int


def main() -> None:
    """Play all beds, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="number of runs per row at the margin")
    parser.add_argument("--only", default="", help="a part of the names of the beds to play")
    parser.add_argument("--once", action="store_true", help="ask once, at 500 pairs")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| bed | runs | yes | no | median of pairs |")
    print("| --- | --- | --- | --- | --- |")
    for name, bed in beds().items():
        if asked.only in name:
            runs = [play(bed, seed, once=asked.once) for seed in range(asked.runs if bed.is_at else asked.runs // 4)]
            shares = [said([run.answer == answer for run in runs]) for answer in ("yes", "no")]
            middle = median(math.inf if run.answer == "open" else run.pairs for run in runs)
            pairs = f"{middle:,.0f}" if math.isfinite(middle) else "–"
            print(f"| {name} | {len(runs):,} |", " | ".join([*shares, pairs]), "|", flush=True)


def play(bed: Bed, seed: int, *, once: bool) -> Run:
    """One run."""
    rng = np.random.default_rng(seed)
    rows = [torch.from_numpy(each)[:, None] for pair in values(bed, rng) for each in pair]
    bound = InfluenceBound(MeanScore(bed.metric))
    statistics, told = [bound.statistic() for _ in rows], 0
    labels = [f"metric{place}" for place in range(len(bed.worse))]
    margins = dict.fromkeys(labels, bed.margin)
    for count in [FIXED] if once else range(FEWEST_SAMPLES, HORIZON + 1, BATCH):
        if not is_due(count, told, GROWTH):
            continue
        for statistic, each in zip(statistics, rows, strict=True):
            statistic.update(each[told:count])
        told = count
        made = [estimate(bound, *known, paired=True) for known in zip(statistics, rows, strict=True)]
        pairs = zip(labels, made[::2], made[1::2], strict=True)
        compared = {label: GateSides(bed.metric, candidate, baseline) for label, candidate, baseline in pairs}
        answer = gate_of("new", "old", compared, margins, DELTA, None if once else 2 * count // BATCH).answer
        if answer != "open":
            return Run(answer, count)
    return Run("open", told)


def values(bed: Bed, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """The values of candidate and baseline by each metric."""
    if bed.rows is not None:
        return [bed.rows(rng, worse) for worse in bed.worse]
    common, of_metrics = rng.standard_normal(HORIZON), rng.standard_normal((2, HORIZON))
    found: list[tuple[Array, Array]] = []
    for worse in bed.worse:
        own = 0.5**0.5 * (of_metrics + rng.standard_normal((2, HORIZON)))
        candidate, baseline = 0.5**0.5 * (common + own)
        found.append((candidate - worse, baseline))
    return found


if __name__ == "__main__":
    main()
