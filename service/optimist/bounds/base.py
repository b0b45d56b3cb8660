"""What every bound offers policies, and the checks they share."""

from __future__ import annotations

from typing import Any, Protocol

from optimist.estimates import Estimate
from optimist.metrics import FrechetDistance, Metric
from optimist.statistics import GaussianStatistic

OUTSIDE_SHARE_SHOWN = 0.01


class Bound(Protocol):
    """How an estimate's interval is made of a statistic."""

    @property
    def name(self) -> str:
        """The name users type, such as "influence"."""
        ...

    @property
    def metric(self) -> Metric:
        """The metric it bounds."""
        ...

    @property
    def has_errors(self) -> bool:
        """Whether its estimates have standard errors, which `top-two`, `thompson` and stopping need."""
        ...

    def statistic(self) -> Any:
        """An empty `Statistic` laid out for this bound."""
        ...

    def estimate(self, statistic: Any) -> Estimate:
        """The estimate from 1 sample or more, every number finite or deliberately ±inf.

        Raises ValueError on no samples or a statistic of another metric, ArithmeticError where a number is not finite.
        """
        ...


def check_delta(delta: float) -> float:
    """δ, the probability of failure. Raises ValueError outside (0, 1)."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta!r}")
    return delta


def warnings(metric: FrechetDistance, statistic: GaussianStatistic, least: int = 1) -> tuple[str, ...]:
    """What a reader of the estimate must know of its samples; `least` is the number the bound's interval needs."""
    samples, rank = statistic.samples, metric.reference.rank
    found: list[str] = []
    if samples < least:
        found.append(f"at least {least} samples are needed for an interval")
    if samples <= rank:
        found.append(f"fewer samples than dimensions: {samples} samples, and the reference has rank {rank}")
    share = metric.outside_share(statistic)
    if share > OUTSIDE_SHARE_SHOWN:
        found.append(f"{share:.1%} of the variance lies outside the reference's span and counts in full")
    return tuple(found)


def sound(estimate: Estimate) -> Estimate:
    """The estimate itself. Raises ArithmeticError, naming the numbers, if it may not be stored."""
    if not estimate.is_sound():
        raise ArithmeticError(f"the estimate from {estimate.samples} samples is not finite: {estimate}")
    return estimate
