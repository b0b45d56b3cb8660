"""The goals by name. A registered goal works in memory, in the service, in reports and in simulations."""

from __future__ import annotations

from optimist.experiments.goals.base import Goal
from optimist.experiments.goals.best import ForBest
from optimist.experiments.goals.cheapest import ForCheapest
from optimist.experiments.goals.mixture import ForMixture
from optimist.experiments.goals.route import ForRouting
from optimist_client.goals import Best, BestMixture, BestRoutes, CheapestGoodEnough, DeclaredGoal, declare_goal

_GOALS: dict[str, tuple[type[Goal], str]] = {}


def register(declared: type[DeclaredGoal], goal: type[Goal], judge: str) -> None:
    """Register a declared goal with the class that serves it.

    judge: the laboratory's `Judge` of it as "module:class", which is imported when it is simulated.
    """
    _GOALS[declare_goal(declared).name] = goal, judge


def goal_named(name: str) -> type[Goal]:
    """The class that serves the goal of this name."""
    return _GOALS[name][0]


def judge_of(name: str) -> str:
    """The judge of the goal of this name, as it was registered."""
    return _GOALS[name][1]


register(Best, ForBest, "optimist.simulation.judges.best:BestJudge")
register(CheapestGoodEnough, ForCheapest, "optimist.simulation.judges.cheapest:CheapestJudge")
register(BestMixture, ForMixture, "optimist.simulation.judges.mixture:MixtureJudge")
register(BestRoutes, ForRouting, "optimist.routing.simulation.judge:RouteJudge")
