"""The mixture of generators, of their tracks."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.estimation.common_rows import shared_rows
from optimist.estimation.question import Question
from optimist.estimation.track import Track
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.numerics.mixtures import mixture as known
from optimist_client.errors import FixError


def check_blends(question: Question) -> None:
    """Raise FixError unless blends of generators have a score."""
    metric = question.metric
    if "mixture" not in metric.offers:
        with_these = ", with these settings," if "mixture" in type(metric).offers else ""
        raise FixError(f"the metric {metric.name!r}{with_these} has no score of blends")
    if question.prompts is not None:
        raise FixError("a blend is scored on prompts like these; expected prompts_are='sample'")


def mixture_of(tracks: Mapping[str, Track], published: bool = False) -> known.Mixture:
    """The mixture of generators, by their tracks; `published` as of `cross_fitted`. Raises as that does."""
    common = shared_rows([track.common for track in tracks.values()])
    statistics = [track.statistic for track in tracks.values()]
    score = next(iter(tracks.values())).metric
    return cross_fitted(score, statistics, list(tracks), common, published=published)
