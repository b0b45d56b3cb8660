"""The goals by name. One that is registered works in memory, in the service, in reports and in simulations."""

from __future__ import annotations

from optimist.experiments.goals.base import Goal
from optimist.experiments.goals.best import ForBest
from optimist.experiments.goals.mixture import ForMixture
from optimist.experiments.goals.route import ForRouting
from optimist_client.goals import Best, BestMixture, BestRoutes, DeclaredGoal, declare_goal

_GOALS: dict[str, type[Goal]] = {}


def register(declared: type[DeclaredGoal], goal: type[Goal]) -> None:
    """Register a declared goal with the class that serves it."""
    _GOALS[declare_goal(declared).name] = goal


def goal_named(name: str) -> type[Goal]:
    """The class that serves the goal of this name."""
    return _GOALS[name]


register(Best, ForBest)
register(BestMixture, ForMixture)
register(BestRoutes, ForRouting)
