"""The mixture of generators whose tracks are in memory: the scorer's and `Evaluation`'s, by the same function."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from optimist.evaluation.track import Track
from optimist.numerics.mixtures.cross_fitted import cross_fitted
from optimist.numerics.mixtures.mixture import Mixture
from optimist.numerics.mixtures.objective import Common


def mixture_of(tracks: Mapping[str, Track], *, published: bool = False) -> Mixture:
    """The mixture of generators by one metric, a function of their tracks alone. Changes none of these.

    published: as of `cross_fitted`, which says what is raised.
    """
    score = next(iter(tracks.values())).score
    statistics = [track.statistic for track in tracks.values()]
    return cross_fitted(score, statistics, list(tracks), common_to_all(tracks), published=published)


def common_to_all(tracks: Mapping[str, Track]) -> list[Common]:
    """The rows of the indices that all of them were told, in the order of the indices; [] without any."""
    found = [track.common_rows() for track in tracks.values()]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return []
    shared = _shared([indices for indices, _ in known])
    if not len(shared):
        return []
    places = [torch.isin(indices, shared) for indices, _ in known]
    return [
        {name: array[place] for name, array in rows.items()} for (_, rows), place in zip(known, places, strict=True)
    ]


def _shared(indices: list[Tensor]) -> Tensor:
    """The indices (m,) that all of these have; each is sorted, and has none twice."""
    found, counts = torch.cat(indices).unique(return_counts=True)
    return found[counts == len(indices)]
