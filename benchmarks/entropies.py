"""Vendi scores of orders below 2: are the intervals as wide as the real errors?

    python benchmarks/entropies.py [--data DIR] [--repeats 12]
    python benchmarks/entropies.py --pairs [--repeats 12]
    python benchmarks/entropies.py --cost

The first command prints, for each benchmark problem, order and number of samples, the root-mean-square z of the
estimates (z = (value − truth)/`stopping_error`) and their root-mean-square error in log. It runs in this process with
one thread. The truth is exact where samples are drawn from a pool (MNIST, CIFAR, text: the pool is the population,
drawn with replacement), otherwise the estimate from 20,000 samples. MNIST, CIFAR and text need `--data`, a directory
with mnist_lenet_generators.npz (`arm_feat`, `arm_names`), cifar10_ref2048_arms.npz (`feat2048_*`) and llmfao_minilm.npz
(`emb`, `model`); without it they are left out.

The second command does the same for scores of pairs, the third one times an estimate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from calibration import PAIR_KERNELS, GaussianPairsProblem, GaussianProblem, PromptedDigitsProblem
from optimist.estimation.question import Question, declared_of
from optimist.metrics.bound import Bound
from optimist.metrics.threads import limit_threads
from optimist.simulation.digits.world import load

ORDERS = (0.5, 1.0, 1.25, 1.5)
COUNTS = (20, 50, 100, 200)
LARGE = 20_000
JITTER = 0.3
"""Norm of the noise that makes texts differ, relative to the embedding."""
COSTS = [(50, 256), (200, 256), (500, 256), (1000, 256), (500, 1000), (1000, 1000)]

Arrays = Mapping[str, NDArray[Any]]
Draw = Callable[[int, int], Arrays]
"""Samples of a number and a seed."""


class Problem:
    """Generators with a metric; `pools` are the populations of those that draw from one."""

    def __init__(self, metric: str, settings: dict[str, Any], draws: dict[str, Draw], pools: dict[str, Arrays]) -> None:
        self.metric, self.settings, self.draws, self.pools = metric, settings, draws, pools

    def bounds(self, orders: Sequence[float]) -> list[Bound]:
        """The bound of each order."""
        widths = {name: rows.shape[1] for name, rows in next(iter(self.draws.values()))(2, 0).items()}
        declared = [declared_of(self.metric, order=order, **self.settings) for order in orders]
        return [Question(metric).bound_for(widths) for metric in declared]

    def truths(self, generator: str, bounds: Sequence[Bound]) -> list[float]:
        """The scores of the population."""
        if generator in self.pools:
            statistic = statistic_of(bounds[0], self.pools[generator])
            return [bound.metric.plug_in(statistic) for bound in bounds]
        statistic = statistic_of(bounds[0], self.draws[generator](LARGE, 10**6))
        return [bound.estimate(statistic).value for bound in bounds]


def statistic_of(bound: Bound, arrays: Arrays) -> Any:
    """A statistic of these samples."""
    statistic = bound.statistic()
    statistic.update(*(torch.from_numpy(np.asarray(rows, dtype=np.float64)) for rows in arrays.values()))
    return statistic


def gaussian(features: int, sigma: float) -> dict[str, Any]:
    """The settings of a gaussian kernel with this many columns."""
    return {"kernel": {"name": "gaussian", "sigma": sigma, "features": features // 2}}


def half_median(rows: NDArray[Any]) -> float:
    """Half the median distance of up to 1000 rows."""
    return 0.5 * float(torch.pdist(torch.from_numpy(rows[:1000].astype(np.float64))).median())


def of_pools(settings: dict[str, Any], pools: dict[str, NDArray[Any]]) -> Problem:
    """A problem that draws from pools with replacement."""

    def drawn(rows: NDArray[Any]) -> Draw:
        return lambda size, seed: {"features": rows[np.random.default_rng(seed).integers(len(rows), size=size)]}

    draws = {name: drawn(rows) for name, rows in pools.items()}
    return Problem("vendi", settings, draws, {name: {"features": rows} for name, rows in pools.items()})


def fresh(settings: dict[str, Any], draws: dict[str, Callable[[int, int], NDArray[Any]]]) -> Problem:
    """A problem whose samples are all new."""

    def features(draw: Callable[[int, int], NDArray[Any]]) -> Draw:
        return lambda size, seed: {"features": draw(size, seed)}

    return Problem("vendi", settings, {name: features(draw) for name, draw in draws.items()}, {})


def digits() -> Problem:
    """The demo's generators through its feature network."""
    world = load(progress=False)

    def drawn(name: str) -> Callable[[int, int], NDArray[Any]]:
        return lambda size, seed: world.features(world.generators[name].sample(size, seed))

    return fresh(gaussian(256, 5.0), {name: drawn(name) for name in world.generators})


