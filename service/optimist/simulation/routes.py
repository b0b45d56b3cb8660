"""What routing policies get on a table of scores, as rows for people and for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optimist.evaluation.scored_prompts import ScoredPrompts
from optimist.policies.routing import RoutePolicy
from optimist.simulation.routing import RouteBed, play


@dataclass(frozen=True)
class PlayedPolicy:
    """One policy over all trials."""

    policy: str
    mean: float
    """Mean score of a prompt."""
    error: float
    """Standard error of `mean` over the trials; 0 with one."""
    share_of_ideal: float | None
    """The gain over the best single generator as a part of what the best one for each prompt would gain; None where
    nothing can be gained."""
    picks: dict[str, float]
    """Part of the prompts that each generator got."""


@dataclass(frozen=True)
class PlayedRoutes:
    """Policies on the same prompts."""

    names: tuple[str, ...]
    prompts: int
    trials: int
    best: float
    """Mean score of the best single generator."""
    ideal: float
    """Mean score of the best generator for each prompt."""
    rows: tuple[PlayedPolicy, ...]

    @property
    def sentence(self) -> str:
        """What is compared."""
        return (
            f"{self.prompts:,} prompts, {self.trials} trials. Mean score of the best generator alone: {self.best:.4f}; "
            f"of the best one for each prompt: {self.ideal:.4f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def played(
    known: ScoredPrompts, policies: Sequence[str], *, rounds: int = 1000, trials: int = 20, seed: int = 0
) -> PlayedRoutes:
    """Each policy (`policies.routing.RouteName`) on up to `rounds` prompts, in another random order in each trial.

    Raises ValueError for an unknown policy, and unless every generator has one score on every prompt.
    """
    table = known.table()
    chosen = np.random.default_rng((seed, 1)).permutation(len(table))[:rounds]
    bed = RouteBed("", known.contexts[chosen], table[chosen], table[chosen])
    rows: list[PlayedPolicy] = []
    for name in policies:
        runs = [
            play(bed, RoutePolicy.named(name, rounds=len(chosen)), trial=trial, seed=seed) for trial in range(trials)
        ]
        means = np.array([run.values.mean() for run in runs])
        counts = sum(np.bincount(run.chosen, minlength=len(known.names)) for run in runs)
        share = float(np.mean([run.share_of_ideal for run in runs]))
        rows.append(
            PlayedPolicy(
                policy=name,
                mean=float(means.mean()),
                error=float(means.std(ddof=1) / math.sqrt(trials)) if trials > 1 else 0.0,
                share_of_ideal=None if math.isnan(share) else share,
                picks=dict(zip(known.names, (counts / np.sum(counts)).tolist(), strict=True)),
            )
        )
    values = table[chosen]
    return PlayedRoutes(
        known.names, len(chosen), trials, float(values.mean(0).max()), float(values.max(1).mean()), tuple(rows)
    )
