"""The table of docs/papers.md: what the default pays and needs, and how many times as much the others do."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from beds import OURS, POLICIES


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """For each metric a table of regret and one of samples, with the median of the ratios in the last row."""
    parts: list[str] = []
    for metric, policies in POLICIES.items():
        others = tuple(name for name in policies if name != OURS)
        beds = {name: each for name, each in found.items() if each["metric"] == metric}
        if beds:
            parts += [f"**{metric}**, regret", _regret(beds, others), f"**{metric}**, samples", _samples(beds, others)]
    return "\n\n".join(parts)


def _regret(beds: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    rows, ratios = [], {other: list[float]() for other in others}
    for name, bed in beds.items():
        by_policy = {each["policy"]: each for each in bed["policies"]}
        ours = by_policy[OURS]["regret"]
        for other in others:
            ratios[other].append(by_policy[other]["regret"] / ours)
        shown = [f"{ratios[other][-1]:.2g}" for other in others]
        error = by_policy[OURS]["regret_se"] or 0.0
        rows.append([name, _setup(bed), f"{ours:,.3g} ± {error:.2g}", *shown])
    middle = [f"{median(ratios[other]):.2g}" for other in others]
    return _lines(["bed", "G, T, trials", OURS, *others], [*rows, ["median", "", "", *middle]])


def _samples(beds: Mapping[str, Mapping[str, Any]], others: tuple[str, ...]) -> str:
    """Ratios of `samples_to_95`; where a policy never comes to that, at least what it had."""
    rows = []
    for name, bed in beds.items():
        by_policy = {each["policy"]: each["samples_to_95"] for each in bed["policies"]}
        ours, budget = by_policy[OURS], bed["rounds"] * bed["batch"]
        shown = [_times(by_policy[other], ours, budget) for other in others]
        rows.append([name, "never" if ours is None else f"{ours:,.0f}", *shown])
    return _lines(["bed", OURS, *others], rows)


def _times(theirs: float | None, ours: float | None, budget: int) -> str:
    if ours is None:
        return "never" if theirs is None else f"{theirs:,.0f} samples"
    return f"> {budget / ours:.2g}" if theirs is None else f"{theirs / ours:.2g}"


def _setup(bed: Mapping[str, Any]) -> str:
    return f"{len(bed['truth'])}, {bed['rounds']:,}, {bed['trials']}"


def _lines(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])
