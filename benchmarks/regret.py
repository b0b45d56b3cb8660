"""The regret of each policy on the digits generators, by every metric, over T batches (equations.md §5).

    python benchmarks/regret.py [--rounds 400] [--trials 10]

Every policy gets the same streams: the demo's generators, in batches of 5; for scores of pairs, with the same prompts.
Regret is the sum over batches of the gap between the true score of the generator picked and that of the best one, on
the log scale for all metrics but FID. The truth is the de-biased estimate on 20,000 samples. The table shows means ±
standard errors over trials.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from calibration import BATCH, results
from optimist import Evaluation, score
from optimist.experiments.slices import prompt_order
from optimist.simulation.digits.generators import TEXTS
from optimist.simulation.digits.world import Digits, load

KERNEL = {"name": "gaussian", "sigma": 5.0, "features": 128}
PAIRS = {"kernel": KERNEL, "prompt_kernel": {"sigma": 2.5}}
METRICS: dict[str, dict[str, Any]] = {
    "fid": {},
    "is": {},
    "rke": {"kernel": KERNEL},
    "vendi": {"kernel": KERNEL},
    "conditional-vendi": PAIRS,
    "information-vendi": PAIRS,
}
PRESETS = {
    "fid": ("fid-ucb", "fd-ucb", "naive-ucb"),
    "is": ("is-ucb", "naive-ucb"),
    "rke": ("rke-ucb",),
    "vendi": ("vendi-ucb",),
}
POLICIES = ("ucb", "top-two", "thompson", "greedy", "uniform")
TRUTH = 20_000


@cache
def digits() -> Digits:
    """The generators, loaded once in each process."""
    return load(progress=False)


def generators(metric: str) -> tuple[str, ...]:
    """The names of the generators that the metric compares."""
    return tuple(digits().prompted if metric in ("conditional-vendi", "information-vendi") else digits().generators)


def stream(metric: str, generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
    """The arrays of `size` samples of a generator, drawn with `seed`."""
    made = digits()
    own = 1000 * seed + generators(metric).index(generator)
    if metric in ("conditional-vendi", "information-vendi"):
        prompts = [TEXTS[index] for index in prompt_order(len(TEXTS), seed, 0, size)]
        images = made.prompted[generator].sample(prompts, own)
        return {"features": made.features(images), "prompts": made.embeddings(prompts)}
    images = made.generators[generator].sample(size, own)
    return {"probabilities": made.probabilities(images)} if metric == "is" else {"features": made.features(images)}


def options(metric: str) -> dict[str, Any]:
    """The arguments of `score` and `Evaluation` for the metric."""
    return {"metric": metric, **METRICS[metric], **({"reference": digits().reference()[:2]} if metric == "fid" else {})}


@dataclass(frozen=True)
class Truth:
    """Task: the score of one generator on many samples."""

    metric: str
    generator: str

    def __call__(self) -> tuple[str, str, float]:
        """Score it."""
        value = score(stream(self.metric, self.generator, TRUTH, 10**6), **options(self.metric)).value
        return self.metric, self.generator, value


@dataclass(frozen=True)
class Trial:
    """Task: one policy on one set of streams; returns the generator that it picked in each round."""

    metric: str
    policy: str
    number: int
    rounds: int

    def __call__(self) -> tuple[str, str, list[str]]:
        """Run the trial."""
        names = generators(self.metric)
        evaluation = Evaluation(names, policy=self.policy, batch_size=BATCH, seed=self.number, **options(self.metric))
        streams = {name: stream(self.metric, name, BATCH * self.rounds, self.number) for name in names}
        taken = dict.fromkeys(names, 0)
        picks: list[str] = []
        for _ in range(self.rounds):
            name = evaluation.ask()
            rows = slice(taken[name], taken[name] + BATCH)
            evaluation.tell(name, {tensor: array[rows] for tensor, array in streams[name].items()})
            taken[name] += BATCH
            picks.append(name)
        return self.metric, self.policy, picks


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400, help="number of batches of each trial")
    parser.add_argument("--trials", type=int, default=10, help="number of trials of each policy")
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=METRICS, help="metrics to measure")
    asked = parser.parse_args()
    of_truth = [Truth(metric, generator) for metric in asked.metrics for generator in generators(metric)]
    true = {(metric, generator): value for metric, generator, value in results(of_truth, "truth")}
    played = [(metric, policy) for metric in asked.metrics for policy in (*POLICIES, *PRESETS.get(metric, ()))]
    trials = [Trial(*which, number, asked.rounds) for number in range(asked.trials) for which in played]
    picks: dict[tuple[str, str], list[list[str]]] = {}
    for metric, policy, picked in results(trials, "trials"):
        picks.setdefault((metric, policy), []).append(picked)
    title = f"Regret after {asked.rounds} batches of {BATCH}, {asked.trials} trials"
    table = Table(title=title, box=box.MARKDOWN)
    for column in ("metric", "best", "policy", "total regret", "optimal pick ratio"):
        table.add_column(column, no_wrap=True)
    for metric, policy in played:
        sign = 1.0 if metric == "fid" else -1.0
        losses = {name: sign * true[metric, name] for name in generators(metric)}
        best = min(losses, key=losses.__getitem__)
        gaps = {name: loss - losses[best] for name, loss in losses.items()}
        regrets = [sum(gaps[name] for name in picked) for picked in picks[metric, policy]]
        ratios = [picked.count(best) / len(picked) for picked in picks[metric, policy]]
        table.add_row(metric, best, policy, _mean(regrets, 3), _mean(ratios, 2))
    Console(width=120).print(table)


def _mean(values: Sequence[float], digits: int) -> str:
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:,.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
