"""Goals of experiments: the best generator, the cheapest one that is good enough, the best mixture of all, or the best
generator for each prompt.

Each goal is a class, which is registered by `declare_goal`. What it is for the service stands in `experiments/goals/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import PlainValidator, WithJsonSchema

from optimist_client.errors import FixError
from optimist_client.limits import Limit
from optimist_client.metrics import Metric, declared
from optimist_client.presets import resolve_preset

if TYPE_CHECKING:
    from optimist_client.config import ExperimentConfig
    from optimist_client.models.reports import Report

BestPolicyName = Literal["top-two", "ucb", "thompson", "greedy", "uniform"]
"""The policies of the goal "best"."""
MixturePolicyName = Literal["ogd", "mixture-ucb-cab", "mixture-ucb-ogd", "mixture-greedy"]
"""The policies of the goal "mixture": the default, and three as published. `uniform` serves all goals."""
RoutePolicyName = Literal["optimistic", "rff-ucb", "promptwise", "best-single"]
"""The policies that only the goal "route" has: its default, two as published, and the best generator for all prompts.
It also has `ucb`, `greedy` and `uniform`."""
PACED = ("optimistic", "ucb", "greedy")
"""Policies that compare generators by score less price times cost, and so can keep a budget."""
COMPONENTS = 32
"""The most principal components of contexts that a router uses, beside r random features."""
OWN_GROWTH = 0.25
"""Growth of the samples of one generator at which the model of contexts is made again, however few they are among all:
of one that has just joined, much is learned from a few."""

UNLIKE = (
    "Each generator's mean is over the prompts that it was given, so these means cannot be compared; the table of "
    "routes compares the generators on the same prompts."
)
"""Why a router's generators are not compared by their scores: the easy prompts may have gone to one of them."""
NEEDS_ERRORS = frozenset({"top-two", "thompson"})
"""The policies that need standard errors."""

View = Literal["standings", "mixture", "routes"]


class DeclaredGoal:
    """A goal: the policies that serve it, the defaults and checks of a config that has it, and what a report says."""

    name: ClassVar[str]
    """The name in configs and on the wire."""
    policies: ClassVar[tuple[str, ...]]
    """Its policies, the default one first."""
    names_one: ClassVar[bool] = True
    """True if the answer is one generator, so that there are rivals, regret and what even sampling would have taken."""
    names_mixture: ClassVar[bool] = False
    """True if the answer is a mixture, whose score is that of the answer."""
    awaits: ClassVar[tuple[str, str]] = ("samples", "scored")
    """The samples that an experiment waits for at first, and the verb of what is then done with generators."""
    view: ClassVar[View] = "standings"
    """The part of a page with the answer: in the standings, in the weights of a mixture, or in a table of routes."""
    leader_is: ClassVar[str] = ""
    """The title of the leader in a list of experiments, where the confidence does not say it."""
    fields: ClassVar[tuple[str, ...]] = ()
    """The fields of a config that no other goal has."""
    has_contexts: ClassVar[bool] = False
    """True if each pick is for a prompt, whose embedding the ask brings."""

    @classmethod
    def with_defaults(cls, data: Mapping[str, Any], metric: type[Metric] | None) -> dict[str, Any]:
        """The data of a config of this goal, with defaults that differ from those of the fields.

        metric: of the config, None where it is not valid.
        """
        del metric
        return {"policy": cls.policies[0], **data}

    @classmethod
    def check(cls, config: ExperimentConfig) -> None:
        """Raise FixError unless the fields of a config of this goal go together."""
        if config.policy not in cls.policies:
            policies = ", ".join(cls.policies)
            raise FixError(f"policy: the goal {cls.name!r} has the policies {policies}; got {config.policy!r}")
        fields = type(config).model_fields
        for other in declared_goals().values():
            foreign = [name for name in other.fields if name not in cls.fields]
            if given := [name for name in foreign if getattr(config, name) != fields[name].default]:
                raise FixError(f"{', '.join(given)}: only with the goal {other.name!r}; the goal is {cls.name!r}")

    @classmethod
    def mixture_growth(cls, policy: str) -> float | None:
        """The growth of the samples of all generators together at which the mixture is made again under this policy.
        None: only when somebody asks."""
        del policy
        return None

    @classmethod
    def model_growth(cls, config: ExperimentConfig) -> float | None:
        """The growth of the samples of all generators together at which the model that picks are made from is made
        again. None: picks are made without a model."""
        del config
        return None

    @classmethod
    def answer(cls, report: Report) -> str:
        """The answer so far of a report on some samples, in one sentence."""
        return report.answer_on_best()

    @classmethod
    def why(cls, report: Report) -> str:
        """Why it was or was not decided."""
        return report.decision.why(report.scale, may_go_on=report.used_up is None)

    @classmethod
    def sentences(cls, report: Report, warnings: list[str]) -> list[str]:
        """The sentences of a report, with these warnings."""
        return report.sentences_on_best(warnings)


