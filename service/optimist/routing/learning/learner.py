"""The model of contexts by which prompts are routed, and the rows of its table, from what all estimators keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from optimist.arrays import Floats
from optimist.estimation.learner import Learner
from optimist.estimation.streaming import StreamingEstimator
from optimist.records import AskedPrompt
from optimist.routing.answers.features import ContextMap, ContextSettings
from optimist.routing.answers.model import RouteModel
from optimist.routing.answers.policy import SAMPLED, RoutePolicy
from optimist.routing.answers.ridge import PublishedRidge, Regressions
from optimist.routing.answers.rows import RoutedRows
from optimist.routing.learning.kept import BATCHES, RoutedStatistic
from optimist_client.config import ExperimentConfig
from optimist_client.errors import FixError


@dataclass(frozen=True)
class RouteLearner(Learner):
    """Makes the model of contexts of a router."""

    settings: ContextSettings
    policy: str = "optimistic"
    sampled: int = 0
    """As of `model_of`."""

    @classmethod
    def from_config(cls, config: ExperimentConfig) -> Self:
        """The learner of an experiment that routes prompts."""
        settings = ContextSettings(config.context or 0, config.context_features, config.context_bandwidth)
        return cls(settings, config.policy, SAMPLED if config.keeps_budget else 0)

    @property
    def is_open(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.settings.is_open

    def model(self, estimators: Mapping[int, StreamingEstimator]) -> bytes:
        return model_of(estimators, self.policy, self.sampled).pack()

    def rows(self, estimators: Mapping[int, StreamingEstimator], generators: int) -> RoutedRows:
        return replace(rows_of(estimators, generators), settings=self.settings)

    @cached_property
    def _map(self) -> ContextMap:
        return self.settings.made()

    @property
    def arrays(self) -> Sequence[Floats]:
        return self._map.arrays

    def learned(self, *, lower_is_better: bool, ordinal: int) -> RoutedStatistic:
        return RoutedStatistic(self._map, lower_is_better, ordinal)

    def to_fit(self, generators: int) -> int:
        return self.settings.to_fit(generators)

    def first(self, prompt: AskedPrompt) -> Floats:
        return self.settings.read(prompt.context)

    def fitted(self, firsts: Sequence[Floats]) -> RouteLearner:
        return replace(self, settings=self.settings.fitted(firsts))

    @property
    def fixed(self) -> dict[str, Floats]:
        return self.settings.fixed

    def closed(self, fixed: Mapping[str, Floats]) -> RouteLearner:
        return replace(self, settings=self.settings.closed(fixed))


def model_of(estimators: Mapping[int, StreamingEstimator], policy: str, sampled: int = 0) -> RouteModel:
    """The model of all generators that have samples, from their estimators by ordinal, for the policy of this name.

    sampled: number of recorded prompts, a uniform sample of at most `BATCHES`, with expected scores.

    Raises FixError where prompts are not routed, without samples, and if a number would not be finite.
    """
    told = {ordinal: routed for ordinal, routed in _routed(estimators).items() if routed.samples}
    if not told:
        raise FixError("a model needs at least one sample of a generator")
    moments = [routed.moments for routed in told.values()]
    contexts = next(iter(told.values())).contexts
    fit = PublishedRidge.from_moments if RoutePolicy(policy).is_published else Regressions.from_moments
    regressions = fit(moments, contexts.linear)
    # Expected scores are linear in the columns: their mean over all prompts is the prediction at the mean columns.
    samples = [sums.samples for sums in moments]
    centre = np.sum([sums.total for sums in moments], axis=0) / sum(samples)
    single = regressions.predict(centre[None])[0][0]
    rows = None
    if sampled:
        # By the hashes of the batches, so that every scorer takes the same sample.
        largest = _largest(told, sampled)
        kept = [part.batches.rows("context", part.batches.hashes <= largest) for part in told.values()]
        rows = np.concatenate([part_rows.numpy() for part_rows in kept])
    return RouteModel.from_regressions(list(told), samples, contexts, regressions, single, rows)


def rows_of(estimators: Mapping[int, StreamingEstimator], generators: int) -> RoutedRows:
    """Up to `BATCHES` batches of all estimators, by ordinal, of an experiment with so many generators.

    Batches are ordered by generator, then as recorded. Raises FixError where prompts are not routed.
    """
    routed = _routed(estimators)
    largest = _largest(routed, BATCHES)
    samples, sums = np.zeros(generators, dtype=np.int64), np.zeros(generators)
    contexts, scores, probability, pick, generator = [], [], [], [], []
    prompts: list[str] = []
    batches = 0
    for ordinal, part in routed.items():
        samples[ordinal], sums[ordinal] = part.samples, part.sum
        if not part.samples:
            continue
        arrays = {name: rows.numpy() for name, rows in part.batches.tensors.items()}
        kept = np.flatnonzero(part.batches.hashes <= largest)
        batch, column = np.nonzero(~np.isnan(arrays["scores"][kept]))
        chosen = kept[batch]
        contexts.append(arrays["context"][chosen])
        scores.append(arrays["scores"][chosen, column])
        probability.append(arrays["probability"][chosen, 0])
        pick.append(batches + batch)
        generator.append(np.full(len(chosen), ordinal))
        texts = part.batches.ids
        prompts += [texts[row] for row in chosen.tolist()]
        batches += len(kept)
    if not batches:
        raise FixError("a table needs at least one sample of a generator")
    return RoutedRows(
        contexts=np.concatenate(contexts),
        generator=np.concatenate(generator),
        score=np.concatenate(scores),
        probability=np.concatenate(probability),
        pick=np.concatenate(pick),
        prompts=prompts,
        samples=samples,
        sums=sums,
    )


def _largest(routed: Mapping[int, RoutedStatistic], count: int) -> int:
    """The largest hash among the `count` smallest of all batches: a uniform sample. 0 without a batch."""
    hashes = np.sort(np.concatenate([part.batches.hashes for part in routed.values()] or [np.zeros(0, np.uint64)]))
    return int(hashes[:count].max(initial=0))


def _routed(estimators: Mapping[int, StreamingEstimator]) -> dict[int, RoutedStatistic]:
    """The routed prompts that each estimator keeps, by ordinal, ascending. Raises FixError where one keeps none."""
    by_ordinal = {ordinal: estimator.learned for ordinal, estimator in sorted(estimators.items())}
    if missing := [ordinal for ordinal, learned in by_ordinal.items() if not isinstance(learned, RoutedStatistic)]:
        raise FixError(f"prompts are not routed: no contexts of generators {', '.join(map(str, missing))}")
    return {ordinal: learned for ordinal, learned in by_ordinal.items() if isinstance(learned, RoutedStatistic)}
