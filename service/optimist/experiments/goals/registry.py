"""The goals by name. A registered goal works in memory, in the service, in reports and in simulations."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from optimist.experiments.goals.base import Goal, WithModel
from optimist.experiments.goals.best import ForBest
from optimist.experiments.goals.cheapest import ForCheapest
from optimist.experiments.goals.mixture import ForMixture
from optimist_client.config import ExperimentConfig
from optimist_client.goals import Best, BestMixture, BestRoutes, CheapestGoodEnough, DeclaredGoal, declare_goal

_GOALS: dict[str, tuple[type[Goal] | str, str, str]] = {}


def register(declared: type[DeclaredGoal], goal: type[Goal] | str, judge: str, requests: str = "") -> None:
    """Register a declared goal with the class that serves it, or its name as "module:class", which is imported with the
    first experiment that has the goal.

    judge: the laboratory's `Judge` of it as "module:class", which is imported when it is simulated.
    requests: a router of FastAPI with requests that only this goal has, named likewise; "" without any.
    """
    _GOALS[declare_goal(declared).name] = goal, judge, requests


def goal_named(name: str) -> type[Goal]:
    """The class that serves the goal of this name."""
    goal = _GOALS[name][0]
    return named(goal) if isinstance(goal, str) else goal


def named(path: str) -> Any:
    """The object that "module:name" stands for."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def learner_of(config: ExperimentConfig) -> Any:
    """The `estimation.Learner` of the model that picks are made from, which may need torch; None without one."""
    goal = goal_named(config.goal)
    return named(goal.learner).from_config(config) if issubclass(goal, WithModel) else None


def requests_of_goals() -> list[Any]:
    """The routers of requests that only some goals have."""
    return [named(requests) for _, _, requests in _GOALS.values() if requests]


def judge_of(name: str) -> str:
    """The judge of the goal of this name, as it was registered."""
    return _GOALS[name][1]


register(Best, ForBest, "optimist.simulation.judges.best:BestJudge")
register(CheapestGoodEnough, ForCheapest, "optimist.simulation.judges.cheapest:CheapestJudge")
register(BestMixture, ForMixture, "optimist.simulation.judges.mixture:MixtureJudge")
register(
    BestRoutes,
    "optimist.routing.goal:ForRouting",
    "optimist.routing.simulation.judge:RouteJudge",
    "optimist.routing.requests:router",
)
