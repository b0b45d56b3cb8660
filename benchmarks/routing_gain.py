"""How right the intervals of what routing gains are, on beds whose expected scores are known.

    python benchmarks/routing_gain.py [--repeats 40]
    python benchmarks/routing_gain.py --adaptive [--repeats 60]

z = (gain − true gain)/error; the true gain is that of the same routes over the generator that is truly the best single
one, on the same prompts.

--adaptive: logs as the service writes them. `thompson` is played, with its floor of 0.02, and records the probability
with which it chose; the first prompts, which it gives in turn, have none. The same log is read after 500, 2,000 and
5,000 prompts, and once as the service keeps it: 2,000 of 5,000 prompts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from optimist.evaluation.routing import RouteGain, route_gain
from optimist.evaluation.scored_prompts import ScoredPrompts
from optimist.policies.routing import RoutePolicy
from optimist.simulation.routing import RouteBed, play
from routing_beds import kinds, smooth

BEDS: dict[str, Callable[[int, int], RouteBed]] = {
    "linear": lambda seed, n: smooth("linear", seed, n),
    "rugged": lambda seed, n: smooth("rugged", seed, n),
    "kinds of task": lambda seed, n: kinds(seed, n),
    "one is best": lambda seed, n: kinds(seed, n, one_is_best=True),
}
LOGS = (("500", 500, 500), ("2,000", 2000, 2000), ("5,000", 5000, 5000), ("2,000 of 5,000", 5000, 2000))
"""Prompts as shown, prompts played, prompts kept."""


def summary(found: Sequence[tuple[RouteGain, float]]) -> tuple[str, ...]:
    """Gain, true gain, spread, error, rms z, coverage, and how many of the repeats these are of."""
    known = [(each.gain, true, each.error) for each, true in found if each.error]
    same = sum(each.error == 0.0 for each, _ in found)
    cells = (f"{len(known)}", f"{same}", f"{len(found) - len(known) - same}")
    if len(known) < 10:
        return *("–",) * 6, *cells
    gains, true, errors = np.array(known).T
    z = (gains - true) / errors
    numbers = (gains.mean(), true.mean(), (gains - true).std(), errors.mean(), np.sqrt(np.square(z).mean()))
    return *(f"{number:.3f}" for number in numbers), f"{(np.abs(z) < 1.96).mean():.0%}", *cells


def true_gain(bed: RouteBed, places: NDArray[np.int64], found: RouteGain) -> float:
    """Of these routes of these prompts, over the best single generator of the bed."""
    expected = bed.expected[places]
    best = int(bed.expected.mean(0).argmax())
    return float((expected[np.arange(len(places)), found.routed] - expected[:, best]).mean())


def of_bed(bed: RouteBed, seed: int, logged: bool, features: int) -> tuple[RouteGain, float]:
    """The gain by all scores, or by a log with random probabilities; and the true one."""
    rows = np.arange(len(bed.contexts))
    names = tuple(f"g{place}" for place in range(bed.scores.shape[1]))
    if logged:
        rng = np.random.default_rng((1, seed))
        chances = rng.dirichlet(np.full(len(names), 4.0), len(rows))
        generator = (chances.cumsum(1) > rng.random((len(rows), 1))).argmax(1)
        scores, probability = bed.scores[rows, generator], chances[rows, generator]
        known = ScoredPrompts(names, bed.contexts, rows, generator, scores, probability)
    else:
        known = ScoredPrompts.of_table(bed.contexts, bed.scores, names)
    found = route_gain(known, features=features, seed=seed)
    return found, true_gain(bed, rows, found)


def of_play(bed: RouteBed, seed: int, features: int) -> list[tuple[RouteGain, float]]:
    """The gains by the log of one play of `thompson`, and the true ones, for each of `LOGS`."""
    run = play(bed, RoutePolicy("thompson", seed=seed), trial=seed, features=features)
    names = tuple(f"g{place}" for place in range(bed.scores.shape[1]))
    found: list[tuple[RouteGain, float]] = []
    for _, played, kept in LOGS:
        places = np.sort(np.random.default_rng((2, seed)).permutation(played)[:kept])
        prompts, generator = run.order[places], run.chosen[places]
        known = ScoredPrompts(
            names,
            bed.contexts[prompts],
            np.arange(kept),
            generator,
            bed.scores[prompts, generator],
            run.probability[places],
        )
        gain = route_gain(known, features=features, seed=seed)
        found.append((gain, true_gain(bed, prompts, gain)))
    return found


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adaptive", action="store_true")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--features", type=int, default=64)
    asked = parser.parse_args()
    heads = ("gain", "true", "spread", "error", "rms z", "95% covers", "repeats", "nothing to gain", "by the model")
    table = Table("bed", "log" if asked.adaptive else "scores of", "prompts", *heads)
    for name, made in BEDS.items():
        if asked.adaptive:
            longest = max(played for _, played, _ in LOGS)
            runs = [of_play(made(1000 + seed, longest), seed, asked.features) for seed in range(asked.repeats)]
            for (label, _, _), of_log in zip(LOGS, zip(*runs, strict=True), strict=True):
                table.add_row(name, "thompson", label, *summary(of_log))
            continue
        for prompts in (200, 800):
            for logged in (False, True):
                found = [of_bed(made(seed, prompts), seed, logged, asked.features) for seed in range(asked.repeats)]
                table.add_row(name, "one each" if logged else "all", str(prompts), *summary(found))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