def normal() -> Problem:
    """The Gaussian benchmark problem of calibration.py."""
    problem = GaussianProblem()

    def drawn(name: str) -> Callable[[int, int], NDArray[Any]]:
        return lambda size, seed: problem.sample(name, size, seed)["features"]

    return fresh(gaussian(256, 5.0), {name: drawn(name) for name in problem.generators})


def clusters() -> Problem:
    """Mixtures of 8 to 100 clusters of unequal shares (1/rank) in 16 dimensions, 0.2 wide at distances of about 5.7."""

    def drawn(kinds: int) -> Callable[[int, int], NDArray[Any]]:
        def draw(size: int, seed: int) -> NDArray[Any]:
            centres = np.random.default_rng(kinds).standard_normal((kinds, 16))
            shares = 1.0 / np.arange(1.0, kinds + 1.0)
            rng = np.random.default_rng((kinds, seed))
            chosen = rng.choice(kinds, size=size, p=shares / shares.sum())
            return centres[chosen] + 0.2 * rng.standard_normal((size, 16))

        return draw

    return fresh(gaussian(256, 1.5), {f"{kinds} clusters": drawn(kinds) for kinds in (8, 16, 30, 60, 100)})


def mnist(data: Path) -> Problem:
    """LeNet features of five generators of digits, 5,000 samples each."""
    with np.load(data / "mnist_lenet_generators.npz") as file:
        pools = dict(zip(map(str, file["arm_names"]), file["arm_feat"].astype(np.float64), strict=True))
    return of_pools(gaussian(200, half_median(next(iter(pools.values())))), pools)


def cifar(data: Path) -> Problem:
    """Features (2048 columns) of five sets of 800 images."""
    with np.load(data / "cifar10_ref2048_arms.npz") as file:
        names = [name for name in file if name.startswith("feat2048_") and len(file[name]) == 800]
        pools = {name.removeprefix("feat2048_"): file[name].astype(np.float64) for name in names}
    return of_pools(gaussian(256, half_median(pools["heldout_real"])), pools)


def answers(data: Path) -> dict[str, NDArray[Any]]:
    """MiniLM embeddings of the answers of 70 language models, and of each half of them."""
    with np.load(data / "llmfao_minilm.npz") as file:
        rows, model = file["emb"].astype(np.float64), file["model"]
    return {"all": rows, "models 0–34": rows[model < 35], "models 35–69": rows[model >= 35]}


def text(data: Path) -> Problem:
    """Answers, of which many repeat others, under the cosine kernel."""
    return of_pools({"kernel": {"name": "cosine"}}, answers(data))


def distinct_text(data: Path) -> Problem:
    """Answers with noise, so that none repeats."""

    def drawn(rows: NDArray[Any]) -> Callable[[int, int], NDArray[Any]]:
        def draw(size: int, seed: int) -> NDArray[Any]:
            rng = np.random.default_rng(seed)
            noise = JITTER / np.sqrt(rows.shape[1]) * rng.standard_normal((size, rows.shape[1]))
            return rows[rng.integers(len(rows), size=size)] + noise

        return draw

    return fresh({"kernel": {"name": "cosine"}}, {name: drawn(rows) for name, rows in answers(data).items()})


def pairs_problem(made: Any, metric: str) -> Problem:
    """A benchmark problem of pairs of calibration.py."""

    def drawn(name: str) -> Draw:
        return lambda size, seed: {key: made.sample(name, size, seed)[key] for key in ("features", "prompts")}

    return Problem(metric, PAIR_KERNELS, {name: drawn(name) for name in made.generators}, {})


