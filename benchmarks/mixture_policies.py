"""Mixtures: what do the samples that a policy draws, and the weights that it names, lose against the best mixture?

    python benchmarks/mixture_policies.py --rules [--trials 12]
    python benchmarks/mixture_policies.py [--metrics rke vendi fid] [--problems kinds truncations] [--data DIR]
    [--trials 6]

The first command plays rules of the papers on two problems in closed form (`mixture_problems.py`), a sample at a time,
by their own estimates (the V-statistic), beside our policy as `Evaluation` plays it: excess of the samples drawn after
50, 100, 200 and 400 samples, and of the weights named after 400, as a share of the least loss. The rules differ in the
bonus ε: of the paper (Δ_L = 2, Δ_κ = 1), of the authors' code (0.6 √(log t/n)), smaller, or none.

The second one plays policies through `optimist.simulate` on problems of real generators, with batches of 10. The truth
is exact: a problem's samples are drawn with replacement from pools whose moments are known. `--data` is a directory
with mnist_lenet_generators.npz and llmfao_minilm.npz, for the problems mnist and texts.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from mixture_gain import declared
from mixture_problems import CLOSED, OF_DATA, REAL, Floats, Law, Problem, problem_named
from mixture_truth import METRICS, Truth
from optimist import Evaluation, simulate
from optimist.estimation.question import Question
from optimist.metrics.threads import limit_threads
from optimist.numerics.programme import Quadratic, least
from optimist.policies.mixture_policy import Ranges, drawn, optimistic_weights, steepest
from optimist.simulation.judges.mixture import TrueMixtures
from optimist.simulation.sources import Draw

AFTER = (50, 100, 200, 400)
Bonus = Callable[[Floats], Floats]


class LawSource:
    """A law of a benchmark problem as a source of a simulation."""

    samples = None

    def __init__(self, law: Law, dimension: int, origin: str) -> None:
        self._law, self._dimension, self.origin = law, dimension, origin

    @property
    def widths(self) -> dict[str, int]:
        """The columns of a row."""
        return {"features": self._dimension}

    def stream(self, draw: Draw) -> LawStream:
        """An unlimited stream of new rows."""
        return LawStream(self._law, draw.rng())

    def exact(self, question: Question) -> None:
        """None: the truth of a problem is given."""


class LawStream:
    """Rows of a law, drawn on demand."""

    def __init__(self, law: Law, rng: np.random.Generator) -> None:
        self._law, self._rng = law, rng

    def take(self, count: int) -> dict[str, Floats]:
        """The next rows."""
        return {"features": self._law.sample(count, self._rng)}


def of_paper(samples: Floats) -> Floats:
    """ε as in the paper, for RKE."""
    return Ranges(1.0, 2.0).bonus(samples)


def of_code(size: float) -> Bonus:
    """ε as in the authors' code, with Δ_L = `size`."""
    return lambda samples: size * np.sqrt(math.log(samples.sum()) / samples)


def none(samples: Floats) -> Floats:
    """ε = 0."""
    return np.zeros(len(samples))


RULES: dict[str, tuple[str, Bonus]] = {
    "uniform": ("uniform", none),
    "CAB, Δ_L = 2 (paper)": ("cab", of_paper),
    "CAB, 0.6 (their code)": ("cab", of_code(0.6)),
    "greedy": ("cab", none),
    "OGD, 0.6": ("ogd", of_code(0.6)),
    "OGD, 0.05": ("ogd", of_code(0.05)),
}


class Sums:
    """The V-statistic of the squared kernel, a sample at a time."""

    def __init__(self, problem: Problem) -> None:
        count, width = len(problem.generators), 2 * problem.features
        self._omegas = problem.omegas
        self._seconds = np.zeros((count, width, width))
        self._totals = np.zeros((count, count))
        self.samples = np.zeros(count)

    def add(self, place: int, row: Floats) -> None:
        """A row (1, d) of the generator in this place."""
        angles = row @ self._omegas
        features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(self._omegas.shape[1])
        seen = np.einsum("a,gab,b->g", features[0], self._seconds, features[0])
        self._totals[place] += seen
        self._totals[:, place] += seen
        self._totals[place, place] += 1.0
        self._seconds[place] += np.outer(features[0], features[0])
        self.samples[place] += 1

    @property
    def model(self) -> Quadratic:
        """αᵀK̂α."""
        return Quadratic(self._totals / np.outer(self.samples, self.samples), np.zeros(len(self.samples)))


def played(problem: Problem, rule: str, seed: int) -> tuple[list[Floats], Floats]:
    """The shares drawn after `AFTER` samples, and the weights at the end, of a published rule."""
    kind, bonus = RULES[rule]
    sums, uniforms = Sums(problem), np.random.default_rng((seed, 999))
    streams = [problem.stream(place, seed) for place in range(len(problem.generators))]
    laws, shares = list(problem.laws.values()), list[Floats]()
    for step in range(max(AFTER)):
        if step < len(laws):
            place = step
        elif kind == "uniform":
            place = int(sums.samples.argmin())
        elif kind == "ogd":
            place = steepest(sums.model, sums.samples, bonus(sums.samples))
        else:
            place = drawn(optimistic_weights(sums.model, bonus(sums.samples)), float(uniforms.random()))
        sums.add(place, laws[place].sample(1, streams[place]))
        if step + 1 in AFTER:
            shares.append(sums.samples / sums.samples.sum())
    return shares, least(sums.model)


