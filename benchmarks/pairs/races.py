"""Runs of a policy until it decides, on tables of estimates instead of samples: pick for pick those of `Evaluation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from streams import BATCH, Table

from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Policy, Stopping
from optimist.policies.arms import ratio
from optimist.policies.contrasts import Contrasts
from optimist.policies.stopping import FEWEST_SAMPLES

DELTA = 0.05
RIGHT = 0.95

Change = Callable[[str, Estimate], Estimate]
"""What to make of a generator's estimate before the policy sees it."""


@dataclass(frozen=True)
class Run:
    """The best generator after each batch, and whether the rule stopped at the last one."""

    best: tuple[str | None, ...]
    stopped: bool
    drawn: Mapping[str, int]
    """Samples of each generator."""

    def cost(self, prices: Mapping[str, float]) -> float:
        """What its samples cost at these prices."""
        return sum(prices[name] * samples for name, samples in self.drawn.items())

    @property
    def samples(self) -> int:
        """All samples of the run."""
        return BATCH * len(self.best)

    def wrong(self, best: str) -> bool:
        """Whether it stopped on another generator."""
        return self.stopped and self.best[-1] != best


def run(
    tables: Mapping[str, Table],
    horizon: int,
    warmup: int,
    seed: int,
    change: Change,
    prices: Mapping[str, float] | None = None,
) -> Run:
    """Top-two until it stops or would need more than `horizon` samples of a generator.

    prices: the cost of a sample of each generator, where costs are weighed.
    """
    policy = Policy("top-two", warmup, Stopping(DELTA), seed)
    known = {
        name: dict(zip(table.counts, (change(name, estimate) for estimate in table.estimates), strict=True))
        for name, table in tables.items()
    }
    arms = [Arm(name, cost=None if prices is None else prices[name]) for name in tables]
    best: list[str | None] = []
    while True:
        place = policy.pick(arms, len(best), len(best) + 1)
        arm = arms[place]
        samples = arm.samples + BATCH
        if samples > horizon:
            return Run(tuple(best), False, {arm.name: arm.samples for arm in arms})
        estimate = known[arm.name].get(samples, arm.estimate)
        arms[place] = replace(arm, samples=samples, batches=arm.batches + 1, estimate=estimate)
        decision = policy.stopping.decide(arms, len(best) + 1)
        best.append(decision.best)
        if decision.decided:
            return Run(tuple(best), True, {arm.name: arm.samples for arm in arms})


def oracle(tables: Mapping[str, Table], horizon: int, best: str) -> Run:
    """Each rival in lockstep with the best generator, which is known, until it was once beyond the threshold."""
    stopping, left = Stopping(DELTA), [name for name in tables if name != best]
    samples, drawn = 0, dict.fromkeys(tables, FEWEST_SAMPLES)
    for count in range(FEWEST_SAMPLES, horizon + 1, BATCH):
        drawn |= dict.fromkeys((best, *left), count)
        samples = sum(drawn.values())
        known = [found for name in (best, *left) if (found := tables[name].at(count)) is not None]
        contrasts = Contrasts(known)
        differences, errors = contrasts.against(0).differences[1:], contrasts.errors(0, "stopping")[1:]
        needed = stopping.threshold(len(tables), samples // BATCH)
        left = [
            name for name, gap, error in zip(left, differences, errors, strict=True) if not ratio(gap, error) > needed
        ]
        if not left:
            break
    return Run((best,) * (samples // BATCH), not left, drawn)


def unpaired(generator: str, estimate: Estimate) -> Estimate:
    """The estimate as it was before generators were compared by index."""
    del generator
    return replace(estimate, pairing=None)


def paired(generator: str, estimate: Estimate) -> Estimate:
    """The estimate itself."""
    del generator
    return estimate


def shifted(estimate: Estimate, by: float) -> Estimate:
    """The estimate of a generator whose score is larger by this number, on the estimates' scale."""
    moved = replace(estimate, value=estimate.value + by)
    if moved.pairing is None:
        return moved
    history = tuple(past._replace(value=past.value + by) for past in moved.pairing.history)
    return replace(moved, pairing=replace(moved.pairing, history=history))


def independent(streams: Sequence[Mapping[str, Table]], number: int) -> dict[str, Table]:
    """Each generator's table from another stream."""
    names = list(streams[number])
    return {name: streams[(number + place) % len(streams)][name] for place, name in enumerate(names)}


def samples_until_right(runs: Sequence[Run], best: str) -> int | None:
    """The samples from which on at least `RIGHT` of the runs have this generator as the best; None if never."""
    length = max(len(run.best) for run in runs)
    right: NDArray[np.float64] = np.mean(
        [[named == best for named in run.best] + [run.best[-1] == best] * (length - len(run.best)) for run in runs],
        axis=0,
    )
    if right[-1] < RIGHT:
        return None
    below = np.flatnonzero(right < RIGHT)
    return BATCH * (int(below[-1]) + 2 if len(below) else 1)
