"""Snapshots of a generator: long logs, and what is refused. test_paired_snapshots has the bits of each kind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from optimist.metrics.base import Score
from optimist.metrics.bound import Bound, InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier, Nystrom
from optimist.metrics.fid.declared import FrechetTheoremBound
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.inception import InceptionScore
from optimist.metrics.pairs import ConditionalVendi, InformationVendi
from optimist.metrics.vendi.declared import KernelTheoremBound
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.records import LogEntry
from optimist.scoring.cached import DIGEST_BYTES, FORMAT, CachedStatistic, _meaning
from optimist_client import tensors
from tests.support.logs import KINDS, applied, bits_of, entry, log_of


@pytest.mark.parametrize(
    "name",
    [
        "fid past rank",
        "is",
        pytest.param("vendi cosine", marks=pytest.mark.long),
        pytest.param("vendi truncated", marks=pytest.mark.long),
    ],
)
def test_long_logs_too(name: str):
    """Past the point at which the last rows are trimmed, and begin elsewhere in memory than a snapshot's."""
    bound, log = KINDS[name].make(), log_of(KINDS[name], 420)
    whole = CachedStatistic(bound, 0.3)
    applied(whole, log[:300], 50)
    thawed = CachedStatistic.thaw(whole.freeze(), 300, bound, 0.0)
    running = CachedStatistic.thaw(whole.freeze(), 300, bound, 0.0)
    for at in range(300, 420, 5):
        assert applied(thawed, log[at : at + 5], 5) == applied(running, log[at : at + 5], 5)
        assert bits_of(thawed.estimator) == bits_of(running.estimator)
        thawed = CachedStatistic.thaw(thawed.freeze(), thawed.seq, bound, 0.0)


def sealed(state: dict[str, Tensor]) -> bytes:
    body = save(state)
    return hashlib.sha256(body).digest() + body


def test_a_snapshot_of_something_else_is_refused():
    bounds = {name: kind.make() for name, kind in KINDS.items()}
    frozen = {name: CachedStatistic(bound, 0.0) for name, bound in bounds.items()}
    for name, cached in frozen.items():
        applied(cached, log_of(KINDS[name], 5), 5)
    # Different questions to one and the same statistic.
    alike = {"vendi 1", "vendi 3", "vendi truncated"}
    for name, cached in frozen.items():
        body = cached.freeze()
        for other, bound in bounds.items():
            if {name, other} <= alike or other == name:
                assert bits_of(CachedStatistic.thaw(body, 5, bound, 0.0).estimator) == bits_of(cached.estimator)
            else:
                with pytest.raises(ValueError, match="another metric, or of other kernels"):
                    CachedStatistic.thaw(body, 5, bound, 0.0)
    kind, body = KINDS["vendi 1"], frozen["vendi 1"].freeze()
    for change in ({"sigma": 2.1}, {"seed": 1}, {"features": 16}):
        other = replace(kind, settings={"kernel": {**kind.settings["kernel"], **change}})
        with pytest.raises(ValueError, match="of other kernels"):
            CachedStatistic.thaw(body, 5, other.make(), 0.0)


def test_a_snapshot_of_another_format_or_without_its_parts_is_refused():
    kind = KINDS["rke"]
    cached = CachedStatistic(kind.make(), 0.0)
    applied(cached, log_of(kind, 5), 5)
    state = load(cached.freeze()[DIGEST_BYTES:])
    assert CachedStatistic.thaw(sealed(state), 5, kind.make(), 0.0).freeze() == cached.freeze()
    with pytest.raises(ValueError, match=f"expected a snapshot of format {FORMAT}, found {FORMAT + 1}"):
        CachedStatistic.thaw(sealed({**state, "format": torch.tensor(FORMAT + 1)}), 5, kind.make(), 0.0)
    for missing in ("format", "meaning", "samples", "statistic/layout", "statistic/rows", "reservoir/ids"):
        with pytest.raises(ValueError, match="cannot be read"):
            CachedStatistic.thaw(sealed({k: v for k, v in state.items() if k != missing}), 5, kind.make(), 0.0)


