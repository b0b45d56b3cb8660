"""Prompts, and what generators scored on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.routing.features import Floats
from optimist_client.errors import FixError
from optimist_client.goals import check_ceiling, check_pace

FEWEST = 10
"""Prompts below which nothing is said."""


@dataclass(frozen=True, eq=False)
class ScoredPrompts:
    """Prompts, and what generators scored on them: one sample in each row.

    Where every prompt was given to every generator, there is a row for each of both, with the probability 1.
    """

    names: tuple[str, ...]
    contexts: Floats
    """Embeddings of the prompts (m, d)."""
    prompt: NDArray[np.int64]
    """Place of each sample's prompt in `contexts` (n,)."""
    generator: NDArray[np.int64]
    """Place of its generator in `names` (n,)."""
    scores: Floats
    """(n,)."""
    probability: Floats
    """With which the prompt was given to this generator (n,), above 0. NaN where no chance was involved: from such a
    sample is learned, but it says nothing of what routing gains."""
    costs: Floats | None = None
    """Cost of a sample of each generator (G,)."""

    def __post_init__(self) -> None:
        count = len(self.names)
        if count < 2:
            raise FixError(f"routing needs at least 2 generators, got {count}")
        if self.contexts.ndim != 2:
            raise FixError(f"contexts: expected numbers (prompts, d), got shape {self.contexts.shape}")
        if not np.isfinite(self.contexts).all():
            raise FixError("contexts: expected finite numbers")
        if not np.isfinite(self.scores).all():
            raise FixError("scores: expected finite numbers")
        chances = self.probability[~np.isnan(self.probability)]
        if not ((chances > 0.0) & (chances <= 1.0)).all():
            raise FixError("probability: expected numbers above 0, up to 1")
        if missing := [name for place, name in enumerate(self.names) if not (self.generator == place).any()]:
            raise FixError(f"no scores of {', '.join(missing)}")
        if len(set(self.names)) < count:
            raise FixError("names: expected different ones")
        if self.costs is not None and self.costs.shape != (count,):
            raise FixError(f"costs: expected one for each of the {count} generators")
        if self.costs is not None and not ((self.costs >= 0.0) & (self.costs < np.inf)).all():
            raise FixError("costs: expected finite numbers of at least 0")
        if len(self.contexts) < FEWEST:
            raise FixError(f"contexts: expected at least {FEWEST} prompts, got {len(self.contexts)}")

    @classmethod
    def of_table(
        cls, contexts: Floats, scores: Floats, names: Sequence[str] = (), costs: Floats | None = None
    ) -> ScoredPrompts:
        """Scores (m, G) of every generator on every prompt with embedding (m, d); NaN where there is none."""
        contexts, scores = np.asarray(contexts, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(contexts):
            raise FixError(f"scores: expected (prompts, generators) of {len(contexts)} prompts, got {scores.shape}")
        prompt, generator = np.nonzero(~np.isnan(scores))
        named = tuple(names) or tuple(f"generator-{place}" for place in range(scores.shape[1]))
        if len(named) != scores.shape[1]:
            raise FixError(f"names: expected one for each of the {scores.shape[1]} columns of scores, got {len(named)}")
        found = scores[prompt, generator]
        return cls(named, contexts, prompt, generator, found, np.ones(len(found)), costs)

    def table(self) -> Floats:
        """The scores (m, G). Raises FixError unless every generator has one score on every prompt."""
        found = np.full((len(self.contexts), len(self.names)), np.nan)
        found[self.prompt, self.generator] = self.scores
        if np.isnan(found).any():
            raise FixError("scores: expected one of every generator on every prompt; some are missing")
        return found

    def costs_of_budget(self, ceiling: float | None, at_least: float | None) -> Floats:
        """The costs (G,). Raises FixError where there are none, or where they or the scores do not fit the budget."""
        check_pace("greedy", ceiling, at_least, 0.0)
        if self.costs is None:
            raise FixError("ceiling, at_least: expected a cost of each generator, and there are none")
        check_ceiling(ceiling, self.costs.tolist())
        if at_least is not None and self.scores.min() < 0.0:
            raise FixError(f"at_least: is a part of scores that are never negative; found {self.scores.min():g}")
        return self.costs

    @property
    def is_logged(self) -> bool:
        """Whether prompts were given to single generators, rather than to all of them."""
        return not bool((self.probability == 1.0).all())