AnyGoal = TypeVar("AnyGoal", bound=type[DeclaredGoal])
_DECLARED: dict[str, type[DeclaredGoal]] = {}


def declare_goal(goal: AnyGoal) -> AnyGoal:
    """Register a goal under its name."""
    _DECLARED[goal.name] = goal
    return goal


def declared_goals() -> dict[str, type[DeclaredGoal]]:
    """All goals by name, those of the project first."""
    return dict(_DECLARED)


def known_goal(name: str) -> type[DeclaredGoal]:
    """The goal of this name; one that this program does not know is read as "best"."""
    return _DECLARED.get(name, Best)


def find_goal(name: object) -> type[DeclaredGoal]:
    """The goal of this name. Raises FixError with the names that there are."""
    if not isinstance(name, str) or name not in _DECLARED:
        *others, last = map(repr, _DECLARED)
        raise FixError(f"expected {', '.join(others)} or {last}, got {name!r}")
    return _DECLARED[name]


@declare_goal
class Best(DeclaredGoal):
    """The best generator. A policy may be a preset, which sets bound, warm-up and growth, too."""

    name = "best"
    policies = get_args(BestPolicyName)

    @classmethod
    def with_defaults(cls, data: Mapping[str, Any], metric: type[Metric] | None) -> dict[str, Any]:
        policy, bound = data.get("policy"), data.get("bound")
        # Values of another type are refused by the validation of the fields.
        if metric is None or not isinstance(policy, str | None) or not isinstance(bound, str | None):
            return dict(data)
        if policy is None:  # the papers' bounds have no standard errors
            return {**data, "policy": "top-two" if metric.has_errors(bound or "influence") else "ucb"}
        settings = resolve_preset(policy, metric, bound)
        return {**settings, **data, **({"policy": settings["policy"]} if settings else {})}

    @classmethod
    def check(cls, config: ExperimentConfig) -> None:
        super().check(config)
        if config.policy in NEEDS_ERRORS and not config.metric.has_errors(config.bound):
            raise FixError(
                f"policy: {config.policy!r} needs standard errors, which bound {config.bound!r} does not have; "
                "use bound 'influence', or policy 'ucb', 'greedy' or 'uniform'"
            )