def test_no_damaged_snapshot_becomes_a_statistic():
    kind = KINDS["conditional-vendi"]
    bound, cached = kind.make(), CachedStatistic(kind.make(), 0.0)
    applied(cached, log_of(kind, 12), 12)
    body = cached.freeze()
    rng = np.random.default_rng(1)
    for at in rng.integers(len(body), size=60):
        flipped = bytearray(body)
        flipped[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ValueError, match="damaged"):
            CachedStatistic.thaw(bytes(flipped), 12, bound, 0.0)
    for length in (0, 1, DIGEST_BYTES, DIGEST_BYTES + 8, len(body) // 2, len(body) - 1):
        with pytest.raises(ValueError, match="damaged"):
            CachedStatistic.thaw(body[:length], 12, bound, 0.0)


BROKEN = {
    "another digest": lambda good: replace(good, digest="0" * 64),
    "another body": lambda good: replace(good, body=good.body[:-1] + bytes([good.body[-1] ^ 1])),
    "no safetensors": lambda good: replace(good, body=b"nonsense"),
    "empty": lambda good: replace(good, body=b""),
    "another number of rows": lambda good: replace(good, rows=good.rows + 1),
    "other tensors": lambda good: entry(good.seq, {"colours": np.zeros((good.rows, 7))}),
    "other columns": lambda good: entry(good.seq, {"features": np.ones((good.rows, 6))}),
    "no number": lambda good: entry(good.seq, {"features": np.full((good.rows, 7), np.nan)}),
}


@pytest.mark.parametrize("name", ["fid past rank", "vendi 1"])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_an_entry_that_cannot_be_read_leaves_all_else_as_if_it_were_not_there(name: str, broken):
    kind = KINDS[name]
    log = log_of(kind, 20)
    cached, without = CachedStatistic(kind.make(), 0.0), CachedStatistic(kind.make(), 0.0)
    step = cached.apply([*log[:9], broken(log[9]), *log[10:]])
    assert [seq for seq, _ in step.unreadable] == [10]
    without.apply(log[:9])
    without.apply(log[10:])
    assert bits_of(cached.estimator.statistic) == bits_of(without.estimator.statistic)
    assert step.scored is not None
    assert step.scored.estimate.samples == without.estimator.samples


def test_a_batch_left_out_counts_where_estimates_are_due():
    """By the counts alone, as the store marks them: nobody waits for an estimate that is never made."""
    log = log_of(KINDS["is"], 40)
    good, damaged = (CachedStatistic(KINDS["is"].make(), 0.3) for _ in range(2))
    due = [step.scored.seq for e in log if (step := good.apply([e])).scored]
    made = [step.scored.seq for e in log if (step := damaged.apply([broken_third(e)])).scored]
    assert made == due
    assert damaged.estimator.samples == good.estimator.samples > damaged.estimator.statistic.samples


def broken_third(good: LogEntry) -> LogEntry:
    return replace(good, digest="") if good.seq % 3 == 0 else good


def test_ids_with_zero_bytes_inside_keep_no_accepted_batch_out():
    kind = KINDS["vendi 1"]
    cached = CachedStatistic(kind.make(), 0.0)
    arrays = {**kind.arrays(2, seed=1), tensors.IDS: np.frombuffer(b"a\0bc\0\0", np.uint8).reshape(2, 3)}
    step = cached.apply([entry(1, arrays)])
    assert step.unreadable == []
    reservoir = cached.estimator.reservoir
    assert reservoir is not None
    assert (cached.estimator.statistic.samples, reservoir.ids) == (2, ("a b", "c"))


def fourier(dimension: int = 3, seed: int = 0) -> GaussianFourier:
    return GaussianFourier.draw(dimension, 5, 2.0, seed)


def fid() -> FrechetDistance:
    return FrechetDistance(FrechetReference(np.zeros(3), np.diag([3.0, 2.0, 1.0])))


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
