"""The table of docs/papers.md: what the default pays and needs, and how many times as much the others do."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from beds import OURS, POLICIES

from optimist.simulation.reporting import shown


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """For each metric a table of regret and one of samples, with the median of the ratios in the last row."""
    parts: list[str] = []
    for metric, policies in POLICIES.items():
        others = tuple(name for name in policies if name != OURS)
        beds = {name: each for name, each in found.items() if each["metric"] == metric}
        if beds:
            parts += [
                f"{shown(metric)}, regret:",
                _regret(beds, others),
                f"{shown(metric)}, samples:",
                _samples(beds, others),
            ]
    return "\n\n".join(parts)


def _regret(beds: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    """Our total, and ratios of regret a batch: a trial whose generator has run out of samples ends early."""
    rows, ratios = [], {other: list[float]() for other in others}
    for name, bed in beds.items():
        by_policy = {each["policy"]: each for each in bed["policies"]}
        ours, per_batch = by_policy[OURS]["regret"], by_policy[OURS]["average_regret"]
        for other in others:
            ratios[other].append(by_policy[other]["average_regret"] / per_batch)
        times = [_number(ratios[other][-1]) for other in others]
        error = by_policy[OURS]["regret_se"] or 0.0
        rows.append([name, _setup(bed), f"{_number(ours)} ± {_number(error)}", *times])
    middle = [_number(median(ratios[other])) for other in others]
    return _lines(["bed", "G, T, trials", OURS, *others], [*rows, ["median", "", "", *middle]])


def _samples(beds: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    """Ratios of `samples_to_95`; where a policy never comes to that, at least what it had."""
    rows = []
    for name, bed in beds.items():
        by_policy = {each["policy"]: each["samples_to_95"] for each in bed["policies"]}
        ours, budget = by_policy[OURS], bed["rounds"] * bed["batch"]
        times = [_times(by_policy[other], ours, budget) for other in others]
        rows.append([name, "never" if ours is None else f"{ours:,.0f}", *times])
    return _lines(["bed", OURS, *others], rows)


def _times(theirs: float | None, ours: float | None, budget: int) -> str:
    if ours is None:
        return "never" if theirs is None else f"{theirs:,.0f} samples"
    return f"> {_number(budget / ours)}" if theirs is None else _number(theirs / ours)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def _setup(bed: Mapping[str, Any]) -> str:
    return f"{len(bed['truth'])}, {bed['rounds']:,}, {bed['trials']}"


def _lines(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])
