"""The tables of the metrics in docs/metrics.md, from the classes that declare the metrics."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from notes import cell

from optimist_client.metrics import Metric, declared


def part() -> str:
    """Two tables with one row per metric: what it measures and needs; its bounds and what else it offers."""
    metrics = declared().values()
    head = ["metric", "what it measures", "better", "scale", "a batch contains", "an experiment needs"]
    bounds = ["metric", "bounds, with their options", "presets, with their bounds", "warm-up batches", "also shows"]
    return _table(head, map(_purpose, metrics)) + "\n\n" + _table(bounds, map(_bounds, metrics))


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def _purpose(metric: type[Metric]) -> list[str]:
    described = (inspect.getdoc(metric) or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
    made = metric()
    columns = {
        array: f"`{setting}`" if setting else made.widths.get(array, "columns of the reference")
        for array, setting in metric.arrays.items()
    }
    is_set = isinstance(inspect.getattr_static(metric, "lower_is_better"), property)
    return [
        f"`{metric.name}`: {metric.title}",
        described,
        "as set" if is_set else "lower" if made.lower_is_better else "higher",
        metric.scale,
        ", ".join(f"`{array}` (n, {width})" for array, width in columns.items()),
        _codes(metric.needs),
    ]


def _bounds(metric: type[Metric]) -> list[str]:
    bounds = [f"`{bound}`" + (f" ({_codes(options)})" if options else "") for bound, options in metric.bounds.items()]
    return [
        f"`{metric.name}`",
        ", ".join(bounds),
        ", ".join(f"`{preset}` (`{bound}`)" for preset, bound in metric.presets.items()),
        str(metric.warmup),
        ", ".join(sorted(metric.offers)),
    ]


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
