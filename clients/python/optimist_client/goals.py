"""What an experiment asks for: the best generator, or the best blend of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from optimist_client.metrics import Metric, declared

Goal = Literal["best", "mixture"]
MixturePolicy = Literal["ogd", "mixture-ucb-cab", "mixture-ucb-ogd", "mixture-greedy"]
"""The policies of the goal "mixture": the default, and three as published. `uniform` serves both goals."""


def of_mixture(data: Mapping[str, Any]) -> dict[str, Any]:
    """A config of the goal "mixture" with its default policy, and the settings of a published one."""
    policy = data.get("policy", "ogd")
    published = {"warmup": 1, "rescore_growth": 0.0} if str(policy).startswith("mixture-") else {}
    return {**published, **data, "policy": policy}


def mixture_growth(policy: str) -> float:
    """By which part the samples of all generators together grow until the mixture is made again, under this policy of
    the goal "mixture": 0 for the published ones, after every batch."""
    return 0.0 if policy.startswith("mixture-") else 0.25


def check_goal(goal: str, policy: str, metric: Metric, bound: str, prompts_are: str) -> None:
    """Raise ValueError unless metric, policy and bound serve the goal."""
    if goal not in get_args(Goal):
        raise ValueError(f"goal: expected {' or '.join(map(repr, get_args(Goal)))}, got {goal!r}")
    of_mixtures = get_args(MixturePolicy)
    if goal == "best":
        if policy in of_mixtures:
            raise ValueError(f"policy: {policy!r} is a policy of the goal 'mixture'; the goal is 'best'")
        return
    if policy not in (*of_mixtures, "uniform"):
        known = ", ".join((*of_mixtures, "uniform"))
        raise ValueError(f"policy: the goal 'mixture' has the policies {known}; got {policy!r}")
    if "mixture" not in metric.offers:
        known = ", ".join(kind.name for kind in declared().values() if "mixture" in kind().offers)
        why = ", with these settings," if "mixture" in type(metric)().offers else ""
        raise ValueError(f"goal: the metric {metric.name!r}{why} has no score of blends; those of {known} have one")
    if policy.startswith("mixture-ucb") and metric.name not in ("rke", "mmd", "cmmd"):
        raise ValueError(f"policy: {policy!r} is published for rke, mmd and cmmd; the metric is {metric.name!r}")
    if bound != "influence":
        raise ValueError(f"bound: the goal 'mixture' has the bound 'influence'; got {bound!r}")
    if prompts_are != "sample":
        raise ValueError("prompts_are: a blend is scored on prompts like these; expected 'sample'")
