"""What do many workers at once cost, where generators are paired?

    python benchmarks/pairs/flights.py [tables] [--problems NAME ...] [--streams 40] [--workers 1 8 16] [--samples 200]
        [--hanging 0] [--late 0] [--grow]

The tables are `errors`, `races` and `ties`; all by default. Batches of 5 take times of an exponential law, and are told
when they are done: what is on its way leaves gaps in the indices. In memory, scored as in `Evaluation`, δ = 0.05.

- errors: two neighbours among the best generators, W batches of each on their way until `--samples` of each are told:
  the root-mean-square error of their difference, the error stated, the root-mean-square z, and ρ_L. The first
  `--hanging` batches of one of the two are never told.
- races: W workers ask `top-two` until it decides: the median and the geometric mean of the samples told, wrong answers,
  and runs without a decision when a generator had no samples left. An estimate takes effect once the one before lacks
  more than `--late` of the generator's batches, or would decide: with 0.1 as in a service whose scorer is as late as
  asks let it be. With `--grow` picks grow as in a service.
- ties: the same of two neighbours that are moved to the same score, up to `--samples` of both: the share that stops.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from problems import PROBLEMS, Problem, problem_named
from races import DELTA, Change, shifted
from streams import BATCH, GROWTH, places_of
from torch import Tensor

from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import grown_size
from optimist.metrics.threads import limit_threads
from optimist.numerics.estimate import Estimate
from optimist.policies import Arm, Policy, Stopping
from optimist.policies.contrasts import Contrasts
from optimist.policies.policy import warmup_batches


class Flight:
    """Generators that tell a stream in batches of 5, each at its own time."""

    def __init__(self, problem: Problem, names: tuple[str, ...], number: int) -> None:
        places = places_of(problem, number)
        self._rows: dict[str, dict[str, Tensor]] = {name: problem.rows(name, places) for name in names}
        self._estimators = {name: StreamingEstimator(problem.bound(), GROWTH, paired=True) for name in names}
        self._rng = np.random.default_rng([number, 1])
        self._due: list[tuple[float, int, int, str]] = []
        self._next = dict.fromkeys(names, 0)
        self._now = 0.0

    def begin(self, name: str, hangs: bool = False, size: int = BATCH) -> None:
        """Begin the next batch of a generator, which is never told if its worker `hangs`."""
        start = self._next[name]
        self._next[name] = start + size
        if not hangs:
            seconds = size / BATCH * self._rng.exponential()
            heapq.heappush(self._due, (self._now + seconds, start, size, name))

    def tell(self) -> tuple[str, int, bool]:
        """Tell the batch that is done first: its generator, its size, and whether an estimate is due."""
        self._now, start, size, name = heapq.heappop(self._due)
        batch = {array: rows[start : start + size] for array, rows in self._rows[name].items()}
        return name, size, self._estimators[name].add(batch, [""] * size, None, (start, size))

    def samples(self, name: str) -> int:
        """The samples that a generator has told."""
        return self._estimators[name].samples

    def estimate(self, name: str) -> Estimate:
        """The estimate of all that a generator has told."""
        return self._estimators[name].estimate()


def errors(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[str]:
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
    return [f"{_rms(missed):.3g}", f"{_rms(stated):.3g}", f"{z:.2f}", f"{np.median(rho):.3f}"]


def races(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[str]:
    """The row of one number of workers."""
    best = (min if _lower_is_better(problem) else max)(truths, key=truths.__getitem__)
    found = [
        _race(problem, tuple(truths), number, workers, problem.horizon, lambda _, made: made, options)
        for number in range(options.streams)
    ]
    told = [told for told, _ in found]
    wrong, undecided = sum(named not in (best, None) for _, named in found), sum(named is None for _, named in found)
    return [f"{np.median(told):,.0f}", f"{np.exp(np.mean(np.log(told))):,.0f}", f"{wrong}", f"{undecided}"]


def ties(problem: Problem, truths: Mapping[str, float], workers: int, options: argparse.Namespace) -> list[str]:
    """The row of one number of workers."""
    names, _ = _neighbours(truths)

    def level(name: str, made: Estimate) -> Estimate:
        return shifted(made, -truths[name])

    numbers = range(options.streams)
    found = [_race(problem, names, number, workers, options.samples, level, options)[1] for number in numbers]
    return [f"{len(found)}", f"{100 * np.mean([named is not None for named in found]):.1f} %"]


def _race(
    problem: Problem,
    names: tuple[str, ...],
    number: int,
    workers: int,
    horizon: int,
    change: Change,
    options: argparse.Namespace,
) -> tuple[int, str | None]:
    """The samples told until top-two decides, and for which; None if a generator has no more samples."""
    policy = Policy("top-two", warmup_batches(type(problem.question.metric), "influence"), Stopping(DELTA), number)
    flight, arms, told = Flight(problem, names, number), [Arm(name) for name in names], 0
    newest: dict[int, Estimate] = {}
    while True:
        while (begun := sum(arm.batches + arm.pending_batches for arm in arms)) < told + workers:
            place = policy.pick(arms, told, begun + 1)
            arm, on_their_way = arms[place], sum(each.pending_samples for each in arms)
            size = grown_size(BATCH, arm.samples, on_their_way, 0.0, 1.0) if options.grow else BATCH
            if arm.samples + arm.pending_samples + size > horizon:
                return sum(each.samples for each in arms), None
            flight.begin(arm.name, size=size)
            pending = arm.pending_samples + size, arm.pending_batches + 1
            arms[place] = replace(arm, pending_samples=pending[0], pending_batches=pending[1])
        name, size, is_due = flight.tell()
        told, place = told + 1, names.index(name)
        arm = arms[place]
        arms[place] = replace(
            arm,
            samples=arm.samples + size,
            batches=arm.batches + 1,
            pending_samples=arm.pending_samples - size,
            pending_batches=arm.pending_batches - 1,
        )
        if is_due:
            newest[place] = change(name, flight.estimate(name))
        for at, made in newest.items():
            known = arms[at].estimate
            if known is None or known.samples < (1.0 - options.late) * made.samples:
                arms[at] = replace(arms[at], estimate=made)
        decision = policy.stopping.decide(arms, told)
        if decision.decided:
            arms = [replace(arm, estimate=newest.get(at)) for at, arm in enumerate(arms)]
            decision = policy.stopping.decide(arms, told)
        if decision.decided:
            return sum(each.samples for each in arms), decision.best


def _neighbours(truths: Mapping[str, float]) -> tuple[tuple[str, str], float]:
    """The second and the third generator in the problem's order, and the difference of their scores."""
    one, other = [*truths][1:3]
    return (one, other), truths[one] - truths[other]


def _lower_is_better(problem: Problem) -> bool:
    return problem.bound().metric.lower_is_better


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


TABLES: dict[str, Callable[[Problem, Mapping[str, float], int, argparse.Namespace], list[str]]] = {
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
        "--late", type=float, default=0.0, help="the share of batches that estimates may lack, in races"
    )
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
                row = TABLES[table](problem, truths, workers, options)
                print(f"| {name} | {table} | {workers} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