def problems(data: Path | None, pairs: bool) -> Iterator[tuple[str, Problem, tuple[float, ...]]]:
    """Each benchmark problem by its name, with the orders to score."""
    if pairs:
        for name, made in (("prompted digits", PromptedDigitsProblem()), ("Gaussian pairs", GaussianPairsProblem())):
            for metric in ("conditional-vendi", "information-vendi"):
                yield f"{name}, {metric.split('-')[0]}", pairs_problem(made, metric), (1.0,)
        return
    yield "digits", digits(), ORDERS
    yield "Gaussian", normal(), ORDERS
    yield "clusters", clusters(), ORDERS
    if data is not None:
        for name, made in (("MNIST", mnist), ("CIFAR", cifar), ("text", text), ("text, distinct", distinct_text)):
            yield name, made(data), ORDERS


def calibration(data: Path | None, repeats: int, pairs: bool) -> Table:
    """Root-mean-square z and error by benchmark problem, order and count."""
    table = Table(title=f"rms z; rms error: {repeats} repeats of each generator", box=box.MARKDOWN)
    for column in ("samples", "order", *(f"n = {count}" for count in COUNTS)):
        table.add_column(column, no_wrap=True)
    for name, problem, orders in problems(data, pairs):
        for order, by_count in zip(orders, misses(problem, orders, repeats), strict=True):
            cells = [name, f"{order:g}", *map(_cell, by_count)]
            table.add_row(*cells)
            Console(stderr=True, width=200).print(*cells, sep=" | ")
    return table


def misses(problem: Problem, orders: Sequence[float], repeats: int) -> NDArray[Any]:
    """(value − truth, stopping error), as an array (orders, counts, generators · repeats, 2)."""
    bounds = problem.bounds(orders)
    found = np.empty((len(orders), len(COUNTS), len(problem.draws) * repeats, 2))
    for place, (generator, draw) in enumerate(problem.draws.items()):
        truths = problem.truths(generator, bounds)
        for number in range(repeats):
            sample = draw(max(COUNTS), 100 * number + place)
            for column, count in enumerate(COUNTS):
                statistic = statistic_of(bounds[0], {name: rows[:count] for name, rows in sample.items()})
                for row, bound in enumerate(bounds):
                    made = bound.estimate(statistic)
                    found[row, column, place * repeats + number] = made.value - truths[row], made.stopping_error
    return found


def _cell(found: NDArray[Any]) -> str:
    """Of an array (streams, 2)."""
    z = np.sqrt(np.square(found[:, 0] / found[:, 1]).mean())
    return f"{z:.2f}; {np.sqrt(np.square(found[:, 0]).mean()):.3f}"


def cost() -> Table:
    """Milliseconds of an estimate of order 1, the least of several."""
    table = Table(title="milliseconds of an estimate", box=box.MARKDOWN)
    for column in ("n", "columns of φ", "ms"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    for count, width in COSTS:
        draws: dict[str, Draw] = {"a": lambda size, seed: {"features": rng.standard_normal((size, 64))}}
        [bound] = Problem("vendi", gaussian(width, 8.0), draws, {}).bounds([1.0])
        statistic, least = statistic_of(bound, draws["a"](count, 0)), np.inf
        for _ in range(max(5, 4000 // count)):
            start = time.perf_counter()
            bound.estimate(statistic)
            least = min(least, time.perf_counter() - start)
        table.add_row(f"{count}", f"{width}", f"{1e3 * least:.1f}")
    return table


def main() -> None:
    """Measure and print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory of the real features; without it they are left out")
    parser.add_argument("--repeats", type=int, default=12, help="number of streams of each generator")
    parser.add_argument("--pairs", action="store_true", help="scores of pairs instead")
    parser.add_argument("--cost", action="store_true", help="time an estimate instead")
    options = parser.parse_args()
    limit_threads(1)
    table = cost() if options.cost else calibration(options.data, options.repeats, options.pairs)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
