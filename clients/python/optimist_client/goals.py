"""What an experiment asks for: the best generator, the best mixture of all, or the best generator for each prompt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from optimist_client.errors import FixError
from optimist_client.metrics import Metric, declared

Goal = Literal["best", "mixture", "route"]
MixturePolicy = Literal["ogd", "mixture-ucb-cab", "mixture-ucb-ogd", "mixture-greedy"]
"""The policies of the goal "mixture": the default, and three as published. `uniform` serves all goals."""
RoutePolicy = Literal["optimistic", "rff-ucb", "promptwise", "best-single"]
"""The policies that only the goal "route" has: its default, two as published, and the best generator for all prompts.
It also has `ucb`, `greedy` and `uniform`."""
ROUTING: tuple[str, ...] = ("ucb", "greedy", "uniform", *get_args(RoutePolicy))
"""All policies of the goal "route"."""
PACED = ("optimistic", "ucb", "greedy")
"""Those that compare generators by score less price times cost, and so can keep a budget."""
COMPONENTS = 32
"""The most principal components of contexts that a router uses, beside r random features."""
OWN_GROWTH = 0.25
"""By which part the samples of one generator grow until the model of contexts is made again, however few they are among
all: of one that has just joined, much is learned from a few."""
MOST_ROUTE_NUMBERS = 5_000_000
"""The largest (r + 32)²·G: numbers of a model that routes contexts with r features among G generators."""


def of_mixture(data: Mapping[str, Any]) -> dict[str, Any]:
    """A config of the goal "mixture" with its default policy, and the settings of a published one."""
    policy = data.get("policy", "ogd")
    published = {"warmup": 1, "rescore_growth": 0.0} if str(policy).startswith("mixture-") else {}
    return {**published, **data, "policy": policy}


def of_routes(data: Mapping[str, Any]) -> dict[str, Any]:
    """A config of the goal "route" with its defaults: one sample a pick, and samples without seeds in common."""
    return {"policy": "optimistic", "batch_size": 1, "warmup": 3, "paired": False, **data}


def mixture_growth(policy: str) -> float:
    """By which part the samples of all generators together grow until the mixture is made again, under this policy of
    the goal "mixture": 0 for the published ones, after every batch."""
    return 0.0 if policy.startswith("mixture-") else 0.25


def check_goal(goal: str, policy: str, metric: Metric, bound: str, prompts_are: str) -> None:
    """Raise FixError unless metric, policy and bound serve the goal."""
    if goal not in get_args(Goal):
        *others, last = map(repr, get_args(Goal))
        raise FixError(f"goal: expected {', '.join(others)} or {last}, got {goal!r}")
    of_mixtures = get_args(MixturePolicy)
    if goal == "route":
        check_route(policy, metric, bound)
        return
    if goal == "best":
        if policy in of_mixtures:
            raise FixError(f"policy: {policy!r} is a policy of the goal 'mixture'; the goal is 'best'")
        if policy in get_args(RoutePolicy):
            raise FixError(f"policy: {policy!r} is a policy of the goal 'route'; the goal is 'best'")
        return
    if policy not in (*of_mixtures, "uniform"):
        known = ", ".join((*of_mixtures, "uniform"))
        raise FixError(f"policy: the goal 'mixture' has the policies {known}; got {policy!r}")
    if "mixture" not in metric.offers:
        known = ", ".join(kind.name for kind in declared().values() if "mixture" in kind().offers)
        why = ", with these settings," if "mixture" in type(metric)().offers else ""
        raise FixError(f"goal: the metric {metric.name!r}{why} has no score of mixtures; those of {known} have one")
    if policy.startswith("mixture-ucb") and metric.name not in ("rke", "mmd", "cmmd"):
        raise FixError(f"policy: {policy!r} is published for rke, mmd and cmmd; the metric is {metric.name!r}")
    if bound != "influence":
        raise FixError(f"bound: the goal 'mixture' has the bound 'influence'; got {bound!r}")
    if prompts_are != "sample":
        raise FixError("prompts_are: a mixture is scored on prompts like these; expected 'sample'")


def check_route(policy: str, metric: Metric, bound: str) -> None:
    """Raise FixError unless metric, policy and bound serve the goal "route"."""
    if policy not in ROUTING:
        raise FixError(f"policy: the goal 'route' has the policies {', '.join(ROUTING)}; got {policy!r}")
    if "routes" not in metric.offers:
        known = ", ".join(kind.name for kind in declared().values() if "routes" in kind().offers)
        raise FixError(f"goal: prompts are routed by a score of each sample, as of {known}; got {metric.name!r}")
    if bound != "influence":
        raise FixError(f"bound: the goal 'route' has the bound 'influence'; got {bound!r}")


def check_pace(policy: str, ceiling: float | None, at_least: float | None, price: float) -> None:
    """Raise FixError unless a router of this policy can keep this budget, of which there is one at most."""
    if ceiling is None and at_least is None:
        return
    if ceiling is not None and at_least is not None:
        raise FixError("ceiling, at_least: expected one of them: what prompts may cost, or what they must score")
    if ceiling is not None and not 0.0 < ceiling < math.inf:
        raise FixError(f"ceiling: expected a mean cost of a prompt above 0, got {ceiling}")
    if at_least is not None and not 0.0 < at_least <= 1.0:
        raise FixError(
            f"at_least: expected a part of the best single generator's mean, above 0 and at most 1, got {at_least}"
        )
    name = "at_least" if ceiling is None else "ceiling"
    if policy not in PACED:
        raise FixError(f"{name}: the policies {', '.join(PACED)} keep a budget; got {policy!r}")
    if at_least is not None and price > 0.0:
        raise FixError(
            f"at_least: costs are kept as low as that share allows, whatever their price; got price {price:g}"
        )


def check_ceiling(ceiling: float | None, costs: Iterable[float]) -> None:
    """Raise FixError if even the cheapest of generators with these costs is above the ceiling."""
    if ceiling is not None and ceiling < (least := min(costs)):
        raise FixError(f"ceiling: expected at least {least:g}, what the cheapest generator costs; got {ceiling:g}")


def check_route_size(features: int, generators: int) -> None:
    """Raise FixError if a model of this many features and generators is too large (`MOST_ROUTE_NUMBERS`)."""
    numbers = (features + COMPONENTS) ** 2 * generators
    if numbers > MOST_ROUTE_NUMBERS:
        most = (math.isqrt(MOST_ROUTE_NUMBERS // generators) - COMPONENTS) // 2 * 2
        raise FixError(
            f"context_features: ({features} + {COMPONENTS})² times {generators} generators is {numbers:,}; "
            f"expected at most {MOST_ROUTE_NUMBERS:,}: {generators} generators can have {most} features"
        )