@declare_goal
class CheapestGoodEnough(Best):
    """The least costly generator of those that meet all limits."""

    name = "cheapest"
    policies = ("top-two", "uniform")
    fields = ("good_enough", "limits", "cost_metric")

    @classmethod
    def check(cls, config: ExperimentConfig) -> None:
        super().check(config)
        if config.tolerance != 0.0:
            raise FixError("tolerance: with the goal 'cheapest' good_enough says what may be worse than the best")
        if not config.metric.has_errors(config.bound):
            raise FixError(f"bound: the goal 'cheapest' needs standard errors; {config.bound!r} has none")
        if config.good_enough is not None:
            Limit("best", config.good_enough).check(config.metric, "good_enough")
        for label, limit in config.limits.items():
            cls._check_limit(config, label, limit)
        # Each new estimate is compared with all others, which then takes a tenth of a second.
        if len(config.generators) > (max_generators := 100) and any(limit.is_of_best for _, limit in config.all_limits):
            raise FixError(
                f"generators: limits relative to the best compare all of them with each other; expected at most "
                f"{max_generators}, got {len(config.generators)}"
            )
        metric = config.metrics.get(config.cost_metric or config.metric.shown_label)
        if metric is None:
            raise FixError(f"cost_metric: expected one of {', '.join(config.metrics)}; got {config.cost_metric!r}")
        costs = config.costs or {}
        if config.cost_metric is not None:
            if not metric.lower_is_better or metric.scale != "linear":
                raise FixError(f"cost_metric: expected a metric of which lower is better, got {config.cost_metric!r}")
            if costs:
                raise FixError("costs: expected costs, or cost_metric that measures them; got both")
        elif not costs:
            raise FixError("costs: the goal 'cheapest' needs the cost of a sample of the generators that it may name")
        if not config.all_limits and (config.cost_metric or len(set(costs.values())) > 1):
            raise FixError("good_enough, limits: expected one of them; without any the cheapest is known already")

    @staticmethod
    def _check_limit(config: ExperimentConfig, label: str, limit: Limit) -> None:
        field, metric = f"limits.{label}", config.metrics.get(label)
        if metric is None:
            raise FixError(f"{field}: expected the label of a metric, one of {', '.join(config.metrics)}")
        if limit.against and limit.against not in config.generators:
            raise FixError(f"{field}: no generator is called {limit.against}")
        limit.check(metric, field)

    @classmethod
    def answer(cls, report: Report) -> str:
        return super().answer(report) if report.is_on_best else report.answer_on_cheapest()

    @classmethod
    def why(cls, report: Report) -> str:
        return super().why(report) if report.is_on_best else report.why_on_cheapest()

    @classmethod
    def sentences(cls, report: Report, warnings: list[str]) -> list[str]:
        return super().sentences(report, warnings) if report.is_on_best else report.sentences_on_cheapest(warnings)


@declare_goal
class BestMixture(DeclaredGoal):
    """The weights of the best mixture of the generators."""

    name = "mixture"
    policies = (*get_args(MixturePolicyName), "uniform")
    names_one = False
    view = "mixture"
    leader_is = "best mixture"
    names_mixture = True
    awaits = "samples", "mixed and scored"

    @classmethod
    def with_defaults(cls, data: Mapping[str, Any], metric: type[Metric] | None) -> dict[str, Any]:
        """With the settings of a published policy."""
        published = {"warmup": 1, "rescore_growth": 0.0} if str(data.get("policy")).startswith("mixture-") else {}
        return {**published, **super().with_defaults(data, metric)}

    @classmethod
    def check(cls, config: ExperimentConfig) -> None:
        super().check(config)
        metric = config.metric
        if "mixtures" not in metric.offers:
            names = ", ".join(kind.name for kind in declared().values() if "mixtures" in kind().offers)
            why = ", with these settings," if "mixtures" in type(metric)().offers else ""
            raise FixError(f"goal: the metric {metric.name!r}{why} has no score of mixtures; those of {names} have one")
        if config.policy.startswith("mixture-ucb") and metric.name not in ("rke", "mmd", "cmmd"):
            raise FixError(
                f"policy: {config.policy!r} is published for rke, mmd and cmmd; the metric is {metric.name!r}"
            )
        if config.bound != "influence":
            raise FixError(f"bound: the goal 'mixture' has the bound 'influence'; got {config.bound!r}")
        if config.prompts_are != "sample":
            raise FixError("prompts_are: a mixture is scored on prompts like these; expected 'sample'")

    @classmethod
    def mixture_growth(cls, policy: str) -> float | None:
        """0 for the published policies, after every batch."""
        return 0.0 if policy.startswith("mixture-") else 0.25

    @classmethod
    def sentences(cls, report: Report, warnings: list[str]) -> list[str]:
        return report.sentences_on_mixture(warnings)

    @classmethod
    def answer(cls, report: Report) -> str:
        return report.answer_on_mixture()


