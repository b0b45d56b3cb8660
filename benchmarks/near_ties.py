"""How often does the stopping rule name a wrong generator when the best ones are nearly tied?

    python benchmarks/near_ties.py [--runs 40000] [--delta 0.05] [--only 2 "3, one far"]

Scores are means of normal samples with known σ = 1, so every z is exact and only the rule is tested: the threshold of
`Stopping` at every look, as the service takes it. Generators get batches of 5 in turn. Each is scored when its samples
have grown by 4 %, half of the generators half a step later than the others, and the rule looks after every new score.
A run is wrong if the rule stops on another generator than the best; with a gap of 0 the first one is called the best.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.estimates.estimate import is_due
from optimist.policies import Stopping
from optimist.policies.stopping import FEWEST_SAMPLES

BATCH = 5
GROWTH = 0.04
SHORT, LONG = 2_500, 50_000
"""Samples of each generator at which wrong answers are counted."""
GAPS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.3)
FAR = 1.0
PROBLEMS = {"2": (1, 0), "3, one far": (1, 1), "4": (3, 0), "4, two far": (1, 2), "8": (7, 0), "8, six far": (1, 6)}
"""By name: the rivals at the gap, and those at `FAR`."""


@dataclass
class Outcome:
    """Shares of the runs, and the mean samples of all generators together until a run stops or reaches `SHORT`."""

    wrong_short: float
    wrong_long: float
    samples: float


def main() -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40_000, help="number of runs per row")
    parser.add_argument("--delta", type=float, default=0.05, help="accepted probability of a wrong answer")
    parser.add_argument("--only", choices=PROBLEMS, nargs="+", default=list(PROBLEMS), help="names of the rows")
    options = parser.parse_args()
    table = Table(title=f"δ = {options.delta}, {options.runs:,} runs per row", box=box.MARKDOWN)
    for column in ("generators", "gap/σ"):
        table.add_column(column)
    for column in (f"wrong to {SHORT:,}", f"wrong to {LONG:,}", "samples"):
        table.add_column(column, justify="right")
    for name in options.only:
        near, far = PROBLEMS[name]
        for gap in GAPS:
            found = play([0.0, *[gap] * near, *[FAR] * far], Stopping(options.delta), options.runs)
            shares = (f"{100 * found.wrong_short:.1f} %", f"{100 * found.wrong_long:.1f} %")
            table.add_row(name, f"{gap:g}", *shares, f"{found.samples:,.0f}")
    Console(width=200).print(table)


def play(losses: Sequence[float], stopping: Stopping, runs: int, seed: int = 0) -> Outcome:
    """Simulate `runs` runs to `LONG` samples a generator. The first generator has the least loss."""
    rng = np.random.default_rng(seed)
    true, totals = np.array(losses), np.zeros((runs, len(losses)))
    counts = np.zeros(len(losses))
    wrong, samples = 0, 0.0
    short: tuple[int, float] | None = None
    for count, place in looks(len(losses)):
        if short is None and count > SHORT:
            short = wrong, samples + len(totals) * SHORT * len(losses)
        totals[:, place] += rng.standard_normal(len(totals)) * math.sqrt(count - counts[place])
        counts[place] = count
        if counts.min() < FEWEST_SAMPLES:
            continue
        best, separation = compare(totals / counts + true, 1.0 / np.sqrt(counts))
        done = separation > stopping.threshold(len(losses), round(counts.sum() / BATCH))
        wrong += int((best[done] != 0).sum())
        samples += int(done.sum()) * counts.sum()
        totals = totals[~done]
    assert short is not None
    return Outcome(short[0] / runs, wrong / runs, short[1] / runs)


def looks(generators: int, until: int = LONG) -> Iterator[tuple[int, int]]:
    """The new scores in order, up to so many samples: the samples of a generator then, and which one it is."""
    due = [0]
    for count in range(BATCH, until + 1, BATCH):
        if is_due(count, due[-1], GROWTH):
            due.append(count)
    between = [BATCH * round(count * (1.0 + GROWTH / 2) / BATCH) for count in due]
    events = [(count, place) for place in range(generators) for count in (between if place % 2 else due)[1:]]
    yield from sorted(event for event in events if event[0] <= until)


def compare(values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best generator of each run (runs,), and how many standard errors its hardest rival is behind (runs,)."""
    best = values.argmin(axis=1)
    rows = np.arange(len(values))
    z = (values - values[rows, best][:, None]) / np.hypot(errors[best][:, None], errors)
    z[rows, best] = np.inf
    return best, z.min(axis=1)


if __name__ == "__main__":
    main()
