"""Are the intervals as wide as the real errors, and is the stopping rule correct? For every metric.

    python benchmarks/calibration.py [--repeats 40] [--truth 50000]
    python benchmarks/calibration.py --stopping [--runs 50] [--cap 6000]

The first command measures root-mean-square z = (value − truth)/stopping_error of the `influence` bound: 1 if the
estimated error equals the real error, larger if the estimate is too small. It is pooled over the generators of a test
problem; the table also shows the mean z (the bias in standard errors) and the generator with the largest root mean
square. Cells outside 0.6 – 1.2 are marked with a star. The truth is the closed form for FID on Gaussian features;
otherwise the de-biased estimate on `--truth` samples with another seed. (The plug-in Vendi score is still up to 0.002
too low there, a tenth of the estimate's own standard deviation at n = 500.)

The second command runs `top-two` at δ = 0.05 through `Evaluation` until it decides, and `uniform` with the same rule on
the same streams. Both check for a decision after every batch of 5.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from optimist import score, simulate
from optimist.metrics.threads import limit_threads
from optimist.simulation.digits.generators import TEXTS, softmax
from optimist.simulation.digits.world import load
from optimist_client.metrics import find

KERNEL = {"name": "gaussian", "sigma": 5.0, "features": 128}
PAIR_KERNELS = {"kernel": KERNEL, "prompt_kernel": {"name": "gaussian", "sigma": 2.5}}
METRICS: dict[str, dict[str, Any]] = {
    "fid": {"metric": "fid"},
    "is": {"metric": "is"},
    "rke": {"metric": "rke", "kernel": KERNEL},
    "vendi, order 1": {"metric": "vendi", "kernel": KERNEL},
    "vendi, order 2": {"metric": "vendi", "order": 2.0, "kernel": KERNEL},
    "vendi, t = 10": {"metric": "vendi", "truncation": 10, "kernel": KERNEL},
    "kid": {"metric": "kid"},
    "precision": {"metric": "precision"},
    "density": {"metric": "density"},
    "coverage": {"metric": "coverage"},
    "mean": {"metric": "mean"},
    "conditional, order 1": {"metric": "conditional-vendi", **PAIR_KERNELS},
    "conditional, order 2": {"metric": "conditional-vendi", "order": 2.0, **PAIR_KERNELS},
    "information, order 1": {"metric": "information-vendi", **PAIR_KERNELS},
    "information, order 2": {"metric": "information-vendi", "order": 2.0, **PAIR_KERNELS},
}
OF_PAIRS = tuple(metric for metric, options in METRICS.items() if "prompt_kernel" in options)
OF_ROWS = ("kid", "precision", "density", "coverage")
"""Those that compare with rows of real data, which the digits have."""
OF_SAMPLES = tuple(metric for metric in METRICS if metric not in (*OF_PAIRS, *OF_ROWS, "mean"))
COUNTS = (50, 100, 200, 500)
BAND = (0.6, 1.2)
TRUTH_SEED = 1_000_000
CONTENDERS = {
    "kinds": ("vae-1.0", "vae-1.3", "gmm-40", "kde-0.2"),
    "truncations": ("vae-0.5", "vae-0.75", "vae-1.0", "vae-1.3"),
    "prompted": (),
}
"""Generators that are compared with each other; () means all of the benchmark problem."""
PROBLEM_OF = {"kinds": "digits", "truncations": "digits", "prompted": "prompted digits"}
BATCH = 5
DELTA = 0.05


class Problem(Protocol):
    """A benchmark problem: generators to compare, by name, and the reference of their features."""

    generators: tuple[str, ...]
    metrics: tuple[str, ...]
    reference: tuple[np.ndarray, np.ndarray]
    rows: np.ndarray | None
    """Real rows (m, d); None where there are only moments."""

    def sample(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The tensors that the metrics score, each (size, …), drawn with `seed`."""
        ...

    def exact(self, generator: str, metric: str) -> float | None:
        """The score in closed form, or None if there is none."""
        ...


