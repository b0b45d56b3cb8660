"""Rows of the tables of runs: what pairing saves, and what a false claim costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from problems import Problem
from races import Change, Run, independent, oracle, paired, run, samples_until_right, unpaired
from streams import Table

from optimist.estimates.estimate import Estimate
from optimist.policies.policy import warmup_batches

Streams = Sequence[Mapping[str, Table]]


def savings(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """Samples to stop and to be right, independent streams and no pairing → common streams and pairing."""
    best = best_of(streams, truths)
    before = [run_on(problem, independent(streams, number), number, unpaired) for number in range(len(streams))]
    after = [run_on(problem, tables, number, paired) for number, tables in enumerate(streams)]
    return [
        f"{_median(before)} → {_median(after)}",
        _times(before, after),
        f"{_right(before, best)} → {_right(after, best)}",
        f"{_wrong(before, best)} → {_wrong(after, best)}",
        f"{_undecided(before)} → {_undecided(after)}",
    ]


def eliminations(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """Common streams: samples to stop of `top-two`, and of an oracle that knows the best generator."""
    best = best_of(streams, truths)
    found = [run_on(problem, tables, number, paired) for number, tables in enumerate(streams)]
    least = [oracle(tables, problem.horizon, best) for tables in streams]
    more = math.exp(np.mean([math.log(one.samples / other.samples) for one, other in zip(found, least, strict=True)]))
    return [_median(found), _median(least), f"{more:.2f}", _wrong(found, best), _undecided(found)]


def claims(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """The same streams without and with pairing: samples to stop, their ratio, wrong answers."""
    best = best_of(streams, truths)
    drawn = [tables if problem.unlike else independent(streams, number) for number, tables in enumerate(streams)]
    before, after = (
        [run_on(problem, tables, number, change) for number, tables in enumerate(drawn)]
        for change in (unpaired, paired)
    )
    ratios = np.log([with_.samples / without.samples for without, with_ in zip(before, after, strict=True)])
    error = ratios.std(ddof=1) / math.sqrt(len(ratios))
    return [
        f"{_median(before)} → {_median(after)}",
        f"{100 * math.expm1(ratios.mean()):+.1f} % ± {100 * error:.1f}",
        f"{_wrong(before, best)} → {_wrong(after, best)}",
        f"{_undecided(before)} → {_undecided(after)}",
    ]


def best_of(streams: Streams, truths: Mapping[str, float]) -> str:
    """The generator with the best true score."""
    estimate: Estimate = next(iter(streams[0].values())).estimates[0]
    return (min if estimate.lower_is_better else max)(truths, key=truths.__getitem__)


def run_on(
    problem: Problem,
    tables: Mapping[str, Table],
    number: int,
    change: Change,
    prices: Mapping[str, float] | None = None,
) -> Run:
    """A run on these tables with the seed `number`; with `prices`, costs are weighed."""
    return run(
        tables, problem.horizon, warmup_batches(type(problem.question.metric), "influence"), number, change, prices
    )


def _median(runs: Sequence[Run]) -> str:
    """The median of the samples to stop; of a run that is undecided, those until then as a lower bound."""
    median = float(np.median([each.samples if each.stopped else math.inf for each in runs]))
    return f"{median:,.0f}" if math.isfinite(median) else f"> {np.median([each.samples for each in runs]):,.0f}"


def _times(before: Sequence[Run], after: Sequence[Run]) -> str:
    """The ratio of the geometric means; a run that is undecided counts with the samples it had."""
    means = [float(np.mean([math.log(each.samples) for each in runs])) for runs in (before, after)]
    least = any(not each.stopped for each in before)
    return f"{'≥ ' if least else ''}{math.exp(means[0] - means[1]):.1f}"


def _right(runs: Sequence[Run], best: str) -> str:
    found = samples_until_right(runs, best)
    return "never" if found is None else f"{found:,}"


def _wrong(runs: Sequence[Run], best: str) -> str:
    return f"{sum(each.wrong(best) for each in runs)}"


def _undecided(runs: Sequence[Run]) -> str:
    return f"{sum(not each.stopped for each in runs)}"
