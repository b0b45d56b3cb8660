"""Means: how often a strict interval ever leaves the mean, and how right standard errors are (results: calibration).

    python benchmarks/means.py [--streams 2000] [--length 500]
    python benchmarks/means.py --data DIR [--repeats 200]

DIR has `mnist_lenet_generators.npz`, `cifar10_ref2048_arms.npz` and `llmfao_text.jsonl.gz`, real data that are not part
of the project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.metrics.mean import Betting, ConfidenceSequence, EmpiricalBernstein, MeanScore
from optimist.metrics.threads import limit_threads
from optimist_client.metrics import Mean

DELTA = 0.05
SEQUENCES = {"empirical-bernstein": EmpiricalBernstein, "betting": Betting}
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
LAWS: dict[str, tuple[float, Draw]] = {
    "Bernoulli(0.5)": (0.5, lambda rng, n: (rng.random(n) < 0.5).astype(float)),
    "Bernoulli(0.05)": (0.05, lambda rng, n: (rng.random(n) < 0.05).astype(float)),
    "win, tie, loss (0.3, 0.4, 0.3)": (0.5, lambda rng, n: rng.choice([0.0, 0.5, 1.0], n, p=[0.3, 0.4, 0.3])),
    "Beta(8, 4)": (2.0 / 3.0, lambda rng, n: rng.beta(8.0, 4.0, n)),
    "Beta(0.1, 1.9)": (0.05, lambda rng, n: rng.beta(0.1, 1.9, n)),
    "uniform": (0.5, lambda rng, n: rng.random(n)),
}
"""The laws of the streams on [0, 1], each with its mean."""


def left(sequence: ConfidenceSequence, values: NDArray[np.float64], mean: float) -> tuple[bool, float]:
    """Whether the mean was ever outside of the interval, and half the width of the interval at the end."""
    sequence.add(torch.from_numpy(values))
    low, high = sequence.interval  # of all times, intersected
    return sequence.is_contradicted or not low <= mean <= high, (high - low) / 2.0


def streams(count: int, length: int) -> None:
    """Print a table of the shares of streams that ever left their sequence, and of their widths."""
    most = DELTA + 2.0 * math.sqrt(DELTA * (1.0 - DELTA) / count)
    print(f"{count:,} streams of {length:,} values; at most {most:.2%} may ever leave\n")
    print(f"| law | {' | '.join(f'{name}: ever left | half-width' for name in SEQUENCES)} | standard error × 1.96 |")
    print("| --- |" + " --- |" * (2 * len(SEQUENCES) + 1))
    for law, (mean, draw) in LAWS.items():
        cells = []
        for kind in SEQUENCES.values():
            rng = np.random.default_rng(0)
            found = [left(kind((0.0, 1.0), DELTA), draw(rng, length), mean) for _ in range(count)]
            cells += [f"{np.mean([out for out, _ in found]):.2%}", f"{np.median([half for _, half in found]):.3f}"]
        plain = 1.96 * draw(np.random.default_rng(0), 100_000).std() / math.sqrt(length)
        print(f"| {law} | {' | '.join(cells)} | {plain:.3f} |", flush=True)


def real(folder: Path) -> dict[str, list[NDArray[np.float64]]]:
    """Real values by what they are, each a list of one array per generator."""
    mnist, cifar = (np.load(folder / f"{name}.npz") for name in ("mnist_lenet_generators", "cifar10_ref2048_arms"))
    with gzip.open(folder / "llmfao_text.jsonl.gz", "rt") as lines:
        answers = [json.loads(line) for line in lines]
    lengths = np.array([float(len(row["result"])) for row in answers])
    return {
        "entropy of class probabilities, MNIST": [_entropies(rows) for rows in mnist["arm_prob"]],
        "confidence of a classifier, MNIST": [rows.astype(float).max(1) for rows in mnist["arm_prob"]],
        "share classified with 90 % (0 or 1), MNIST": [(rows.max(1) > 0.9).astype(float) for rows in mnist["arm_prob"]],
        "entropy of class probabilities, CIFAR-10": [
            _entropies(cifar[name]) for name in cifar.files if name.startswith("prob_") and len(cifar[name]) > 500
        ],
        "length of answers in characters": [lengths],
        "answers of 1,000 characters or more (0 or 1)": [(lengths >= 1000.0).astype(float)],
    }


def _entropies(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    return torch.special.entr(torch.from_numpy(rows.astype(np.float64))).sum(1).numpy()


def calibration(values: dict[str, list[NDArray[np.float64]]], repeats: int) -> None:
    """Print a table of rms z and mean z: samples are drawn from each pool with replacement, whose mean is the truth."""
    sizes = (5, 10, 20, 50, 100, 200, 500)
    print("| values | " + " | ".join(f"n = {n}" for n in sizes) + " |")
    print("| --- |" + " --- |" * len(sizes))
    score = MeanScore(Mean())
    for name, pools in values.items():
        cells = []
        for n in sizes:
            rng, found = np.random.default_rng(n), []
            for pool in pools:
                for _ in range(repeats):
                    statistic = score.statistic()
                    statistic.update(torch.from_numpy(rng.choice(pool, (n, 1))))
                    if statistic.squares:
                        made = score.analyse(statistic)
                        found.append((made.estimate - pool.mean()) / made.stopping_error)
            cells.append(f"{np.sqrt(np.square(found).mean()):.2f} ({np.mean(found):+.1f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--length", type=int, default=500)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    limit_threads(1)
    if options.data is None:
        streams(options.streams, options.length)
    else:
        synthetic = {
            "normal": [np.random.default_rng(1).standard_normal(200_000)],
            "exponential": [np.random.default_rng(1).standard_exponential(200_000)],
            "Bernoulli(0.05), some of each": [np.array([0.0] * 19 + [1.0])],
        }
        calibration({**real(options.data), **synthetic}, options.repeats)


if __name__ == "__main__":
    main()
