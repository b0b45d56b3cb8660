"""What tells a snapshot of one metric from that of another stays as it was, and holds for any metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from optimist.metrics.base import Score
from optimist.metrics.bound import Bound, InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier, Nystrom
from optimist.metrics.fid.declared import FrechetTheoremBound
from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.inception import InceptionScore
from optimist.metrics.pairs.declared import ConditionalVendi, InformationVendi
from optimist.metrics.vendi.declared import KernelTheoremBound
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.scoring.cached import _meaning


def fourier(dimension: int = 3, seed: int = 0) -> GaussianFourier:
    return GaussianFourier.draw(dimension, 5, 2.0, seed)


def fid() -> FrechetDistance:
    return FrechetDistance(Reference(np.zeros(3), np.diag([3.0, 2.0, 1.0])))


def landmarks() -> Nystrom:
    return Nystrom(np.arange(12.0).reshape(4, 3), 2.0)


CASES: dict[str, tuple[Callable[[], Score], Callable[..., Bound], str]] = {
    "fid": (fid, InfluenceBound, "4209c214b47336e5d46eb190d4d43c882def378b7d7ea3aea19e55aa91255003"),
    "fid, theorem": (fid, FrechetTheoremBound, "3713139b0b9efcb402c1f28e7bd028a183e40d1bf1ca97a8d7a531a52a886065"),
    "is": (
        lambda: InceptionScore(4),
        InfluenceBound,
        "4507b4a4d49ea8816b681daf2b8257fd957a82ed6836997f0aff8ec4d78c837a",
    ),
    "rke": (
        lambda: RenyiKernelEntropy(fourier()),
        InfluenceBound,
        "9aac8c2490e90a7d3bf93d3c6cc4dc18d3a93d34d229b746f6692d3c4d833bbc",
    ),
    "vendi": (
        lambda: VendiScore(Cosine(3)),
        InfluenceBound,
        "972de4f6c2dd9733b28afe0d9ba0502a54b037403e7e3f59ffedd07217b20bb1",
    ),
    "vendi, landmarks": (
        lambda: VendiScore(landmarks()),
        InfluenceBound,
        "9d29c342e2160eff966b44eab75803148a4f0d080921e2e93c9a9ba7961a31e2",
    ),
    "vendi, halves": (
        lambda: VendiScore(fourier(), order=3.0),
        InfluenceBound,
        "434858e273bdb1c31caaf6f413c2a4cb02a2275fc9e730a990f4a2f17c22be80",
    ),
    "vendi, theorem": (
        lambda: VendiScore(fourier(), order=3.0),
        KernelTheoremBound,
        "674e03c872c2ca303ea453195fa6476a0b26d6494d523b5ebacbd9559a636d79",
    ),
    "conditional": (
        lambda: ConditionalVendi(fourier(), fourier(2, 1)),
        InfluenceBound,
        "3a5f04566f149183a0e83519fe804406692c7ec9f03397218cc9616cb2d759bd",
    ),
    "information": (
        lambda: InformationVendi(fourier(), fourier(2, 1)),
        InfluenceBound,
        "abb89d03919065dee541520a449613c61f2c801d2dcf707452ce0837bbc195d5",
    ),
    "information, halves": (
        lambda: InformationVendi(fourier(), fourier(2, 1), 3.0),
        InfluenceBound,
        "3a61b85f0406809dbbfacad36a216e8b8e3a815995b6c436a3d925e21e28eec2",
    ),
}
"""Metric and bound, with the digest that snapshots in stored data hold."""


@pytest.mark.parametrize("name", CASES)
def test_stored_snapshots_are_of_the_same_metrics(name: str):
    make_metric, make_bound, digest = CASES[name]
    assert bytes(_meaning(make_bound(make_metric())).tolist()).hex() == digest


def test_metrics_and_layouts_are_told_apart():
    assert len({digest for _, _, digest in CASES.values()}) == len(CASES)
    shifted = InfluenceBound(RenyiKernelEntropy(fourier(seed=1)))
    assert not torch.equal(_meaning(shifted), _meaning(InfluenceBound(RenyiKernelEntropy(fourier()))))
