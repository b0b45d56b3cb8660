"""The presets: names of policies that stand for a policy, a bound, a warm-up and how often scores are made."""

from __future__ import annotations

from typing import Any

from optimist_client.errors import FixError
from optimist_client.metrics import Metric, declared


def presets() -> dict[str, str | None]:
    """The names of the presets, each with the only metric that it works with, or None for any."""
    of_papers = {preset: metric.name for metric in declared().values() for preset in metric.presets}
    return {**of_papers, "naive-ucb": None, "greedy": None}


def resolve_preset(policy: str, metric: type[Metric], bound: str | None = None) -> dict[str, Any]:
    """The settings of a preset, or {} for a plain policy. `bound` is the requested bound, if any.

    The papers' algorithms are policy `ucb` with their bound, one batch of warm-up, and a score after every batch.
    `greedy` takes any bound; without one it ranks by the plug-in score, as in the papers. Raises FixError if the
    preset belongs to another metric or bound.
    """
    metrics = presets()
    if policy not in metrics:
        return {}
    if metrics[policy] not in (None, metric.name):
        raise FixError(f"preset {policy!r} is of metric {metrics[policy]!r}, not {metric.name!r}")
    if policy == "greedy":
        # Where the metric has a published bound, its value is the plug-in score.
        fixed = bound or ("theorem" if "theorem" in metric.bounds else "influence")
    else:
        fixed = metric.presets.get(policy, "naive")
    if bound not in (None, fixed):
        raise FixError(f"preset {policy!r} has bound {fixed!r}, not {bound!r}")
    return {"policy": "greedy" if policy == "greedy" else "ucb", "bound": fixed, "warmup": 1, "rescore_growth": 0.0}
