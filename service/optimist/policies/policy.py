"""A policy of an experiment: first a warm-up, then generators without an estimate, then the policy's own rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from optimist.policies.arms import Arm
from optimist.policies.choices import fewest_samples, greedy, thompson, ucb, uniform
from optimist.policies.draws import Draws
from optimist.policies.stopping import Stopping
from optimist.policies.top_two import top_two
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from optimist_client.metrics import Metric

NAMES = ("ucb", "top-two", "thompson", "greedy", "uniform")
NEEDS_ERRORS = frozenset({"top-two", "thompson"})


def warmup_batches(
    metric: type[Metric], bound: str, given: int | None = None, needed: int = 0, batch_size: int = 1
) -> int:
    """Batches per generator before the policy decides.

    They are `given`, or by default what decisions.md §3 has for the metric under bounds with standard errors, and one
    under the papers' bounds; and at least as many batches of `batch_size` as bring the samples `needed` to fix open
    kernels.
    """
    default = metric.warmup if metric.has_errors(bound) else 1
    return max(default if given is None else given, -(-needed // batch_size))


@dataclass(frozen=True, slots=True)
class Policy:
    """Chooses the next pick: a pure function of (arms, told, round, seed).

    `warmup` is in batches per generator. Random numbers depend only on (`seed`, round), so that a pick can be
    reproduced from the estimates that it was based on.
    """

    name: str
    warmup: int
    stopping: Stopping
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise FixError(f"unknown policy {self.name!r}; expected one of {', '.join(NAMES)}")
        if self.warmup < 1:
            raise FixError(f"warmup must be at least 1 batch per generator, got {self.warmup}")

    def pick(self, arms: Sequence[Arm], told: int, round_: int) -> int:
        """Position in `arms` of the generator to sample in round `round_`, after `told` batches in total.

        Raises FixError if no arm is active.
        """
        active = [i for i, arm in enumerate(arms) if arm.active]
        if not active:
            raise FixError("no generator is active")
        begun = {i: arms[i].batches + arms[i].pending_batches for i in active}
        if min(begun.values()) < self.warmup:
            return min(active, key=begun.__getitem__)
        unknown = [i for i in active if arms[i].estimate is None]
        if unknown:
            return unknown[fewest_samples([arms[i] for i in unknown])]
        return active[self._rule()([arms[i] for i in active], told, Draws(self.seed, round_))]

    def _rule(self) -> Callable[[Sequence[Arm], int, Draws], int]:
        rules = {"ucb": ucb, "greedy": greedy, "uniform": uniform, "thompson": thompson}
        return rules.get(self.name) or partial(top_two, stopping=self.stopping)


def check_policy(policy: str, bound: str, metric: type[Metric]) -> None:
    """Raise FixError if `policy` is unknown, or needs standard errors that the metric's `bound` does not provide."""
    if policy not in NAMES:
        raise FixError(f"unknown policy {policy!r}; expected one of {', '.join(NAMES)}")
    if policy in NEEDS_ERRORS and not metric.has_errors(bound):
        raise FixError(
            f"policy {policy!r} needs standard errors, which bound {bound!r} does not have; "
            "use bound 'influence', or policy 'ucb', 'greedy' or 'uniform'"
        )