class DigitsProblem:
    """The demo's generators through its feature network: real ReLU features, rows of unequal norm."""

    def __init__(self) -> None:
        self._digits = load(progress=False)
        self.generators = tuple(self._digits.generators)
        self.metrics = (*OF_SAMPLES, *OF_ROWS)
        self.reference = self._digits.reference()[:2]
        self.rows: np.ndarray | None = self._digits.features(self._digits.images)

    def sample(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The tensors that the metrics score, each (size, …), drawn with `seed`."""
        images = self._digits.generators[generator].sample(size, seed)
        return {"features": self._digits.features(images), "probabilities": self._digits.probabilities(images)}

    def exact(self, generator: str, metric: str) -> float | None:
        """The score in closed form, or None if there is none."""
        return None


class GaussianProblem:
    """N(0.3, diag λ), d = 64, λ_j ∝ j^−s with sum 50 (real digits: 54); for IS the softmax of 10 normal logits.

    The reference is centred and has s = 1. The logits have standard deviations 1, 2 and 4.
    """

    def __init__(self) -> None:
        ranks = np.arange(1.0, 65.0)
        self._spectra = {f"s = {s:g}": 50.0 * ranks**-s / (ranks**-s).sum() for s in (0.5, 1.0, 2.0)}
        self._sharpness = dict(zip(self._spectra, (1.0, 2.0, 4.0), strict=True))
        self.generators = tuple(self._spectra)
        self.metrics = (*OF_SAMPLES, "mean")
        self.rows: np.ndarray | None = None
        self.reference = np.zeros(64), np.diag(self._spectra["s = 1"])

    def sample(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The tensors that the metrics score, each (size, …), drawn with `seed`."""
        rng = np.random.default_rng(seed)
        features = 0.3 + rng.standard_normal((size, 64)) * np.sqrt(self._spectra[generator])
        logits = self._sharpness[generator] * rng.standard_normal((size, 10))
        return {"features": features, "probabilities": softmax(logits), "values": features[:, 0]}

    def exact(self, generator: str, metric: str) -> float | None:
        """The score in closed form, or None if there is none."""
        if metric == "mean":
            return 0.3
        if metric != "fid":
            return None
        roots = np.sqrt(self._spectra[generator]) - np.sqrt(self._spectra["s = 1"])
        return float(64 * 0.3**2 + (roots**2).sum())


class PromptedDigitsProblem:
    """The demo's prompted generators: features of digits; every sample has a newly drawn prompt."""

    def __init__(self) -> None:
        self._digits = load(progress=False)
        self.generators = tuple(self._digits.prompted)
        self.metrics = OF_PAIRS
        self.rows: np.ndarray | None = None
        self.reference = self._digits.reference()[:2]

    def sample(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The tensors that the metrics score, each (size, …), drawn with `seed`."""
        prompts = [TEXTS[index] for index in np.random.default_rng((seed, 1)).integers(len(TEXTS), size=size)]
        images = self._digits.prompted[generator].sample(prompts, seed)
        return {"features": self._digits.features(images), "prompts": self._digits.embeddings(prompts)}

    def exact(self, generator: str, metric: str) -> float | None:
        """The score in closed form, or None if there is none."""
        return None


class GaussianPairsProblem:
    """Prompts of 10 kinds at distance 7; an answer is the centre of its kind plus N(0, diag λ) of `GaussianProblem`."""

    def __init__(self) -> None:
        self._noise = GaussianProblem()
        self._centres = 5.0 * np.eye(10, 64)
        self.generators = self._noise.generators
        self.metrics = OF_PAIRS
        self.rows: np.ndarray | None = None
        self.reference = self._noise.reference

    def sample(self, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
        """The tensors that the metrics score, each (size, …), drawn with `seed`."""
        centres = self._centres[np.random.default_rng((seed, 1)).integers(10, size=size)]
        return {"features": self._noise.sample(generator, size, seed)["features"] + centres, "prompts": centres}

    def exact(self, generator: str, metric: str) -> float | None:
        """The score in closed form, or None if there is none."""
        return None


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "digits": DigitsProblem,
    "Gaussian": GaussianProblem,
    "prompted digits": PromptedDigitsProblem,
    "Gaussian pairs": GaussianPairsProblem,
}


@cache
def problem_named(name: str) -> Problem:
    """The benchmark problem, created once in each process."""
    return PROBLEMS[name]()


def batch_of(sample: dict[str, np.ndarray], metric: str, rows: slice = slice(None)) -> dict[str, np.ndarray]:
    """The arrays that the metric scores, from some rows of a sample."""
    return {tensor: sample[tensor][rows] for tensor in find(METRICS[metric]["metric"]).arrays}


def options_of(problem: Problem, metric: str) -> dict[str, Any]:
    """The arguments of `score` and `Evaluation` for the metric."""
    if metric == "fid":
        return METRICS[metric] | {"reference": problem.reference}
    return METRICS[metric] | ({"reference": problem.rows} if metric in OF_ROWS else {})


@dataclass(frozen=True)
class Truth:
    """Task: the true scores of a generator, by metric: (benchmark problem, generator, {metric: value})."""

    problem: str
    generator: str
    size: int

    def __call__(self) -> tuple[str, str, dict[str, float]]:
        """Score one large sample."""
        problem = problem_named(self.problem)
        sample = problem.sample(self.generator, self.size, TRUTH_SEED + problem.generators.index(self.generator))
        values: dict[str, float] = {}
        for metric in problem.metrics:
            exact = problem.exact(self.generator, metric)
            estimate = score(batch_of(sample, metric), **options_of(problem, metric)).value if exact is None else exact
            values[metric] = estimate
        return self.problem, self.generator, values


@dataclass(frozen=True)
class Repeat:
    """Task: one stream of a generator, scored at every count: {(metric, n): (value, stopping_error)}."""

    problem: str
    generator: str
    number: int

    def __call__(self) -> tuple[str, str, dict[tuple[str, int], tuple[float, float]]]:
        """Score one stream."""
        problem = problem_named(self.problem)
        sample = problem.sample(self.generator, max(COUNTS), stream_seed(problem, self.generator, self.number))
        found: dict[tuple[str, int], tuple[float, float]] = {}
        for metric in problem.metrics:
            for n in COUNTS:
                estimate = score(batch_of(sample, metric, slice(n)), **options_of(problem, metric))
                assert estimate.stopping_error is not None
                found[metric, n] = estimate.value, estimate.stopping_error
        return self.problem, self.generator, found


@dataclass(frozen=True)
class Race:
    """Task: each policy runs to its decision on the same streams: {policy: (named, samples)}, None if undecided."""

    group: str
    metric: str
    number: int
    cap: int

    def __call__(self) -> tuple[str, str, dict[str, tuple[str | None, int]]]:
        """Run both policies."""
        problem = problem_named(PROBLEM_OF[self.group])
        names = contenders(self.group)
        result = simulate(
            {name: batch_of(self._stream(problem, name), self.metric) for name in names},
            **options_of(problem, self.metric),
            policies=("top-two", "uniform"),
            rounds=self.cap // BATCH,
            batch_size=BATCH,
            trials=1,
            seed=self.number,
            stop=True,
            shuffle=False,
            paired=True,
            delta=DELTA,
            truth=dict.fromkeys(names, 1.0),  # the true scores are known better
            jobs=1,
        )
        ends = {policy: run["named"][0, run.lengths[0] - 1] for policy, run in result.runs.items()}
        outcomes = {
            policy: (names[ends[policy]] if run.decided[0] else None, int(run.samples.sum()))
            for policy, run in result.runs.items()
        }
        return self.group, self.metric, outcomes

    def _stream(self, problem: Problem, name: str) -> dict[str, np.ndarray]:
        return problem.sample(name, self.cap, stream_seed(problem, name, self.number))


def contenders(group: str) -> tuple[str, ...]:
    """The generators of a group."""
    return CONTENDERS[group] or problem_named(PROBLEM_OF[group]).generators


def stream_seed(problem: Problem, generator: str, number: int) -> int:
    """A seed of its own for every generator and repeat; otherwise generators of one family would share their noise."""
    return 100 * number + problem.generators.index(generator)


def results(tasks: Sequence[Callable[[], Any]], what: str) -> Iterator[Any]:
    """The results of the tasks, in the order in which they finish, from one process per core."""
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # One thread in each process: threads that share a core cost much more than they save.
    with (
        ProcessPoolExecutor(
            os.cpu_count(), multiprocessing.get_context("spawn"), initializer=limit_threads, initargs=(1,)
        ) as pool,
        Progress(*columns, console=Console(stderr=True)) as bar,
    ):
        line = bar.add_task(what, total=len(tasks))
        for future in as_completed([pool.submit(task) for task in tasks]):
            bar.advance(line)
            yield future.result()


def truths(size: int) -> dict[tuple[str, str, str], float]:
    """The true score by benchmark problem, generator and metric."""
    tasks = [Truth(problem, generator, size) for problem in PROBLEMS for generator in problem_named(problem).generators]
    return {
        (problem, generator, metric): value
        for problem, generator, values in results(tasks, "truth")
        for metric, value in values.items()
    }


def calibration(repeats: int, size: int) -> Table:
    """The table of root-mean-square z by metric, benchmark problem and count."""
    true = truths(size)
    z: dict[tuple[str, str, int, str], list[float]] = {}
    tasks = [Repeat(b, g, number) for number in range(repeats) for b in PROBLEMS for g in problem_named(b).generators]
    for problem, generator, found in results(tasks, "repeats"):
        for (metric, n), (value, error) in found.items():
            z.setdefault((problem, metric, n, generator), []).append((value - true[problem, generator, metric]) / error)
    table = Table(title=f"rms z (mean z; worst generator): {repeats} repeats of each generator", box=box.MARKDOWN)
    for column in ("features", "metric", *(f"n = {n}" for n in COUNTS)):
        table.add_column(column, no_wrap=True)
    for problem in PROBLEMS:
        for metric in problem_named(problem).metrics:
            cells = [_cell({g: z[problem, metric, n, g] for g in problem_named(problem).generators}) for n in COUNTS]
            table.add_row(problem, metric, *cells)
    return table


def _cell(by_generator: dict[str, list[float]]) -> str:
    pooled = np.array(list(by_generator.values()))
    each = {name: float(np.sqrt(np.square(z).mean())) for name, z in by_generator.items()}
    worst = max(each, key=each.__getitem__)
    rms = float(np.sqrt(np.square(pooled).mean()))
    star = "" if BAND[0] <= rms <= BAND[1] else "\\*"
    return f"{rms:.2f}{star} ({pooled.mean():+.1f}; {worst} {each[worst]:.2f})"


def stopping(runs: int, cap: int, size: int) -> Table:
    """The table of wrong answers and samples until the decision, by group of generators and metric."""
    true = truths(size)
    # Order 2 is the same score as RKE.
    raced = [
        (group, metric)
        for group in CONTENDERS
        if PROBLEM_OF[group] in PROBLEMS
        for metric in problem_named(PROBLEM_OF[group]).metrics
        if metric not in ("vendi, order 2", *OF_ROWS, "mean")
    ]
    races: dict[tuple[str, str], list[dict[str, tuple[str | None, int]]]] = {}
    tasks = [Race(*which, number, cap) for number in range(runs) for which in raced]
    for group, metric, outcome in results(tasks, "runs"):
        races.setdefault((group, metric), []).append(outcome)
    table = Table(title=f"Samples until the decision, δ = {DELTA}: {runs} runs per row, cap {cap:,}", box=box.MARKDOWN)
    for column in ("generators", "metric", "best"):
        table.add_column(column, no_wrap=True)
    for policy in ("top-two", "uniform"):
        for column in ("wrong", "undecided", "median"):
            table.add_column(f"{policy}: {column}", justify="right")
    for group, metric in raced:
        sign = 1.0 if metric == "fid" else -1.0
        true_losses = {name: sign * true[PROBLEM_OF[group], name, metric] for name in contenders(group)}
        best = min(true_losses, key=true_losses.__getitem__)
        row: list[str] = []
        for policy in ("top-two", "uniform"):
            outcomes = [outcome[policy] for outcome in races[group, metric]]
            wrong = sum(named not in (best, None) for named, _ in outcomes)
            undecided = sum(named is None for named, _ in outcomes)
            row += [str(wrong), str(undecided), f"{np.median([samples for _, samples in outcomes]):,.0f}"]
        table.add_row(group, metric, best, *row)
    return table


def main() -> None:
    """Measure and print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40, help="number of streams of each generator")
    parser.add_argument("--truth", type=int, default=50_000, help="number of samples for the truth")
    parser.add_argument("--stopping", action="store_true", help="measure runs to the decision instead")
    parser.add_argument("--runs", type=int, default=50, help="number of runs of each metric and group of generators")
    parser.add_argument(
        "--only", choices=PROBLEMS, nargs="+", default=list(PROBLEMS), help="names of the benchmark problems"
    )
    parser.add_argument(
        "--cap", type=int, default=6_000, help="number of samples after which a run counts as undecided"
    )
    options = parser.parse_args()
    for problem in set(PROBLEMS) - set(options.only):
        del PROBLEMS[problem]
    if options.stopping:
        table = stopping(options.runs, options.cap, options.truth)
    else:
        table = calibration(options.repeats, options.truth)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
