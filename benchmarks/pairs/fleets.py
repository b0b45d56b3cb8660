"""How many samples do fleets of workers tell to a real service until it has decided?

    python benchmarks/pairs/fleets.py [--problems NAME ...] [--runs 5] [--workers 1 8 16] [--seconds 0.3]

`optimist serve` of the checkout that PYTHONPATH names, `top-two`, δ = 0.05, batches of 5. W workers ask, take a time of
an exponential law for a batch, tell it, and ask again, until the experiment has ended: what is on its way leaves gaps
in the indices, and estimates come as late as the scorer makes them. A run's samples are those of the stream of the same
number in the other tables. The row has the median and the geometric mean of the samples told, wrong answers, runs
without a decision within the budget, and the samples of each run. Problems without a reference, and of FID.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from problems import PROBLEMS, Problem, problem_named
from streams import BATCH, places_of

sys.path.append(str(Path(__file__).parents[1] / "bits"))
from served import serving

from optimist.metrics.fid.reference import FrechetReference
from optimist_client import Experiment, Optimist
from optimist_client.metrics import Metric

BUDGET = 6_000


def asked(service: Optimist, problem: Problem, dimension: int) -> Metric:
    """The metric of a problem as a service is asked for it, which then has its reference."""
    metric = problem.question.metric
    reference = metric.setting("reference")
    if not isinstance(reference, FrechetReference):
        return metric.model_copy(update={"dimension": dimension})
    name = "real"  # the same one again succeeds
    service.create_reference(name, mean=reference.mean.numpy(), covariance=reference.covariance.numpy())
    return metric.model_copy(update={"reference": name})


def told(service: Optimist, problem: Problem, number: int, workers: int, seconds: float) -> tuple[int, str | None]:
    """The samples that a fleet tells until the experiment has ended, and which generator it names, if any."""
    places, waits = places_of(problem, number), np.random.default_rng([number, 1]).exponential(seconds, BUDGET)
    (array,) = problem.question.arrays
    experiment = service.create_experiment(
        f"{workers}-workers-{number}",
        list(problem.generators),
        metric=asked(service, problem, next(iter(problem.pools.values()))[array].shape[1]),
        batch_size=BATCH,
        budget=BUDGET,
        seed=number,
    )

    def work(experiment: Experiment, worker: int) -> None:
        for pick in experiment.picks(worker=f"w{worker}"):
            time.sleep(waits[pick.number])
            assert pick.start is not None
            pick.tell(problem.pools[pick.generator][array][places[pick.start : pick.start + pick.size]])

    with ThreadPoolExecutor(workers) as fleet:
        for done in [fleet.submit(work, experiment, worker) for worker in range(workers)]:
            done.result()
    report = experiment.report()
    return report.samples, report.decision.best if report.decision.decided else None


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["truncations (4): rke"], help="beginnings of their names")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--seconds", type=float, default=0.3, help="mean time that a worker takes for a batch")
    options = parser.parse_args()
    for name in (name for name in PROBLEMS if name.startswith(tuple(options.problems))):
        problem = problem_named(name, "")
        truths = {generator: problem.truth(generator) for generator in problem.generators}
        best = (min if problem.bound().metric.lower_is_better else max)(truths, key=truths.__getitem__)
        with serving() as started:
            service = Optimist(started.url)
            for workers in options.workers:
                found = [told(service, problem, number, workers, options.seconds) for number in range(options.runs)]
                samples = [count for count, _ in found]
                wrong = sum(named not in (best, None) for _, named in found)
                undecided = sum(named is None for _, named in found)
                means = f"{np.median(samples):,.0f} | {np.exp(np.log(samples).mean()):,.0f}"
                print(f"| {name} | {workers} | {means} | {wrong} | {undecided} | {samples} |", flush=True)


if __name__ == "__main__":
    main()
