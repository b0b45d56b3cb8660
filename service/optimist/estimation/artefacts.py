"""Artefacts from the streams of all generators: the mixture."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.estimates import mixture as known
from optimist.estimation.paired import shared_rows
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.threads import few_threads
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
