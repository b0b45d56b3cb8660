"""Artefacts from the streams of all generators: the mixture, the model of contexts, the rows of routing tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimist.estimation.paired import shared_rows
from optimist.estimation.question import Question
from optimist.estimation.routed import BATCHES, Routed
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.threads import few_threads
from optimist.numerics import mixture as known
from optimist.routing.answers.model import RouteModel
from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.answers.prompts import RoutedRows
from optimist.routing.answers.ridge import Published, Regressions
from optimist_client.errors import FixError


def check_mixtures(question: Question) -> None:
    """Raise FixError unless mixtures of generators have a score."""
    metric = question.metric
    if "mixtures" not in metric.offers:
        with_these = ", with these settings," if "mixtures" in type(metric).offers else ""
        raise FixError(f"the metric {metric.name!r}{with_these} has no score of mixtures")
    if question.prompts is not None:
        raise FixError("a mixture is scored on prompts like these; expected prompts_are='sample'")


def mixture_of(estimators: Mapping[str, StreamingEstimator], published: bool = False) -> known.Mixture:
    """The mixture of generators, by their estimators; `published` as of `cross_fitted`. Raises as that does."""
    common = shared_rows([estimator.common for estimator in estimators.values()])
    statistics = [estimator.statistic for estimator in estimators.values()]
    first = next(iter(estimators.values()))
    with few_threads(first.columns):
        return cross_fitted(first.metric, statistics, list(estimators), common, published=published)


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
    fit = Published.from_moments if RoutePolicy.named(policy).is_published else Regressions.from_moments
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


def _largest(routed: Mapping[int, Routed], most: int) -> int:
    """The largest hash among the `most` smallest of all batches: a uniform sample. 0 without a batch."""
    hashes = np.sort(np.concatenate([part.batches.hashes for part in routed.values()] or [np.zeros(0, np.uint64)]))
    return int(hashes[:most].max(initial=0))


def _routed(estimators: Mapping[int, StreamingEstimator]) -> dict[int, Routed]:
    """The `routed` part of each estimator, by ordinal, ascending. Raises FixError where an estimator has none."""
    by_ordinal = {ordinal: estimator.routed for ordinal, estimator in sorted(estimators.items())}
    if missing := [ordinal for ordinal, routed in by_ordinal.items() if routed is None]:
        raise FixError(f"prompts are not routed: no contexts of generators {', '.join(map(str, missing))}")
    return {ordinal: routed for ordinal, routed in by_ordinal.items() if routed is not None}