@declare_goal
class BestRoutes(DeclaredGoal):
    """The best generator for each prompt."""

    name = "route"
    policies = (*get_args(RoutePolicyName), "ucb", "greedy", "uniform")
    names_one = False
    view = "routes"
    leader_is = "best alone"
    awaits = "prompts", "compared"
    fields = ("context", "context_features", "context_bandwidth", "price", "ceiling", "at_least", "tries")
    has_contexts = True

    @classmethod
    def with_defaults(cls, data: Mapping[str, Any], metric: type[Metric] | None) -> dict[str, Any]:
        """One sample a pick, and samples without seeds in common."""
        return {"batch_size": 1, "warmup": 3, "paired": False, **super().with_defaults(data, metric)}

    @classmethod
    def check(cls, config: ExperimentConfig) -> None:
        super().check(config)
        metric = config.metric
        if "routes" not in metric.offers:
            names = ", ".join(kind.name for kind in declared().values() if "routes" in kind().offers)
            raise FixError(f"goal: prompts are routed by a score of each sample, as of {names}; got {metric.name!r}")
        if config.bound != "influence":
            raise FixError(f"bound: the goal 'route' has the bound 'influence'; got {config.bound!r}")
        if config.context is None:
            raise FixError("goal: 'route' needs context, the number of columns of the prompts' embeddings")
        check_route_size(config.context_features, len(config.generators))
        cls._check_refused(config)
        cls._check_costs(config)

    @classmethod
    def model_growth(cls, config: ExperimentConfig) -> float | None:
        return config.rescore_growth

    @staticmethod
    def _check_refused(config: ExperimentConfig) -> None:
        if config.prompts is not None:
            raise FixError("prompts: with the goal 'route' every ask brings its own prompt, so that there is no list")
        if config.tolerance != 0.0:
            raise FixError(f"tolerance: the goal 'route' decides nothing; expected none, got {config.tolerance!r}")
        if config.batch_size != 1:
            raise FixError(
                "batch_size: with the goal 'route' a pick is for one prompt, and has `tries` samples; "
                f"expected 1, got {config.batch_size}"
            )
        if config.paired:
            raise FixError("paired: with the goal 'route' generators do not get the same prompts; expected false")

    @staticmethod
    def _check_costs(config: ExperimentConfig) -> None:
        check_pace(config.policy, config.ceiling, config.at_least, config.price)
        unpriced = [g for g in config.generators if g not in (config.costs or {})]
        if (name := priced_by(config)) and unpriced:
            raise FixError(f"{name}: every generator needs a cost; {', '.join(unpriced)} have none")
        check_ceiling(config.ceiling, (config.costs or {}).values())
        if config.at_least is not None and not (config.metric.positive and not config.metric.lower_is_better):
            raise FixError(
                "at_least: is a part of scores that are never negative: expected 'win-rate', or 'mean' with a range "
                "from 0 on and higher values better"
            )
        if config.policy == "promptwise":
            if config.price == 0.0:
                raise FixError("policy: 'promptwise' weighs what a call costs; expected costs, and a price above 0")
            if config.metric.limits.get("values") != (0.0, 1.0) or config.metric.lower_is_better:
                raise FixError(
                    "policy: 'promptwise' is for successes: expected 'win-rate', or 'mean' with range (0, 1) and "
                    "higher values better"
                )

    @classmethod
    def sentences(cls, report: Report, warnings: list[str]) -> list[str]:
        return report.sentences_on_routes(warnings)

    @classmethod
    def answer(cls, report: Report) -> str:
        return report.answer_on_routes()

    @classmethod
    def why(cls, report: Report) -> str:
        return "" if report.routes is None else report.routes.scores_text


GoalName = Annotated[
    str, PlainValidator(lambda name: find_goal(name).name), WithJsonSchema({"type": "string", "enum": [*_DECLARED]})
]
"""The name of a goal."""


def priced_by(config: ExperimentConfig) -> str | None:
    """The field for which a router needs the cost of every generator, if any."""
    return next((name for name in ("price", "ceiling", "at_least") if getattr(config, name)), None)


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
    if ceiling is not None and ceiling < (min_cost := min(costs)):
        raise FixError(f"ceiling: expected at least {min_cost:g}, what the cheapest generator costs; got {ceiling:g}")


def check_route_size(features: int, generators: int, largest: int = 5_000_000) -> None:
    """Raise FixError if a model of this many features and generators has more than `largest` numbers."""
    numbers = (features + COMPONENTS) ** 2 * generators
    if numbers > largest:
        max_features = (math.isqrt(largest // generators) - COMPONENTS) // 2 * 2
        raise FixError(
            f"context_features: ({features} + {COMPONENTS})² times {generators} generators is {numbers:,}; "
            f"expected at most {largest:,}: {generators} generators can have {max_features} features"
        )
