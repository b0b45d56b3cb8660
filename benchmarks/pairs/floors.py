"""Could twenty and more paired generators be decided from 10 samples of each on, instead of 20?

    python benchmarks/pairs/floors.py [--problems NAME ...] [--streams 100] [--generators 20] [--samples 60]

Two generators at a time that are among `--generators`, which the threshold counts; scored in lockstep every 5 samples
from 10 to `--samples` of each, δ = 0.05. A row: the columns of the tables of ties and of gaps of `python
benchmarks/pairs`, with a floor of 10 or of 20 samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from lockstep import End, gaps, ties
from problems import PROBLEMS, problem_named
from races import DELTA
from streams import BATCH, Stream, Table

from optimist.metrics.threads import limit_threads
from optimist.policies import Stopping
from optimist.policies.contrasts import Contrasts

FLOORS = (10, 20)


def ended_from(tables: Mapping[str, Table], floor: int, generators: int) -> End:
    """A run of two that are among so many, with decisions from `floor` samples of each on."""
    counts, stopping = next(iter(tables.values())).counts, Stopping(DELTA)
    for place, count in enumerate(counts):
        if count >= floor:
            contrasts = Contrasts([table.estimates[place] for table in tables.values()])
            needed = stopping.threshold(generators, generators * count // BATCH)
            if min(contrasts.separations(0.0, "stopping")) > needed:
                return End([*tables][contrasts.best], 2 * count)
    return End(None, 2 * counts[-1])


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["lognormal", "Pareto", "contaminated", "Student"])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--generators", type=int, default=20)
    parser.add_argument("--samples", type=int, default=60)
    options = parser.parse_args()
    limit_threads(1)
    looks = (*range(FLOORS[0], options.samples + 1, BATCH),)
    for name in (name for name in PROBLEMS if name.startswith(tuple(options.problems))):
        problem = problem_named(name, "")
        truths = {generator: problem.truth(generator) for generator in problem.generators}
        streams = [Stream(name, "", number, looks=looks)() for number in range(options.streams)]
        for floor in FLOORS:
            run = partial(ended_from, floor=floor, generators=options.generators)
            cells = ties(problem, streams, truths, run) + gaps(problem, streams, truths, run)
            print(f"| {name} | {floor} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
