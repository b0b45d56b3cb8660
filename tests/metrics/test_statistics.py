"""What holds for every statistic: stored in between it goes on bit for bit, and what is no batch changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.anomalies.batches import LARGEST
from optimist.estimates.estimate import Estimate
from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.implementations import make_bound
from optimist.metrics.inception import InceptionScore
from optimist.metrics.mean import MeanScore
from optimist.metrics.pairs import ConditionalVendi, InformationVendi, JointStatistic
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.records import codec
from optimist_client.metrics import KEN, Coverage, Density, Gaussian, Mean, Precision
from tests.support.real_rows import kid_of, mmd_of, score_of
from tests.support.streams import assert_bit_identical, rows_of, stored_and_read

MAPS = GaussianFourier.draw(3, 6, 2.0, 1), GaussianFourier.draw(2, 6, 2.0, 2)
REAL = rows_of(0, 12, 3)
SCORES: dict[str, Callable[[], Any]] = {
    "fid": lambda: FrechetDistance(FrechetReference(np.zeros(3), np.eye(3))),
    "is": lambda: InceptionScore(3),
    "rke": lambda: RenyiKernelEntropy(MAPS[0]),
    "rke of a list": lambda: RenyiKernelEntropy(MAPS[0], prompts=8),
    "vendi 1": lambda: VendiScore(MAPS[0]),
    "vendi 1.5": lambda: VendiScore(MAPS[0], 1.5),
    "vendi 3": lambda: VendiScore(MAPS[0], 3.0),
    "vendi cosine": lambda: VendiScore(Cosine(3)),
    "conditional": lambda: ConditionalVendi(*MAPS),
    "information 3": lambda: InformationVendi(*MAPS, 3.0),
    "information of a list": lambda: InformationVendi(*MAPS, 2.0, prompts=8),
    "kid": lambda: kid_of(REAL, 20),
    "mmd": lambda: mmd_of(REAL),
    "ken": lambda: score_of(KEN(kernel=Gaussian(1.0, features=6)), REAL),
    "precision": lambda: score_of(Precision(), REAL),
    "density": lambda: score_of(Density(), REAL),
    "coverage": lambda: score_of(Coverage(at=20), REAL),
    "mean": lambda: MeanScore(Mean(range=(0.0, 1.0))),
}
BOUNDS = [
    *((kind, "influence") for kind in SCORES),
    *(("is", bound) for bound in ("theorem", "naive")),
    *(("mean", bound) for bound in ("empirical-bernstein", "betting")),
]
Arrays = dict[str, Tensor]


def arrays_of(kind: str, seed: int, count: int) -> Arrays:
    rng = np.random.default_rng(seed)
    if kind == "mean":
        return {"values": torch.from_numpy(rng.random((count, 1)))}
    if kind == "is":
        return {"probabilities": torch.from_numpy(rng.dirichlet(np.full(3, 0.3), count))}
    arrays = {"features": rows_of(seed, count, 3)}
    if "conditional" in kind or "information" in kind:
        arrays["prompts"] = rows_of(seed + 1, count, 2)
    if "list" in kind:
        # −1 is a prompt that is not known.
        arrays["listed"] = torch.from_numpy(rng.integers(-1, 8, count))
    return arrays


def tell(statistic: Any, arrays: Arrays) -> None:
    listed = {"listed": arrays["listed"]} if "listed" in arrays else {}
    statistic.update(*(rows for name, rows in arrays.items() if name != "listed"), **listed)


def split(arrays: Arrays, sizes: Sequence[int]) -> list[Arrays]:
    parts = zip(*(rows.split([*sizes]) for rows in arrays.values()), strict=True)
    return [dict(zip(arrays, part, strict=True)) for part in parts]


@pytest.mark.parametrize("sizes", [(7, 1, 13, 5, 2, 30, 5), (1100, 5, 13)])
@pytest.mark.parametrize(("kind", "bound"), BOUNDS)
def test_what_is_stored_goes_on_bit_for_bit(kind: str, bound: str, sizes: tuple[int, ...]):
    """Stored while rows are held and past it, at each place in a block, and asked for estimates in between."""
    made = make_bound(bound, SCORES[kind]())
    straight, going = made.statistic(), made.statistic()
    for batch in split(arrays_of(kind, 0, sum(sizes)), sizes):
        tell(straight, batch)
        tell(going, batch)
        going = stored_and_read(going, made.statistic())
        assert_bit_identical(going, straight)
        made.estimate(going)
    estimate = made.estimate(straight)
    assert made.estimate(going) == estimate
    assert codec.decode(Estimate, codec.encode(estimate)) == estimate


@pytest.mark.parametrize(("kind", "bound"), [*BOUNDS, *(("fid", bound) for bound in ("theorem", "naive", "authors"))])
def test_one_sample_has_a_value_and_a_word_and_two_have_an_error(kind: str, bound: str):
    made = make_bound(bound, SCORES[kind]())
    statistic, arrays = made.statistic(), split(arrays_of(kind, 0, 2), (1, 1))
    with pytest.raises(ValueError, match="at least 1 sample"):
        made.estimate(statistic)
    tell(statistic, arrays[0])
    one = made.estimate(statistic)
    assert (one.value, one.standard_error) == (one.plug_in, None)
    is_open = bound in ("influence", "authors") or (kind, bound) == ("is", "theorem")
    assert any("at least 2 samples" in warning for warning in one.warnings) == is_open
    assert ((one.lower, one.upper) == (-math.inf, math.inf)) == is_open
    assert math.isinf(one.optimistic) == is_open
    tell(statistic, arrays[1])
    has_error = bound in ("influence", "empirical-bernstein", "betting")
    assert ((made.estimate(statistic).standard_error or 0.0) > 1e-3) == has_error


@pytest.mark.parametrize("kind", SCORES)
def test_scores_need_one_sample_and_analyses_two(kind: str):
    metric = SCORES[kind]()
    statistic = metric.statistic()
    with pytest.raises(ValueError, match="at least 1 sample"):
        metric.plug_in(statistic)
    tell(statistic, arrays_of(kind, 0, 1))
    assert math.isfinite(metric.plug_in(statistic))
    with pytest.raises(ValueError, match="at least 2 samples"):
        metric.analyse(statistic)


def pairs_of(features: int, **layout: Any) -> Callable[[], JointStatistic]:
    maps = GaussianFourier.draw(3, features, 1.5, 1), GaussianFourier.draw(2, features, 1.5, 2)
    return partial(JointStatistic, *maps, **layout)


sizes = st.lists(st.integers(1, 13), min_size=1, max_size=6)
FEW = st.integers(0, 40)
LAYOUTS: dict[str, st.SearchStrategy[Callable[[], Any]]] = {
    "fid": st.builds(
        partial,
        *(st.just(GaussianStatistic), st.just(3)),
        keep=st.integers(0, 70),
        first=FEW,
        last=FEW,
        scatter=st.booleans(),
    ),
    "vendi": st.builds(
        partial,
        st.just(KernelStatistic),
        st.integers(1, 20).map(lambda features: GaussianFourier.draw(3, features, 1.0)),
        last=FEW,
        halves=st.booleans(),
    ),
    "conditional": st.builds(pairs_of, st.integers(1, 12), last=FEW, halves=st.booleans(), marginal=st.booleans()),
}


@pytest.mark.parametrize("kind", LAYOUTS)
@given(seed=st.integers(0, 9), before=sizes, after=sizes, data=st.data())
def test_every_layout_goes_on_bit_for_bit(kind: str, seed: int, before: list[int], after: list[int], data: Any):
    """Read in between or not."""
    make = data.draw(LAYOUTS[kind], label="layout")
    batches = split(arrays_of(kind, seed, sum(before + after)), before + after)
    straight = make()
    for batch in batches[: len(before)]:
        tell(straight, batch)
    # The tensors themselves, which are nobody's state afterwards.
    restored = make().restore(straight.state())
    assert_bit_identical(straight, restored)
    for batch in batches[len(before) :]:
        for part in (straight, getattr(straight, "joint", None)):
            _ = [getattr(part, name, None) for name in ("scatter", "moment", "rows", "first_rows", "last_rows")]
        tell(straight, batch)
        tell(restored, batch)
    assert_bit_identical(straight, restored)


NAN, INF = math.nan, math.inf
WRONG_ROWS = [
    *(torch.zeros(0, 3), torch.zeros(3), torch.zeros(2, 4)),
    *(torch.full((1, 3), number) for number in (NAN, INF, 2 * LARGEST)),
]
WRONG_PROBABILITIES = [
    *(torch.zeros(0, 3), torch.full((3,), 1 / 3), torch.full((2, 4), 0.25), torch.zeros(1, 3)),
    *(torch.tensor([[0.5, 0.5, 0.0], other]) for other in ([0.5, NAN, 0.5], [0.5, 0.4, 0.0])),
    *(torch.tensor([row]) for row in ([0.0, INF, 0.0], [INF, -INF, 1.0])),
    *(torch.tensor([row]) for row in ([0.6, 0.5, -0.1], [2.0, -1.0, 0.5], [0.5, 0.5011, 0.0])),
]
WRONG_VALUES = [torch.tensor([[0.1], [NAN]]), torch.tensor([[INF]]), torch.ones(2, 2), torch.ones(0, 1)]
WRONG_PAIRS = [
    (torch.zeros(0, 3), torch.zeros(0, 2)),
    (torch.zeros(4, 3), torch.zeros(3, 2)),
    (torch.zeros(2, 3), torch.zeros(2)),
    (torch.zeros(2, 2), torch.zeros(2, 3)),
    (torch.zeros(1, 3), torch.full((1, 2), NAN)),
    (torch.full((1, 3), 2 * LARGEST), torch.zeros(1, 2)),
]


def wrong_for(kind: str, bound: str) -> tuple[list[Arrays], str]:
    """Batches that are none, and what is said of each."""
    if kind == "is":
        return [{"probabilities": rows} for rows in WRONG_PROBABILITIES], r"shape|sum to 1"
    if kind == "mean":
        beyond = [torch.tensor([[0.2], [1.5]])] if bound == "betting" else []
        return [{"values": rows} for rows in WRONG_VALUES + beyond], r"shape|finite|range|expected"
    if "conditional" in kind or "information" in kind:
        return [{"features": rows, "prompts": prompts} for rows, prompts in WRONG_PAIRS], r"expected|finite"
    wrong = [{"features": rows} for rows in WRONG_ROWS]
    if "list" in kind:
        prompts = [torch.tensor([0, 8]), torch.tensor([0, -2]), torch.tensor([0]), torch.zeros(2)]
        wrong += [{"features": torch.zeros(2, 3), "listed": each} for each in prompts]
    if kind == "kid":
        wrong.append({"features": torch.full((2, 3), 1e21)})
    return wrong, r"of shape|must be finite|scale them|prompt_indices: expected"


@pytest.mark.parametrize(("kind", "bound"), BOUNDS)
def test_what_is_no_batch_is_refused_and_changes_nothing(kind: str, bound: str):
    made, told = make_bound(bound, SCORES[kind]()), split(arrays_of(kind, 0, 10), [5, 5])
    statistic, expected = made.statistic(), made.statistic()
    wrong, message = wrong_for(kind, bound)
    for batch in told:
        tell(expected, batch)
        tell(statistic, batch)
        for other in wrong:
            with pytest.raises(ValueError, match=message):
                tell(statistic, other)
        assert_bit_identical(statistic, expected)
