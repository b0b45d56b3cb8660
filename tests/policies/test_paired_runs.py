"""Whole runs on means of normal samples: with common noise the paired rule stops far sooner, without it as before."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimist.estimates.pairing import HISTORY_GROWTH, Earlier, Pairing
from optimist.policies import Arm, Policy, Stopping
from tests.support.paired_arms import estimate, pairing

MEANS = (0.0, 0.25, 0.5)
BATCH = 5
HORIZON = 12_000


class Stream:
    """The samples of one generator, and the estimate of its mean from the first n of them."""

    def __init__(self, samples: np.ndarray) -> None:
        counts = np.arange(1, len(samples) + 1)
        self.samples, self.means = samples, np.cumsum(samples) / counts
        self.variances = np.maximum(np.cumsum(samples**2) / counts - self.means**2, 1e-9) / np.maximum(counts - 1, 1)
        self.history: list[Earlier] = []

    def at(self, n: int, paired: bool):
        value, variance = float(self.means[n - 1]), float(self.variances[n - 1]) * (1.0 + 20.0 / n)
        if not self.history or n >= (1.0 + HISTORY_GROWTH) * self.history[-1].samples:
            self.history.append(Earlier(n, value, variance, 1.0))
        has: Pairing | None = pairing(self.samples[:n][:256], n, history=tuple(self.history)) if paired else None
        return estimate(value, math.sqrt(variance), math.sqrt(variance), n, has)


def samples_to_stop(seed: int, rho: float, paired: bool) -> tuple[int, bool]:
    """Samples of a top-two run, and whether it named the best."""
    draws = np.random.default_rng(seed).standard_normal((len(MEANS) + 1, HORIZON // 2))
    streams = [
        Stream(mean + math.sqrt(rho) * draws[0] + math.sqrt(1.0 - rho) * own)
        for mean, own in zip(MEANS, draws[1:], strict=True)
    ]
    policy, counts = Policy("top-two", 2, Stopping(0.05), seed), [0] * len(MEANS)
    arms = [Arm(str(place)) for place in range(len(MEANS))]
    for told in range(HORIZON // BATCH):
        place = policy.pick(arms, told, told + 1)
        counts[place] += BATCH
        n = counts[place]
        arms[place] = Arm(str(place), streams[place].at(n, paired), n, n // BATCH)
        decision = policy.stopping.decide(arms, told + 1)
        if decision.decided:
            return sum(counts), decision.best == "0"
    return HORIZON, True


def test_common_noise_stops_at_least_three_times_sooner():
    paired, alone = ([samples_to_stop(seed, 0.95, is_paired) for seed in range(6)] for is_paired in (True, False))
    assert all(right for _, right in paired)
    assert 3.0 * np.median([n for n, _ in paired]) <= np.median([n for n, _ in alone])


@pytest.mark.long
def test_independent_noise_stops_as_without_pairing():
    paired, alone = ([samples_to_stop(seed, 0.0, is_paired) for seed in range(10)] for is_paired in (True, False))
    logs = [math.log(one[0] / other[0]) for one, other in zip(paired, alone, strict=True)]
    assert abs(float(np.mean(logs))) < 0.15
