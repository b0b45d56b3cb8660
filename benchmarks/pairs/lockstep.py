"""Rows of the tables of pairs in lockstep: decisions on exact ties and on gaps, and which estimates warn.

Two generators at a time are scored at `LOOKS`, and the rule looks at them each time.
Several pairs share a stream, so the limits are those of the means of streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from problems import Problem
from races import DELTA, independent, shifted, unpaired
from streams import BATCH, Table

from optimist.estimates.estimate import Estimate
from optimist.policies import Arm, Stopping

Streams = Sequence[Mapping[str, Table]]
ONE_SIDED = 1.645
"""Standard errors from a share to its 95 % limit."""
WARNED_AT = (50, 100, 300)
WARNS = ("decide",)
"""Words of the warnings that rare or large rows cause."""


@dataclass(frozen=True)
class End:
    """What a run named, and after how many samples of both; None: nothing."""

    best: str | None
    samples: int


Ending = Callable[[Mapping[str, Table]], End]
"""A run of generators that all have estimates at the same counts."""


def ended(tables: Mapping[str, Table]) -> End:
    """A run of these generators, all of which have estimates at the same counts."""
    stopping, counts = Stopping(DELTA), next(iter(tables.values())).counts
    for place, count in enumerate(counts):
        arms = [
            Arm(name, samples=count, batches=count // BATCH, estimate=table.estimates[place])
            for name, table in tables.items()
        ]
        decision = stopping.decide(arms, len(arms) * count // BATCH)
        if decision.decided:
            return End(decision.best, len(arms) * count)
    return End(None, len(tables) * counts[-1])


def ties(problem: Problem, streams: Streams, truths: Mapping[str, float], run: Ending = ended) -> list[str]:
    """Of all pairs of generators, made equal: the share of runs that stop, without pairing and with it."""
    found = {way: stopped(runs) for way, runs in pairs(streams, truths, level=True, run=run).items()}
    return [f"{found['paired'].size:,}", *(share(each) for each in found.values())]


def gaps(problem: Problem, streams: Streams, truths: Mapping[str, float], run: Ending = ended) -> list[str]:
    """Of all pairs as they are: wrong answers, undecided runs, the median of the samples to stop, and their mean."""
    sign = 1.0 if streams[0][next(iter(truths))].estimates[0].lower_is_better else -1.0
    cells: list[str] = []
    for runs in pairs(streams, truths, level=False, run=run).values():
        every = [(end, names) for stream in runs for names, end in stream.items()]
        wrong = sum(end.best not in (None, min(names, key=lambda name: sign * truths[name])) for end, names in every)
        samples = np.array([end.samples if end.best is not None else math.inf for end, _ in every])
        median = float(np.median(samples))
        mean = math.exp(np.mean([math.log(end.samples) for end, _ in every]))
        shown = f"{median:.0f}" if math.isfinite(median) else "undecided"
        cells.append(f"{wrong} of {len(every):,}; {np.isinf(samples).mean():.0%}; {shown} ({mean:.0f})")
    return cells


def warnings(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """The share of estimates that warn of few rows that decide, and of streams in which some generator ever did."""
    cells = [f"{np.mean([[_warns(t.at(n)) for t in s.values()] for s in streams]):.0%}" for n in WARNED_AT]
    ever = [any(_warns(estimate) for table in stream.values() for estimate in table.estimates) for stream in streams]
    return [*cells, f"{np.mean(ever):.0%}"]


def pairs(
    streams: Streams, truths: Mapping[str, float], level: bool, run: Ending = ended
) -> dict[str, list[dict[tuple[str, str], End]]]:
    """The ends of the runs of every stream, of independent and of paired generators; level: made equal."""
    found: dict[str, list[dict[tuple[str, str], End]]] = {"independent": [], "paired": []}
    by = {name: -truth if level else 0.0 for name, truth in truths.items()}
    for number, tables in enumerate(streams):
        for way, drawn in (("independent", independent(streams, number)), ("paired", tables)):
            seen = {
                name: Table(
                    table.counts, tuple(_changed(name, each, way == "paired", by[name]) for each in table.estimates)
                )
                for name, table in drawn.items()
            }
            found[way].append({both: run({name: seen[name] for name in both}) for both in combinations(truths, 2)})
    return found


def stopped(runs: Sequence[Mapping[tuple[str, str], End]]) -> NDArray[np.bool_]:
    """Which runs stopped (streams, pairs)."""
    return np.array([[end.best is not None for end in stream.values()] for stream in runs])


def share(stopped: NDArray[np.bool_]) -> str:
    """The share of all runs, and the one-sided 95 % lower limit in brackets. The runs of a stream are alike."""
    shares = 100.0 * stopped.mean(axis=1)
    error = shares.std(ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else math.inf
    return f"{shares.mean():.1f} % (≥ {max(shares.mean() - ONE_SIDED * error, 0.0):.1f})"


def _changed(name: str, estimate: Estimate, paired: bool, by: float) -> Estimate:
    return shifted(estimate if paired else unpaired(name, estimate), by)


def _warns(estimate: Estimate | None) -> bool:
    return estimate is not None and any(word in warning for warning in estimate.warnings for word in WARNS)
