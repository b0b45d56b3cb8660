"""What weighing costs saves: the cost until top-two stops, with and without it, at several ratios of prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from outcomes import best_of, run_on
from problems import Problem
from races import Change, Run, independent, paired, unpaired
from streams import Table

RATIOS = (1, 3, 10, 100)
HEADS = [f"{streams}, dear {which}" for streams in ("independent", "common") for which in ("best", "rival")]


def costs(problem: Problem, streams: Sequence[Mapping[str, Table]], truths: Mapping[str, float]) -> list[str]:
    """The cells of the table's row for this problem."""
    best = best_of(streams, truths)
    rival = min(truths.keys() - {best}, key=lambda name: abs(truths[name] - truths[best]))
    apart = [independent(streams, number) for number in range(len(streams))]
    kinds: list[tuple[Sequence[Mapping[str, Table]], Change]] = [(apart, unpaired), (streams, paired)]
    return [_cell(problem, tables, change, dear) for tables, change in kinds for dear in (best, rival)]


def _cell(problem: Problem, streams: Sequence[Mapping[str, Table]], change: Change, dear: str) -> str:
    plain = _runs(problem, streams, change, None)
    found: list[str] = []
    for ratio in RATIOS:
        prices = {name: float(ratio if name == dear else 1) for name in problem.generators}
        weighed = _runs(problem, streams, change, prices)
        spent = [_median(runs, lambda one, p=prices: one.cost(p)) for runs in (weighed, plain)]
        of_cost = spent[0] / spent[1]
        of_samples = _median(weighed, lambda one: one.samples) / _median(plain, lambda one: one.samples)
        undecided = sum(not one.stopped for one in weighed)
        found.append(f"{of_cost:.2f} [{of_samples:.2f}]" + (f" ({undecided} undecided)" if undecided else ""))
    return ", ".join(found)


def _runs(
    problem: Problem, streams: Sequence[Mapping[str, Table]], change: Change, prices: Mapping[str, float] | None
) -> list[Run]:
    return [run_on(problem, tables, number, change, prices) for number, tables in enumerate(streams)]


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return float(np.median([of(one) for one in runs]))
