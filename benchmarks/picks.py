"""Processor time of a pick and a decision, and the size of an estimate, without and with pairing.

    python benchmarks/picks.py [--generators 20 100 1000] [--rounds 200]

In process, without HTTP and Redis. A round takes the decision and a pick of `top-two`, as the service does after a
batch. "unchanged": from the estimates of the round before. "changed": one estimate is new, and is read from its JSON,
as after a scorer published it. The estimates are made by hand: G generators whose influences correlate at 0.95, with
histories of full length. "Size" is that of one estimate as it is stored, in bytes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import COMMON, HISTORY, HISTORY_GROWTH, Earlier, Pairing, intervals_of, packed
from optimist.policies import Arm, Policy, Stopping

TOLD = 1000
POLICY = Policy("top-two", 2, Stopping())


def stored(place: int, name: str) -> str:
    """The estimate of one generator as JSON. Counts differ, so that there are control variates where nothing lacks."""
    rng = np.random.default_rng(place)
    n, value = 400 + 5 * (place % 3), 5.0 + 0.1 * place + 0.01 * rng.standard_normal()
    pairing = None
    if name != "unpaired":
        # Of eight workers: two of the newest sixteen batches are on their way.
        told = range(n) if name == "paired" else [i for i in range(n + 10) if i < n - 70 or i // 5 % 8 != place % 8]
        shared = np.random.default_rng(0).standard_normal(COMMON)
        own = rng.standard_normal(COMMON)
        influence = (np.sqrt(0.95) * shared + np.sqrt(0.05) * own).astype(np.float32)
        later = [i for i in told[-256:] if i >= COMMON]
        counts = [int(33 * (1.0 + HISTORY_GROWTH) ** k) for k in range(HISTORY)]
        history = tuple(
            Earlier(count, value + 0.1 * rng.standard_normal(), 60.0 / count, 0.9, (), packed(influence[:count]))
            for count in counts
        )
        pairing = Pairing(
            influence,
            *(0.9, 0.01, 0.02),
            told=intervals_of(told),
            later=rng.standard_normal(len(later)).astype(np.float32),
            later_told=intervals_of(later),
            history=history,
        )
    estimate = Estimate(value, value, n, value - 0.7, value + 0.7, value - 0.7, 0.3, 0.35, pairing=pairing)
    return json.dumps(estimate.to_dict())


def rounds(texts: list[str], count: int, changes: bool) -> float:
    """The tenth percentile of the processor times of rounds, in microseconds: other work on the machine hardly
    matters."""
    estimates = [Estimate.from_dict(json.loads(text)) for text in texts]

    def one(number: int) -> None:
        if changes:
            place = number % len(texts)
            estimates[place] = Estimate.from_dict(json.loads(texts[place]))
        arms = [Arm(f"g{place}", found, found.samples, found.samples // 5) for place, found in enumerate(estimates)]
        POLICY.stopping.decide(arms, TOLD)
        POLICY.pick(arms, TOLD, number)

    one(0)
    return float(np.quantile([timed(one, number) for number in range(1, count + 1)], 0.1))


def timed(action: Callable[[int], None], number: int) -> float:
    """Processor time of an action, in microseconds."""
    begun = time.thread_time()
    action(number)
    return 1e6 * (time.thread_time() - begun)


def main() -> None:
    """Run the measurements and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", type=int, nargs="+", default=[20, 100, 1000])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    print("| generators | | unchanged, µs | changed, µs | size |\n| --- | --- | --- | --- | --- |")
    for generators in options.generators:
        for name in ("unpaired", "paired", "with gaps"):
            texts = [stored(place, name) for place in range(generators)]
            times = " | ".join(f"{rounds(texts, options.rounds, changes):,.0f}" for changes in (False, True))
            print(f"| {generators} | {name} | {times} | {len(texts[0]):,} |", flush=True)


if __name__ == "__main__":
    main()
