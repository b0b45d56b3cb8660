"""Statistics of parts that are put together are those of all samples, from none to many more than a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.inception import InceptionScore
from optimist.metrics.mean import MeanScore
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist_client.errors import FixError
from optimist_client.metrics import Coverage, Density, Mean, Precision
from tests.support.real_rows import kid_of, score_of
from tests.support.streams import assert_bit_identical, rows_of, stored_and_read

REAL = rows_of(0, 40, 4)
SCORES: dict[str, Callable[[], Any]] = {
    "fid": lambda: FrechetDistance(FrechetReference(np.zeros(4), np.diag([2.0, 1.0, 1.0, 0.5]))),
    "is": lambda: InceptionScore(4),
    "rke": lambda: RenyiKernelEntropy(GaussianFourier.draw(4, 6, 2.0, 1)),
    "vendi": lambda: VendiScore(Cosine(4)),
    "vendi of order 3": lambda: VendiScore(Cosine(4), 3.0),
    "precision": lambda: score_of(Precision(), REAL),
    "density": lambda: score_of(Density(), REAL),
    "coverage": lambda: score_of(Coverage(at=20), REAL),
}
SIZES = [(1, 1), (3, 2), (2, 30), (30, 2), (0, 7), (7, 0), (9, 40, 3), (700, 1, 800, 33), (5, 0, 0, 6)]


def samples_of(kind: str, count: int) -> Tensor:
    if kind == "is":
        return torch.from_numpy(np.random.default_rng(1).dirichlet(np.full(4, 0.3), count))
    return rows_of(1, count, 4) + 0.2


def merged_of(score: Any, parts: list[Tensor]) -> Any:
    """The statistic of parts, each of which is read by a statistic of its own."""
    first, *others = (score.alone() for _ in parts)
    for statistic, part in zip((first, *others), parts, strict=True):
        if len(part):
            statistic.update(part)
    for other in others:
        first.merge(other)
    return first


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", SCORES)
def test_parts_have_the_estimate_of_all_samples(kind: str, sizes: tuple[int, ...]):
    score, rows = SCORES[kind](), samples_of(kind, sum(sizes))
    whole = score.alone()
    whole.update(rows)
    merged = merged_of(score, list(rows.split(sizes)))
    for other in (merged, stored_and_read(merged, score.alone())):
        found, expected = (InfluenceBound(score).estimate(each) for each in (other, whole))
        assert found.samples == expected.samples == sum(sizes)
        for name in ("value", "plug_in", "lower", "upper", "standard_error"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-7, abs=1e-9), name
        assert found.warnings == expected.warnings
        for each in (other, whole):
            each.update(rows[:5])  # and goes on as such
        assert InfluenceBound(score).estimate(other).value == pytest.approx(
            InfluenceBound(score).estimate(whole).value, rel=1e-9
        )
        whole = score.alone()
        whole.update(rows)


def test_rows_that_are_all_held_are_merged_to_the_last_bit():
    score = SCORES["fid"]()
    rows = samples_of("fid", 4)
    whole = score.alone()
    for part in rows.split(2):
        whole.update(part)
    assert_bit_identical(merged_of(score, list(rows.split(2))), whole)


@pytest.mark.parametrize("sizes", [(5, 6), (25, 2), (20, 20), (3, 50), (45, 1, 44)])
def test_kid_has_the_pairs_of_blocks(sizes: tuple[int, ...]):
    """The open block of a part goes on with that of the next one, and every whole block counts."""
    score, rows = kid_of(REAL, 20), samples_of("kid", sum(sizes))
    parts = list(rows.split(sizes))
    merged, one_after_the_other = merged_of(score, parts), score.statistic()
    closed = [part[: len(part) // 20 * 20] for part in parts]
    opened = [part[len(part) // 20 * 20 :] for part in parts]
    # Whole blocks of later parts come before what is open of all of them.
    for part in (*closed, *opened):
        if len(part):
            one_after_the_other.update(part)
    found, expected = (InfluenceBound(score).estimate(each) for each in (merged, one_after_the_other))
    assert (found.samples, found.value) == (len(rows), pytest.approx(expected.value, rel=1e-9))
    assert found.plug_in == pytest.approx(expected.plug_in, rel=1e-9)
    torch.testing.assert_close(merged.with_some, one_after_the_other.with_some)


def test_what_cannot_be_merged_says_so():
    assert not MeanScore(Mean()).statistic().can_merge
    score = SCORES["fid"]()
    with pytest.raises(FixError, match="halves"):
        score.statistic().merge(score.statistic())
    listed = RenyiKernelEntropy(GaussianFourier.draw(4, 6, 2.0, 1), prompts=8)
    with pytest.raises(FixError, match="list of prompts"):
        listed.alone().merge(listed.alone())
