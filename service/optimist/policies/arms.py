"""Defines what a policy knows of each generator: its estimate, its counts and its open picks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimist.estimates.estimate import Estimate
from optimist_client.errors import FixError


@dataclass(frozen=True, slots=True)
class Arm:
    """The state of one generator when a pick or decision is made.

    `samples` and `batches` count what was recorded; `pending_samples` and `pending_batches` count the open picks.
    An arm that is not `active` (paused) is never picked but may still be the best.
    """

    name: str
    estimate: Estimate | None = None
    samples: int = 0
    batches: int = 0
    pending_samples: int = 0
    pending_batches: int = 0
    active: bool = True
    cost: float | None = None
    """Cost of one sample, where costs are weighed."""
    watched: Mapping[str, Estimate | None] = field(default_factory=dict[str, Estimate | None])
    """The estimates by other metrics that decide, by label."""

    @property
    def all_samples(self) -> int:
        """Samples recorded and on their way."""
        return self.samples + self.pending_samples

    @property
    def all_batches(self) -> int:
        """Batches recorded and on their way."""
        return self.batches + self.pending_batches

    @property
    def shrink(self) -> float:
        """√(n/(n + pending)): the factor by which the open picks will reduce this arm's errors (rules/stopping.md)."""
        return math.sqrt(self.samples / self.all_samples) if self.samples else 1.0


Arms = Sequence[Arm]


def active_among(arms: Sequence[Arm]) -> list[int]:
    """The indices of the active arms. Raises FixError if there is none."""
    active = [index for index, arm in enumerate(arms) if arm.active]
    if not active:
        raise FixError("no generator is active")
    return active


def rivals(arms: Sequence[Arm]) -> list[Arm]:
    """The arms that a decision compares. A paused one without an estimate would block it, and is left out."""
    return [arm for arm in arms if arm.active or arm.estimate is not None]


def prices(arms: Sequence[Arm]) -> list[float] | None:
    """The cost of a sample of each arm; None unless all are known and above 0, and not all the same."""
    costs = [arm.cost for arm in arms if arm.cost is not None and arm.cost > 0.0]
    return costs if len(costs) == len(arms) and min(costs) < max(costs) else None


def sign(arms: Sequence[Arm]) -> float:
    """+1 if lower values are better, −1 if higher ones are: values times this sign are to be minimised."""
    for arm in arms:
        if arm.estimate is not None:
            return 1.0 if arm.estimate.lower_is_better else -1.0
    return 1.0


def losses(arms: Sequence[Arm]) -> list[float]:
    """The values with their `sign`, so that smaller is better. Every arm must have an estimate."""
    # Lists instead of arrays: with few arms numpy's call overhead would dominate the cost of a pick.
    by = sign(arms)
    return [by * arm.estimate.value for arm in arms if arm.estimate is not None]


def selection_errors(arms: Sequence[Arm]) -> list[float]:
    """sd_select of every arm (∞ if unknown). Every arm must have an estimate."""
    return [known_error(arm.estimate.standard_error) for arm in arms if arm.estimate is not None]


def ratio(part: float, whole: float) -> float:
    """part/whole for part, whole ≥ 0. If whole is 0: ∞ for a positive part, 0 for part 0."""
    if whole > 0.0:
        return part / whole
    return math.inf if part > 0.0 else 0.0


def optimistic(estimate: Estimate, told: int) -> float:
    """The optimistic value that `ucb` ranks by: value ∓ √(2 log t)·sd_select, or the bound's own (rules/stopping.md).

    `told` is t, the number of batches recorded in the whole experiment. Open picks are not taken into account here.
    """
    if estimate.standard_error is None:
        return estimate.optimistic
    width = math.sqrt(2.0 * math.log(max(told, 1))) * estimate.standard_error
    return estimate.value - width if estimate.lower_is_better else estimate.value + width


def known_error(error: float | None) -> float:
    """The error, ∞ if unknown: a generator with a single sample has a value but no error, so its value says nothing."""
    return math.inf if error is None else error
