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
from optimist.metrics.pairs import ConditionalVendi, InformationVendi
from optimist.metrics.vendi.declared import KernelTheoremBound
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.scoring.cached import _meaning


def fourier(dimension: int = 3, seed: int = 0) -> GaussianFourier:
    return GaussianFourier.draw(dimension, 5, 2.0, seed)


def fid() -> FrechetDistance:
    return FrechetDistance(Reference(np.zeros(3), np.diag([3.0, 2.0, 1.0])))


def landmarks() -> Nystrom:
    return Nystrom(np.arange(12.0).reshape(4, 3), 2.0)


CASES: dict[str, tuple[Callable[[], Score], Callable[..., Bound]]] = {
    "fid": (fid, InfluenceBound),
    "fid, theorem": (fid, FrechetTheoremBound),
    "is": (lambda: InceptionScore(4), InfluenceBound),
    "rke": (lambda: RenyiKernelEntropy(fourier()), InfluenceBound),
    "vendi": (lambda: VendiScore(Cosine(3)), InfluenceBound),
    "vendi, landmarks": (lambda: VendiScore(landmarks()), InfluenceBound),
    "vendi, halves": (lambda: VendiScore(fourier(), order=3.0), InfluenceBound),
    "vendi, theorem": (lambda: VendiScore(fourier(), order=3.0), KernelTheoremBound),
    "conditional": (lambda: ConditionalVendi(fourier(), fourier(2, 1)), InfluenceBound),
    "information": (lambda: InformationVendi(fourier(), fourier(2, 1)), InfluenceBound),
    "information, halves": (lambda: InformationVendi(fourier(), fourier(2, 1), 3.0), InfluenceBound),
}
DIGESTS = {
    "fid": "a7b9c12c5b1fe636b2b3ab34289715569d342fde5846063b540d4cfff4a7de7a",
    "fid, theorem": "ad7e66c1ae598e8c264a99dc012750c76f00f47239f0b4b99cd3ebb6d170d791",
    "is": "4763741a4fedc2c4cd6ac3397b5664ed59d8e465b8c6cd09eafd9f6b1632882e",
    "rke": "9137664fb090b80232ef66228d10b86bc26cac8912cc0f13bb6762a831365002",
    "vendi": "1fb730eb988c937514454aacc9b9ba47e800984f5e464e27a4443dfc237b93cb",
    "vendi, landmarks": "bb5205988bd830ee9c160b42c1f37e504530d5c1c8ef03366aa8f5ae2174201b",
    "vendi, halves": "cd9e3da105c94309aa4557efa4643827d88e7cbef5649a13fd9eb3d76279714e",
    "vendi, theorem": "7db259ecd27c24b6d0f653a17673ce21304490dbf4b1d8f1735e80614d09301e",
    "conditional": "9548b4d794e3a16b10578a33a3fca0452c8dc172bed7c777f039b3d6a0751aea",
    "information": "a01ab4dbe3f78af8a530a5a0c3454f7e9cd391ac783321a31cd7af5e772b6709",
    "information, halves": "4e983777e55551a31bf1f641ece9e1da86ca1386b861126b784aef82a27432d5",
}
"""What snapshots in stored data hold of these metrics and bounds."""


@pytest.mark.parametrize("name", CASES)
def test_stored_snapshots_are_of_the_same_metrics(name: str):
    make_metric, make_bound = CASES[name]
    assert bytes(_meaning(make_bound(make_metric())).tolist()).hex() == DIGESTS[name]


def test_metrics_and_layouts_are_told_apart():
    assert len({*DIGESTS.values()}) == len(CASES)
    shifted = InfluenceBound(RenyiKernelEntropy(fourier(seed=1)))
    assert not torch.equal(_meaning(shifted), _meaning(InfluenceBound(RenyiKernelEntropy(fourier()))))