def ours(problem: Problem, policy: str, seed: int) -> tuple[list[Floats], Floats]:
    """The same of a policy as `Evaluation` plays it, with batches of one sample."""
    evaluation = Evaluation(
        problem.generators,
        metric=declared(problem, "rke"),
        goal="mixture",
        policy=policy,
        batch_size=1,
        seed=seed,
        paired=False,
    )
    streams = {name: problem.stream(place, seed) for place, name in enumerate(problem.generators)}
    counts, shares = dict.fromkeys(problem.generators, 0), list[Floats]()
    for step in range(max(AFTER)):
        name = evaluation.ask()
        evaluation.tell(name, problem.laws[name].sample(1, streams[name]))
        counts[name] += 1
        if step + 1 in AFTER:
            shares.append(np.array(list(counts.values())) / (step + 1))
    assert evaluation.latest_mixture is not None
    return shares, np.array(evaluation.latest_mixture.weights)


def rules(trials: int) -> None:
    """Print the table of the papers' rules beside our policy."""
    for name in ("interior", "sparse"):
        problem = problem_named(name)
        truth = Truth.of(problem, "rke")
        weights = " ".join(f"{weight:.2f}" for weight in truth.weights)
        heads = ("rule", *(f"drawn, {count}" for count in AFTER), f"named, {AFTER[-1]}")
        table = Table(*heads, title=f"{name}: α* = {weights}; {trials} trials, excess in %", box=box.MARKDOWN)
        for rule in (*RULES, "ours: ogd"):
            ends = [
                played(problem, rule, seed) if rule in RULES else ours(problem, "ogd", seed) for seed in range(trials)
            ]
            drawn_so_far = np.array([[truth.share(share) for share in shares] for shares, _ in ends])
            named = np.array([truth.share(weights) for _, weights in ends])
            table.add_row(rule, *map(percent, drawn_so_far.T), percent(named))
        single = math.expm1(truth.gain(truth.weights))
        table.add_row("best single generator", *[f"{100 * single:.3g}"] * (len(AFTER) + 1))
        Console(width=200).print(table)


def percent(values: Floats) -> str:
    """Mean ± standard error in %."""
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{100 * values.mean():.2g} ± {100 * error:.1g}"


def policies_of(metric: str) -> Sequence[str]:
    """The policies that are published for a metric, and ours."""
    of_pairs = ("mixture-ucb-cab", "mixture-ucb-ogd") if metric in ("rke", "mmd") else ()
    return ("ogd", *of_pairs, "mixture-greedy", "uniform")


def compared(name: str, metric: str, options: argparse.Namespace) -> None:
    """Print the table of one problem and metric, played through `optimist.simulate`."""
    problem = problem_named(name, options.data)
    truth = Truth.of(problem, metric)
    begun = time.perf_counter()
    result = simulate(
        {each: LawSource(law, problem.dimension, f"{each!r}") for each, law in problem.laws.items()},
        goal="mixture",
        metric=declared(problem, metric),
        policies=policies_of(metric),
        rounds=options.rounds,
        batch_size=options.batch,
        trials=options.trials,
        truth=TrueMixtures(lambda weights: truth.loss(weights)[0], truth.weights, "exact"),
        jobs=options.jobs,
    )
    weights = " ".join(f"{each} {weight:.2f}" for each, weight in zip(problem.generators, truth.weights, strict=True))
    single = f"{result.judge.best_single} alone {100 * result.judge.single_share:.3g} %"
    marks = result.runs[result.policies[0]].marks
    chosen = [
        int(np.abs(marks * options.batch - count).argmin()) for count in (100, 200, 400, options.rounds * options.batch)
    ]
    heads = [f"drawn, {marks[place] * options.batch}" for place in chosen] + ["named, at the end", "gain", "holds"]
    table = Table("policy", *heads, title=f"{problem.name}, {metric}: {weights}; {single}", box=box.MARKDOWN)
    for summary in result.summaries:
        run = result[summary["policy"]]
        shares, named = run["drawn_share"], run["named_share"][:, -1]
        cells = [percent(shares[:, place]) for place in chosen] + [percent(named)]
        table.add_row(summary["policy"], *cells, f"{summary['gain']:.3f}", f"{summary['gain_holds']:.0%}")
    Console(width=220).print(table)
    Console(stderr=True).print(f"{time.perf_counter() - begun:.0f} s")


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", action="store_true", help="the rules of the papers on problems in closed form")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=["rke"])
    parser.add_argument("--problems", nargs="+", choices=[*CLOSED, *REAL, *OF_DATA], default=list(REAL))
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", type=Path, help="directory with mnist_lenet_generators.npz and llmfao_minilm.npz")
    options = parser.parse_args()
    limit_threads(1)
    if options.rules:
        rules(options.trials)
        return
    for name in options.problems:
        for metric in options.metrics:
            compared(name, metric, options)


if __name__ == "__main__":
    main()
