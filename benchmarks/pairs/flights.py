"""What do many workers at once, and estimates that come late, cost?

    python benchmarks/pairs/flights.py [tables] [--problems NAME ...] [--streams 40] [--workers 1 8 16] [--samples 200]
        [--hanging 0] [--scoring 0] [--rank 2048] [--late 0.1 ...] [--grow]

The tables are `errors`, `races` and `ties`; all by default. Batches of 5 take times of an exponential law, 0.25 s on
average, and are told when they are done: what is on its way leaves gaps in the indices. In memory, scored as in
`Evaluation`, δ = 0.05. Time is simulated, so the speed of the machine plays no part.

- errors: two neighbours among the best generators, W batches of each on their way until `--samples` of each are told:
  the root-mean-square error of their difference, the error stated, the root-mean-square z, and ρ_L. The first
  `--hanging` batches of one of the two are never told.
- races: W workers ask `top-two` until it decides. Two threads make the estimates. An estimate takes `--scoring`
  milliseconds for each of its samples; beyond `--rank` samples every one takes three times as long as at the rank, as
  FID's do. Asks wait, as in a service, for estimates that lack more than `--late` of the samples, at most 2 s.
  A row for each share `--late`: the geometric means of the samples told and of the seconds until the decision, each
  divided by those of the first share on the same streams, with the standard error of this ratio; the share of the
  workers' time spent waiting; wrong answers, and runs without a decision when a generator had no samples left. With
  `--grow` picks grow as in a service.
- ties: the same of two neighbours that are moved to the same score, up to `--samples` of both: the share that stops.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from problems import PROBLEMS, Problem, problem_named
from races import Change, paired, shifted
from simulated import Flight, Outcome, Race, Service

from optimist.estimates.estimate import Estimate
from optimist.metrics.threads import limit_threads
from optimist.policies.contrasts import Contrasts


def errors(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[list[str]]:
    """The row of one number of batches on their way."""
    names, true = _neighbours(truths)
    numbers, samples, hanging = range(options.streams), options.samples, options.hanging
    found: list[tuple[float, float, float]] = []
    for number in numbers:
        flight, made = Flight(problem, names, number), dict[str, Estimate]()
        for _ in range(hanging):
            flight.begin(names[0], hangs=True)
        for name in names * workers:
            flight.begin(name)
        while len(made) < len(names):
            name, *_ = flight.tell()
            flight.begin(name)
            if flight.samples(name) == samples:
                made[name] = flight.estimate(name)
        contrasts = Contrasts([made[name] for name in names])
        by = 1.0 if _lower_is_better(problem) else -1.0
        against = contrasts.against(1)
        found.append((against.differences[0] - by * true, contrasts.errors(1, "stopping")[0], against.rho[0]))
    missed, stated, rho = np.array(found).T
    z = np.sqrt(np.square(missed / stated).mean())
    return [[f"{_rms(missed):.3g}", f"{_rms(stated):.3g}", f"{z:.2f}", f"{np.median(rho):.3f}"]]


def races(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[list[str]]:
    """The rows of one number of workers."""
    best = (min if _lower_is_better(problem) else max)(truths, key=truths.__getitem__)
    rows: list[list[str]] = []
    first: list[Outcome] = []
    for late in options.late:
        found = _played(problem, truths, workers, late, problem.horizon, paired, options)
        first = first or found
        waited = sum(each.waited for each in found) / (workers * sum(each.seconds for each in found))
        undecided = sum(each.best is None for each in found)
        wrong = sum(each.best != best for each in found) - undecided
        compared = [_compared(found, first, what) for what in ("samples", "seconds")]
        rows.append([f"{late:g}", *compared, f"{waited:.1%}", f"{wrong}", f"{undecided}"])
    return rows


def ties(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[list[str]]:
    """The rows of one number of workers."""
    names, _ = _neighbours(truths)

    def level(name: str, made: Estimate) -> Estimate:
        return shifted(made, -truths[name])

    rows: list[list[str]] = []
    for late in options.late:
        found = _played(problem, names, workers, late, options.samples, level, options)
        rows.append([f"{late:g}", f"{len(found)}", f"{np.mean([each.best is not None for each in found]):.1%}"])
    return rows


def _played(
    problem: Problem,
    names: Iterable[str],
    workers: int,
    late: float,
    horizon: int,
    change: Change,
    options: argparse.Namespace,
) -> list[Outcome]:
    """A race on each stream."""
    service = Service(workers, options.scoring / 1000, options.rank, late, options.grow)
    return [Race(problem, tuple(names), number, service, change, horizon).play() for number in range(options.streams)]


def _compared(found: Sequence[Outcome], first: Sequence[Outcome], what: str) -> str:
    """The geometric mean of a number of these races, and the ratio to the first ones on the same streams."""
    logs, firsts = (np.log([getattr(each, what) for each in outcomes]) for outcomes in (found, first))
    mean = f"{np.exp(logs.mean()):,.4g}"
    if found is first:
        return mean
    ratio, error = np.exp((logs - firsts).mean()), (logs - firsts).std(ddof=1) / np.sqrt(len(logs))
    return f"{mean}: {ratio:.3f} ± {ratio * error:.3f}"


def _neighbours(truths: Mapping[str, float]) -> tuple[tuple[str, str], float]:
    """The second and the third generator in the problem's order, and the difference of their scores."""
    one, other = [*truths][1:3]
    return (one, other), truths[one] - truths[other]


def _lower_is_better(problem: Problem) -> bool:
    return problem.bound().metric.lower_is_better


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


TABLES: dict[str, Callable[[Problem, Mapping[str, float], int, argparse.Namespace], list[list[str]]]] = {
    "errors": errors,
    "races": races,
    "ties": ties,
}


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--problems", nargs="+", default=["truncations (4)"], help="beginnings of their names")
    parser.add_argument("--streams", type=int, default=40, help="number of streams of each problem")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--hanging", type=int, default=0, help="batches that are never told, in the table of errors")
    parser.add_argument(
        "--scoring", type=float, default=0.0, help="milliseconds of an estimate for each of its samples"
    )
    parser.add_argument("--rank", type=int, default=2048, help="samples beyond which each takes three times as long")
    parser.add_argument("--late", type=float, nargs="+", default=[0.1], help="shares that estimates may lack")
    parser.add_argument("--grow", action="store_true", help="picks grow, in races and ties")
    options = parser.parse_args()
    limit_threads(1)
    for name in PROBLEMS:
        if not name.startswith(tuple(options.problems)):
            continue
        problem = problem_named(name, "")
        truths = {generator: problem.truth(generator) for generator in problem.generators}
        for table in options.tables or TABLES:
            for workers in options.workers:
                for row in TABLES[table](problem, truths, workers, options):
                    print(f"| {name} | {table} | {workers} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
