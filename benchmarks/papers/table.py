"""The table of benchmarks/results: regret and samples of the default, and those of the others relative to it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from problems import OURS, POLICIES

from optimist_client.metrics import find


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """For each metric a table of regret and one of samples, with the median of the ratios in the last row."""
    parts: list[str] = []
    for metric, policies in POLICIES.items():
        others = tuple(name for name in policies if name != OURS)
        problems = {name: each for name, each in found.items() if each["metric"] == metric}
        if problems:
            parts += [
                f"{find(metric).title}, regret:",
                _regret(problems, others),
                f"{find(metric).title}, samples:",
                _samples(problems, others),
            ]
    return "\n\n".join(parts)


def _regret(problems: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    """The default's total, and ratios of regret per batch (a trial ends early if a generator has no samples left)."""
    rows, ratios = [], {other: list[float]() for other in others}
    for name, problem in problems.items():
        by_policy = {each["policy"]: each for each in problem["policies"]}
        ours, per_batch = by_policy[OURS]["regret"], by_policy[OURS]["average_regret"]
        for other in others:
            ratios[other].append(by_policy[other]["average_regret"] / per_batch)
        times = [_number(ratios[other][-1]) for other in others]
        error = by_policy[OURS]["regret_se"] or 0.0
        rows.append([name, _setup(problem), f"{_number(ours)} ± {_number(error)}", *times])
    middle = [_number(median(ratios[other])) for other in others]
    return _lines(["benchmark problem", "G, T, trials", OURS, *others], [*rows, ["median", "", "", *middle]])


def _samples(problems: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    """Ratios of `samples_to_95`; a lower limit for a policy that does not reach it."""
    rows = []
    for name, problem in problems.items():
        by_policy = {each["policy"]: each["samples_to_95"] for each in problem["policies"]}
        ours, budget = by_policy[OURS], problem["rounds"] * problem["batch"]
        times = [_times(by_policy[other], ours, budget) for other in others]
        rows.append([name, "never" if ours is None else f"{ours:,.0f}", *times])
    return _lines(["benchmark problem", OURS, *others], rows)


def _times(theirs: float | None, ours: float | None, budget: int) -> str:
    if ours is None:
        return "never" if theirs is None else f"{theirs:,.0f} samples"
    return f"> {_number(budget / ours)}" if theirs is None else _number(theirs / ours)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def _setup(problem: Mapping[str, Any]) -> str:
    return f"{len(problem['truth'])}, {problem['rounds']:,}, {problem['trials']}"


def _lines(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])
