"""Up to how many samples does "at every look" hold? How often the stopping rule names one of equally good generators.

    python benchmarks/horizons.py [--runs 20000]

Scores are means of normal samples with known σ = 1, so that only the rule is tested (as in `near_ties.py`, whose looks
these are): all generators are equally good, get batches of 5 in turn, and the rule looks after every new score. The
table has the share of the runs that have stopped by so many samples of each. Of two equal generators half of these
name the wrong one, if one of them is the better by next to nothing: the rule keeps its promise as long as the share is
at most 2 δ. With one that is better by a gap of 0.01 σ and less, the share of wrong answers is said by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from near_ties import BATCH, compare, looks
from optimist.policies import Stopping
from optimist.policies.stopping import FEWEST_SAMPLES

MARKS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Samples of each generator by which stops are counted."""
TIES = ((2, 0.2), (2, 0.1), (2, 0.05), (2, 0.01), (2, 0.001), (3, 0.05), (10, 0.05))
"""Generators and δ of the rows of ties."""
GAPS = (0.01, 0.005, 0.002, 0.001)
"""By how many σ the first of two generators is better, in the rows of wrong answers."""


def main() -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000, help="number of runs per row")
    runs = parser.parse_args().runs
    table = Table(title=f"% of {runs:,} runs by so many samples of each", box=box.MARKDOWN)
    for column in ("generators", "δ", *(f"{mark:,}" for mark in MARKS)):
        table.add_column(column, justify="right")
    for generators, delta in TIES:
        stopped = stops([0.0] * generators, Stopping(delta), runs, wrong=False)
        table.add_row(f"{generators}, equal: stopped", f"{delta:g}", *(f"{100 * share:.2f}" for share in stopped))
    for gap in GAPS:
        wrong = stops([0.0, gap], Stopping(), runs, wrong=True)
        table.add_row(f"2, {gap:g} σ apart: wrong", "0.05", *(f"{100 * share:.2f}" for share in wrong))
    Console(width=160).print(table)


def stops(losses: Sequence[float], stopping: Stopping, runs: int, *, wrong: bool, seed: int = 0) -> list[float]:
    """The shares of the runs that have stopped by each of `MARKS`; `wrong`: on another generator than the first."""
    rng = np.random.default_rng(seed)
    true, totals, counts = np.array(losses), np.zeros((runs, len(losses))), np.zeros(len(losses))
    stopped, shares = 0, list[float]()
    for count, place in looks(len(losses), MARKS[-1]):
        while count > MARKS[len(shares)]:
            shares.append(stopped / runs)
        totals[:, place] += rng.standard_normal(len(totals)) * np.sqrt(count - counts[place])
        counts[place] = count
        if counts.min() < FEWEST_SAMPLES:
            continue
        best, separation = compare(totals / counts + true, 1.0 / np.sqrt(counts))
        done = separation > stopping.threshold(len(losses), round(counts.sum() / BATCH))
        stopped += int((best[done] != 0).sum() if wrong else done.sum())
        totals = totals[~done]
    return [*shares, stopped / runs]


if __name__ == "__main__":
    main()
