"""Could twenty and more paired generators be decided from 10 samples of each on, instead of 20?

    python benchmarks/pairs/floors.py [--problems NAME ...] [--streams 100] [--generators 20] [--samples 60]

Two generators at a time that are among `--generators`, which the threshold counts; scored in lockstep every 5 samples
from 10 on, δ = 0.05. The row has, for pairs that are moved to the same score, the share that is told apart up to
`--samples` of each with a floor of 10 and of 20, each with its one-sided 95 % lower limit; and for pairs as they are,
the wrong answers and the mean of the samples of both until then. Independent streams first, then common ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from lockstep import share
from problems import PROBLEMS, Problem, problem_named
from races import DELTA, independent, shifted, unpaired
from streams import BATCH, Table, places_of

from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.threads import limit_threads
from optimist.policies import Stopping
from optimist.policies.contrasts import Contrasts

FLOORS = (10, 20)


def scored(problem: Problem, number: int, samples: int) -> dict[str, Table]:
    """The tables of all generators along a stream, at every count from the lower floor on."""
    places = places_of(problem, number)
    counts = (*range(FLOORS[0], samples + 1, BATCH),)
    found: dict[str, Table] = {}
    for generator in problem.generators:
        estimator, rows, first = (
            StreamingEstimator(problem.bound(), 0.0, paired=True),
            problem.rows(generator, places),
            0,
        )
        estimates = []
        for last in counts:
            batch = {name: array[first:last] for name, array in rows.items()}
            estimator.add(batch, [""] * (last - first), None, (first, last - first))
            estimates.append(estimator.estimate())
            first = last
        found[generator] = Table(counts, tuple(estimates))
    return found


def named(one: Table, other: Table, floor: int, generators: int) -> tuple[int | None, int]:
    """Which of two is called better, 0 or 1, None for neither, and the samples of both until then."""
    stopping = Stopping(DELTA)
    for place, count in enumerate(one.counts):
        if count < floor:
            continue
        contrasts = Contrasts([one.estimates[place], other.estimates[place]])
        best = contrasts.best
        if min(contrasts.separations(0.0, "stopping")) > stopping.threshold(generators, generators * count // BATCH):
            return best, 2 * count
    return None, 2 * one.counts[-1]


def row(
    problem: Problem, streams: Sequence[Mapping[str, Table]], truths: Mapping[str, float], floor: int, generators: int
) -> list[str]:
    """The cells of one floor: independent, then common streams."""
    sign = 1.0 if problem.bound().metric.lower_is_better else -1.0
    cells: list[str] = []
    for is_paired in (False, True):
        ties, wrong, samples = [], 0, []
        for number in range(len(streams)):
            drawn = streams[number] if is_paired else independent(streams, number)
            seen = {
                name: [each if is_paired else unpaired(name, each) for each in table.estimates]
                for name, table in drawn.items()
            }
            level = {
                name: Table(drawn[name].counts, tuple(shifted(each, -truths[name]) for each in made))
                for name, made in seen.items()
            }
            plain = {name: Table(drawn[name].counts, tuple(made)) for name, made in seen.items()}
            pairs = [*combinations(truths, 2)]
            ties.append([named(level[a], level[b], floor, generators)[0] is not None for a, b in pairs])
            for a, b in pairs:
                best, count = named(plain[a], plain[b], floor, generators)
                wrong += best is not None and sign * truths[(a, b)[best]] > sign * truths[(b, a)[best]]
                samples.append(count)
        cells += [share(np.array(ties)), f"{wrong} of {len(samples):,}; {np.mean(samples):.0f}"]
    return cells


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["lognormal", "Pareto", "contaminated", "Student"])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--generators", type=int, default=20)
    parser.add_argument("--samples", type=int, default=60)
    options = parser.parse_args()
    limit_threads(1)
    for name in (name for name in PROBLEMS if name.startswith(tuple(options.problems))):
        problem = problem_named(name, "")
        truths = {generator: problem.truth(generator) for generator in problem.generators}
        streams = [scored(problem, number, options.samples) for number in range(options.streams)]
        for floor in FLOORS:
            print(
                f"| {name} | {floor} | {' | '.join(row(problem, streams, truths, floor, options.generators))} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
