"""The fields of a config that belong to the goal "route", and those that cannot be had with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimist_client.errors import FixError
from optimist_client.goals import check_ceiling, check_pace, check_route_size

if TYPE_CHECKING:
    from optimist_client.config import ExperimentConfig

FIELDS = ("context", "context_features", "context_bandwidth", "price", "ceiling", "at_least", "tries")
"""The fields that only the goal "route" has."""


def check_route_fields(config: ExperimentConfig) -> None:
    """Raise FixError if a field of routing is given with another goal, or if those of a router do not go together.

    Metric, policy and bound are checked by `goals.check_route`.
    """
    if config.goal != "route":
        fields = type(config).model_fields
        if given := [name for name in FIELDS if getattr(config, name) != fields[name].default]:
            raise FixError(f"{', '.join(given)}: only with the goal 'route'; the goal is {config.goal!r}")
        return
    if config.context is None:
        raise FixError("goal: 'route' needs context, the number of columns of the prompts' embeddings")
    check_route_size(config.context_features, len(config.generators))
    _check_refused(config)
    _check_costs(config)


def priced_by(config: ExperimentConfig) -> str | None:
    """The field for which a router needs the cost of every generator, if any."""
    return next((name for name in ("price", "ceiling", "at_least") if getattr(config, name)), None)


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


def _check_costs(config: ExperimentConfig) -> None:
    check_pace(config.policy, config.ceiling, config.at_least, config.price)
    unpriced = [g for g in config.generators if g not in (config.costs or {})]
    if (name := priced_by(config)) and unpriced:
        raise FixError(f"{name}: every generator needs a cost; {', '.join(unpriced)} have none")
    check_ceiling(config.ceiling, (config.costs or {}).values())
    if config.at_least is not None and not (config.metric.positive and not config.metric.lower_is_better):
        raise FixError(
            "at_least: is a part of scores that are never negative: expected 'win-rate', or 'mean' with a range from 0 "
            "on and higher values better"
        )
    if config.policy == "promptwise":
        if config.price == 0.0:
            raise FixError("policy: 'promptwise' weighs what a call costs; expected costs, and a price above 0")
        if config.metric.limits.get("values") != (0.0, 1.0) or config.metric.lower_is_better:
            raise FixError(
                "policy: 'promptwise' is for successes: expected 'win-rate', or 'mean' with range (0, 1) and higher "
                "values better"
            )
