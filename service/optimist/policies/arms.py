"""What a policy sees of each generator: its estimate, its counts, and the batches on their way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimist.numerics.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Arm:
    """One generator at the moment of a decision.

    `samples` and `batches` are what was told; `pending_samples` and `pending_batches` belong to open picks.
    An arm that is not `active` (paused) is never picked but may still be named best.
    """

    name: str
    estimate: Estimate | None = None
    samples: int = 0
    batches: int = 0
    pending_samples: int = 0
    pending_batches: int = 0
    active: bool = True

    @property
    def shrink(self) -> float:
        """√(n/(n + pending)): how much the open picks will narrow this arm's errors (decisions.md §3)."""
        return math.sqrt(self.samples / (self.samples + self.pending_samples)) if self.samples else 1.0


def sign(arms: Sequence[Arm]) -> float:
    """+1 where lower is better, −1 where higher is: times a value, it makes every metric one to be minimised."""
    estimates = [arm.estimate for arm in arms if arm.estimate is not None]
    return 1.0 if not estimates or estimates[0].lower_is_better else -1.0


def losses(arms: Sequence[Arm]) -> list[float]:
    """Signed values, smaller is better; every arm must have an estimate."""
    # Lists, not arrays: with a handful of arms numpy's calls would be most of what a pick costs.
    by = sign(arms)
    return [by * arm.estimate.value for arm in arms if arm.estimate is not None]


def selection_errors(arms: Sequence[Arm]) -> list[float]:
    """sd_select, as the estimates have it; every arm must have one."""
    return [_known(arm.estimate.standard_error) for arm in arms if arm.estimate is not None]


def stopping_errors(arms: Sequence[Arm]) -> list[float]:
    """sd_stop, as the estimates have it; every arm must have one."""
    return [_known(arm.estimate.stopping_error) for arm in arms if arm.estimate is not None]


def least(keys: Sequence[float]) -> int:
    """Position of the smallest key, the first of them on a tie."""
    return min(range(len(keys)), key=keys.__getitem__)


def ratio(part: float, whole: float) -> float:
    """part/whole, both ≥ 0, as a limit: without any error even the smallest gap is sure, and no gap is none."""
    if whole > 0.0:
        return part / whole
    return math.inf if part > 0.0 else 0.0


def optimistic(estimate: Estimate, told: int) -> float:
    """The number `ucb` ranks by, before open picks: value ∓ √(2 log t)·sd_select, or the bound's own (decisions.md §3).

    `told` is t, the batches told to the whole experiment.
    """
    if estimate.standard_error is None:
        return estimate.optimistic
    width = math.sqrt(2.0 * math.log(max(told, 1))) * estimate.standard_error
    return estimate.value - width if estimate.lower_is_better else estimate.value + width


def _known(error: float | None) -> float:
    # A generator with a single sample has a value but no error yet: nothing is known of it.
    return math.inf if error is None else error
