"""How right the intervals of what routing gains are, on problems whose expected scores are known.

    python benchmarks/routing_gain.py [--repeats 40]
    python benchmarks/routing_gain.py --adaptive [--repeats 60] [--logs 500 2,000] [--prompts prompts.npz]

z = (gain − true gain)/error; the true gain is that of the same routes on the same prompts, over the single generator
that the gain is compared with. The last columns are about the generator that is truly the best single one: how often
that is the one named, how often the interval (`lower` to `upper`) holds the gain over it, and how often a gain is said.

--adaptive: logs as the service writes them. `optimistic` is played, with its floor of 0.02, and records the probability
with which it chose; the first prompts, which it gives in turn, have none. The same log is read after 500, 2,000 and
5,000 prompts, and once as the service keeps it: 2,000 of 5,000 prompts. With --logs only these are read, and no more
prompts are played than they need. --prompts: a file that `routing_problems.py` makes; its problems have at most 3,609.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.gain.gain import RouteGain, route_gain
from optimist.routing.gain.outcomes import ScoredPrompts
from optimist.routing.simulation.trials import RoutingProblem, play
from routing_problems import collections, kinds, rewards, smooth, texts

Maker = Callable[[int, int], RoutingProblem]
"""A problem of a seed, of so many prompts."""
PROBLEMS: dict[str, Maker] = {
    "linear": lambda seed, n: smooth("linear", seed, n),
    "rugged": lambda seed, n: smooth("rugged", seed, n),
    "kinds of task": lambda seed, n: kinds(seed, n),
    "one is best": lambda seed, n: kinds(seed, n, one_is_best=True),
}


def of_prompts(file: Path) -> dict[str, Maker]:
    """The problems of real prompts in a file."""
    return {
        "text": lambda seed, n: texts(file, 5, seed, n),
        "collections": lambda seed, n: collections(file, seed, n),
        "rewards": lambda seed, n: rewards(file, 0.0, seed, n),
    }


LOGS = {"500": (500, 500), "2,000": (2000, 2000), "5,000": (5000, 5000), "2,000 of 5,000": (5000, 2000)}
"""Prompts played and prompts kept, by what the table calls them."""


@dataclass(frozen=True)
class Judged:
    """A gain, and what it truly is: over the single generator that it names, and over the best one."""

    found: RouteGain
    over_named: float
    over_best: float
    is_best_named: bool

    @classmethod
    def of(cls, problem: RoutingProblem, places: NDArray[np.int64], found: RouteGain) -> Judged:
        """The gain of prompts at these places of the problem."""
        expected, rows = problem.expected[places], np.arange(len(places))
        best = int(problem.expected.mean(0).argmax())
        got = expected[rows, found.routed]
        named = expected[rows, found.single]
        return cls(
            found, float((got - named).mean()), float((got - expected[:, best]).mean()), found.best == f"g{best}"
        )


def summary(judged: Sequence[Judged]) -> tuple[str, ...]:
    """Gain, true gain, spread, error, rms z, coverage; how many of the repeats these are of; against the best one."""
    known = [each for each in judged if each.found.error]
    same = sum(each.found.error == 0.0 for each in judged)
    cells = (f"{len(known)}", f"{same}", f"{len(judged) - len(known) - same}")
    named = f"{np.mean([each.is_best_named for each in judged]):.0%}"
    if len(known) < 10:
        return *("–",) * 6, *cells, named, *_of_intervals(judged)
    gains, errors = np.array([(each.found.gain, each.found.error) for each in known]).T
    true = np.array([each.over_named for each in known])
    z = (gains - true) / errors
    numbers = (gains.mean(), true.mean(), (gains - true).std(), errors.mean())
    return (*(f"{number:.3f}" for number in numbers), *_of_z(z), *cells, named, *_of_intervals(judged))


def _of_intervals(judged: Sequence[Judged]) -> tuple[str, str]:
    """How many intervals hold the gain over the truly best one, and of how many a gain is said."""
    ends = [
        (
            -np.inf if one.found.lower is None else one.found.lower,
            np.inf if one.found.upper is None else one.found.upper,
        )
        for one in judged
    ]
    holds = [low <= one.over_best <= high for (low, high), one in zip(ends, judged, strict=True)]
    return f"{np.mean(holds):.0%}", f"{np.mean([low > 0.0 for low, _ in ends]):.0%}"


def _of_z(z: NDArray[np.float64]) -> tuple[str, str]:
    return f"{np.sqrt(np.square(z).mean()):.2f}", f"{(np.abs(z) < 1.96).mean():.0%}"


def of_problem(problem: RoutingProblem, seed: int, logged: bool, features: int) -> Judged:
    """The gain by all scores, or by a log with random probabilities."""
    rows = np.arange(len(problem.contexts))
    names = tuple(f"g{place}" for place in range(problem.scores.shape[1]))
    if logged:
        rng = np.random.default_rng((1, seed))
        chances = rng.dirichlet(np.full(len(names), 4.0), len(rows))
        generator = (chances.cumsum(1) > rng.random((len(rows), 1))).argmax(1)
        scores, probability = problem.scores[rows, generator], chances[rows, generator]
        known = ScoredPrompts(names, problem.contexts, rows, generator, scores, probability)
    else:
        known = ScoredPrompts.from_table(problem.contexts, problem.scores, names)
    found = route_gain(known, features=features, seed=seed)
    return Judged.of(problem, rows, found)


def of_play(problem: RoutingProblem, seed: int, features: int, logs: Sequence[str]) -> list[Judged]:
    """The gains by the log of one play of `optimistic`, for each of these `LOGS`."""
    run = play(problem, RoutePolicy("optimistic", seed=seed), trial=seed, features=features)
    names = tuple(f"g{place}" for place in range(problem.scores.shape[1]))
    found: list[Judged] = []
    for played, kept in (LOGS[label] for label in logs):
        places = np.sort(np.random.default_rng((2, seed)).permutation(played)[:kept])
        prompts, generator = run.order[places], run.chosen[places]
        known = ScoredPrompts(
            names,
            problem.contexts[prompts],
            np.arange(kept),
            generator,
            problem.scores[prompts, generator],
            run.probability[places],
        )
        gain = route_gain(known, features=features, seed=seed)
        found.append(Judged.of(problem, prompts, gain))
    return found


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adaptive", action="store_true")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--logs", nargs="*", default=list(LOGS), choices=list(LOGS))
    parser.add_argument("--prompts", type=Path, help="as `routing_problems.py` writes them")
    parser.add_argument("--problems", nargs="*", help="only these")
    asked = parser.parse_args()
    known = PROBLEMS | ({} if asked.prompts is None else of_prompts(asked.prompts))
    heads = ("gain", "true", "spread", "error", "rms z", "covers", "repeats", "nothing to gain", "by the model")
    heads = (*heads, "best is named", "interval holds", "gain is said")
    table = Table("problem", "log" if asked.adaptive else "scores of", "prompts", *heads)
    for name in asked.problems or known:
        made = known[name]
        if asked.adaptive:
            longest = max(LOGS[label][0] for label in asked.logs)
            runs = [
                of_play(made(1000 + seed, longest), seed, asked.features, asked.logs) for seed in range(asked.repeats)
            ]
            for label, of_log in zip(asked.logs, zip(*runs, strict=True), strict=True):
                table.add_row(name, "optimistic", label, *summary(of_log))
            continue
        for prompts in (200, 800):
            for logged in (False, True):
                found = [of_problem(made(seed, prompts), seed, logged, asked.features) for seed in range(asked.repeats)]
                table.add_row(name, "one each" if logged else "all", str(prompts), *summary(found))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
