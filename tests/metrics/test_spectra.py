"""Traces that follow a stream give what all eigenvalues would, in every way and across their borders."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import Bound
from optimist.metrics.fid import score as frechet
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.spectra import following, low_rank
from optimist.metrics.spectra.following import TraceFollower
from optimist.metrics.spectra.low_rank import LowRankTrace, log_sum, trace_of
from optimist.metrics.spectra.symmetric import SymmetricSum, increments, largest_eigenvalue
from optimist.metrics.vendi import score as vendi
from optimist.metrics.vendi.kernels import make_feature_map
from optimist.metrics.vendi.score import VendiScore
from optimist_client.metrics import FID

WIDTH = 40
POINTS = low_rank.POINTS


@pytest.fixture(autouse=True)
def small_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    """All routes within 150 samples of width 40, and sums of logarithms that are found sooner."""
    torch.set_num_threads(1)
    monkeypatch.setattr(following, "GRAM_ROWS", 15)
    monkeypatch.setattr(following, "CYCLE", 12)
    monkeypatch.setattr(low_rank, "COUNTS", (16, 27, 48))
    monkeypatch.setattr(low_rank, "POINTS", POINTS // 2)
    monkeypatch.setattr(low_rank, "PANEL", 4)
    for module in (frechet, vendi):
        monkeypatch.setattr(module, "SMALLEST_WIDTH", 8)


def rows_of(count: int, width: int = WIDTH, seed: int = 0, decay: float = 0.5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, width, dtype=torch.float64, generator=generator)
    return drawn * torch.arange(1, width + 1, dtype=torch.float64) ** -decay


def reference_of(width: int = WIDTH, rank: int | None = None) -> FrechetReference:
    rows = rows_of(width + 30 if rank is None else rank + 1, width, seed=7).roll(2, 1)
    centred = rows - rows.mean(0)
    return FrechetReference(rows.mean(0), centred.T @ centred / len(rows))


@pytest.mark.parametrize(
    ("order", "decay", "batch"),
    [*((order, 0.5, 5) for order in (0.5, 1.0, 1.5, 2.0, 3.0)), (1.0, 0.0, 23), (0.5, 1.0, 1), (1.0, 1.0, 1)],
)
def test_a_follower_has_the_trace_of_all_eigenvalues_on_every_route(order: float, decay: float, batch: int):
    rows = rows_of(150, decay=decay)
    if order == 1.0:
        rows /= rows.norm(dim=-1, keepdim=True)
    follower = TraceFollower(order, WIDTH)
    for end in range(batch, len(rows) + 1, batch):
        part = rows[:end]
        follower.append(rows[end - batch : end], lambda part=part: part.T @ part)
        spectrum = torch.linalg.eigvalsh(part @ part.T if end < WIDTH else part.T @ part).clamp_min(0.0)
        assert follower.value is not None
        # n log n − Σ λ log λ is what Vendi makes a score of: its logarithm is off by as much over n.
        size = end if order == 1.0 else trace_of(spectrum, order)
        assert abs(follower.value - trace_of(spectrum, order)) <= 2e-7 * size, end


def test_no_eigenvalue_passes_the_fitted_range_unnoticed():
    low = LowRankTrace(torch.linspace(0.5, 1.0, 20, dtype=torch.float64), 0.5, rows=100, limit=50, tolerance=1e-8)
    direction = torch.zeros(1, 20, dtype=torch.float64)
    direction[0, -1] = 0.5
    grown = 1.0
    while low.append(direction):
        grown += 0.25
        spectrum = torch.linspace(0.5, 1.0, 20, dtype=torch.float64)
        spectrum[-1] = grown
        assert low.value == pytest.approx(trace_of(spectrum, 0.5), rel=1e-7)
    assert 1.5 <= grown <= 2.25


@pytest.mark.parametrize(("order", "start"), [(0.5, 1e-4), (1.0, 0.0), (1.0, 1e-10), (1.5, 1e-4), (3.0, 1e-10)])
def test_a_sum_of_logarithms_is_as_close_as_it_says(order: float, start: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(low_rank, "POINTS", POINTS)
    found = log_sum(order, start, 3e-9)
    assert found is not None
    x = np.random.default_rng(0).uniform(max(start, 1e-12) ** 0.125, 1.0, 3000) ** 8
    values = x * np.log(x) if order == 1.0 else x**order
    sums = np.log1p(x[:, None] / found.nodes) @ found.weights + found.slope * x
    error = sums - values
    assert np.ptp(error) <= 2.0 * 3e-9


def test_orders_that_no_sum_is_close_to_are_refused():
    with pytest.raises(ValueError, match="no sum of logarithms"):
        LowRankTrace(torch.tensor([1.0, 0.0], dtype=torch.float64), 0.1, rows=10, limit=10, tolerance=1e-8)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.floats(0.0, 1e4))
def test_increments_add_up_to_the_scatter(sizes: list[int], offset: float):
    rows = rows_of(sum(sizes), 6, decay=0.0) + offset
    found, count = [], 0
    for size in sizes:
        mean = rows[:count].mean(0) if count else torch.zeros(6, dtype=torch.float64)
        found.append(increments(count, mean, rows[count : count + size]))
        count += size
    made = torch.cat(found)
    centred = rows - rows.mean(0)
    assert len(made) == count - 1
    assert torch.allclose(made.T @ made, centred.T @ centred, rtol=1e-9, atol=1e-9)


def test_identical_rows_add_nothing():
    same = torch.full((7, 3), 0.1, dtype=torch.float64)
    assert not increments(0, torch.zeros(3, dtype=torch.float64), same).any()
    assert not increments(7, same[0], same).any()


@pytest.mark.parametrize("kind", ["positive", "negative", "repeated", "zero"])
def test_the_largest_eigenvalue_of_a_matrix_that_changes(kind: str):
    """Directions overtake one another on the way."""
    rows = rows_of(300, 90, decay=0.2)
    matrix = SymmetricSum(90)
    if kind == "negative":
        matrix = SymmetricSum.pack(-500.0 * torch.eye(90, dtype=torch.float64))
    if kind == "repeated":
        rows[:] = torch.eye(90, dtype=torch.float64).repeat(4, 1)[:300]
    start = None
    for at in range(0, 300, 3):
        added = 0.0 * rows[at : at + 3] if kind == "zero" else rows[at : at + 3]
        matrix.add(added)
        value, start = largest_eigenvalue(matrix, start)
        assert value == pytest.approx(float(torch.linalg.eigvalsh(matrix.dense())[-1]), rel=1e-9, abs=1e-12)


def streams(width: int = WIDTH) -> dict[str, list[Tensor]]:
    plain = rows_of(150, width, seed=3) + 0.2
    grown = torch.cat([plain[:70], 30.0 * plain[70:]])
    return {
        "batches of 5": list(plain.split(5)),
        "sizes": list(plain.split([1, 1, 30, 2, 60, 6, 50])),
        "scale": list(grown.split(5)),
        "tiny": list((1e-9 * plain).split(5)),
        "offset": list((plain + 1e3).split(5)),
        "repeats": list(plain[:12].repeat(12, 1).split(5)),
        "the same": list(plain[:1].repeat(60, 1).split(5)),
        "a few directions": list((plain[:, :6] @ rows_of(6, width, seed=5)).split(5)),
    }


@pytest.mark.parametrize(
    ("rank", "name", "scatter"),
    # Every stream, with either statistic; those that cross borders with a reference of every rank.
    [(None, name, turn % 2 == 0) for turn, name in enumerate(streams())]
    + [(rank, name, rank == 12) for rank in (12, 25) for name in ("batches of 5", "sizes", "scale")],
)
def test_a_followed_distance_is_the_one_that_is_not(rank: int | None, name: str, scatter: bool):
    reference = reference_of(rank=rank)
    followed, plain = FrechetDistance(reference), FrechetDistance(reference)
    statistic = followed.statistic(scatter)
    for batch in streams()[name]:
        statistic.update(batch)
        followed.follow(statistic)
        terms, expected = followed.terms(statistic), plain.terms(statistic)
        assert terms.gap == pytest.approx(expected.gap, rel=1e-9, abs=1e-12)
        assert terms.trace == pytest.approx(expected.trace, rel=1e-9, abs=1e-25)
        assert terms.root == pytest.approx(expected.root, rel=3e-7, abs=1e-12)


def test_statistics_that_are_followed_now_and_then_or_restored_are_followed():
    reference = reference_of()
    followed, plain = FrechetDistance(reference), FrechetDistance(reference)
    statistic, batches = followed.statistic(True), streams()["batches of 5"]
    for at in range(0, 20, 5):
        for batch in batches[at : at + 5]:
            statistic.update(batch)
        followed.follow(statistic)
        assert followed.plug_in(statistic) == pytest.approx(plain.plug_in(statistic), rel=1e-6)
    restored = followed.statistic(True).restore(statistic.state())
    for batch in batches[20:]:
        restored.update(batch)
        followed.follow(restored)
        assert followed.plug_in(restored) == pytest.approx(plain.plug_in(restored), rel=1e-6)


@pytest.mark.parametrize(
    ("order", "truncation", "name"),
    [(order, None, name) for order in (0.5, 1.0, 2.0, math.inf) for name in ("batches of 5", "repeats", "the same")]
    + [(order, None, "sizes") for order in (1.5, 3.0)]
    + [(order, 5, name) for order in (1.0, 3.0, math.inf) for name in ("batches of 5", "the same")],
)
def test_a_followed_kernel_score_is_the_one_that_is_not(order: float, truncation: int | None, name: str):
    kernel = {"name": "gaussian", "sigma": 2.0, "features": WIDTH // 2}
    followed, plain = (VendiScore(make_feature_map(kernel, 6), order, truncation) for _ in range(2))
    statistic = followed.statistic()
    for batch in streams(6)[name]:
        statistic.update(batch)
        followed.follow(statistic)
        assert followed.plug_in(statistic) == pytest.approx(plain.plug_in(statistic), abs=1e-6)


def test_what_is_not_up_to_date_is_not_used():
    reference = reference_of()
    followed, plain = FrechetDistance(reference), FrechetDistance(reference)
    statistic = followed.statistic(True)
    for batch in streams()["batches of 5"]:
        statistic.update(batch)
        if statistic.samples == 60:
            followed.follow(statistic)
    assert followed.plug_in(statistic) == plain.plug_in(statistic)
    assert followed.largest_eigenvalue(statistic) is None


BOUNDS = {"fid": ("theorem", "authors", "naive"), "vendi": ("theorem",), "rke": ("theorem",)}


def bound_of(metric: str, bound: str) -> Bound:
    settings = {"reference": reference_of()} if metric == "fid" else {"kernel": {"sigma": 3.0, "features": WIDTH // 2}}
    return Question(declared_of(metric, **settings), bound).bound_for({"features": WIDTH})


@pytest.mark.parametrize(("metric", "bound"), [(metric, bound) for metric, names in BOUNDS.items() for bound in names])
def test_estimators_where_every_batch_is_scored_estimate_what_a_statistic_alone_does(metric: str, bound: str):
    estimator, alone = StreamingEstimator(bound_of(metric, bound), 0.0), bound_of(metric, bound)
    statistic = alone.statistic()
    for at, batch in enumerate(rows_of(150).split(5)):
        estimator.add({"features": batch}, [f"{at}/{row}" for row in range(len(batch))])
        statistic.update(batch)
        found, expected = estimator.estimate(), alone.estimate(statistic)
        assert found.warnings == expected.warnings
        assert found.value == pytest.approx(expected.value, rel=1e-6, abs=1e-9)
        assert found.optimistic == pytest.approx(expected.optimistic, rel=1e-6, abs=1e-9)


def test_an_estimator_that_forgets_goes_on_as_one_restored_there():
    reference = reference_of()
    question = Question(FID(reference=reference), "authors")
    live = StreamingEstimator(question.bound_for({"features": WIDTH}), 0.0)
    batches = [({"features": batch}, [f"{row}" for row in range(5)]) for batch in rows_of(150).split(5)]
    for position in (4, 9, 20):
        while live.samples < 5 * position:
            live.add(*batches[live.samples // 5])
            live.estimate()
        live.forget()
        other = question.bound_for({"features": WIDTH})
        restored = StreamingEstimator(other, 0.0).restore(
            {name: tensor.clone() for name, tensor in live.state().items()}
        )
        for batch in batches[position : position + 5]:
            restored.add(*batch)
        for batch in batches[position : position + 5]:
            live.add(*batch)
            last = live.estimate()
        assert restored.estimate().value == last.value


@pytest.mark.parametrize("metric", ["fid", "vendi"])
def test_memory_of_what_is_followed_is_counted_and_given_back(metric: str):
    estimator = StreamingEstimator(bound_of(metric, "theorem"), 0.0)
    sizes = []
    for batch in rows_of(150).split(5):
        estimator.add({"features": batch}, [f"{row}" for row in range(5)])
        sizes.append(estimator.cached_bytes)
    # The Gram matrix, a basis beside rows, a basis and rows since: each more than nothing.
    assert min(sizes[1:]) > 0
    assert max(sizes) > WIDTH * WIDTH * 8
    estimator.forget()
    assert estimator.cached_bytes == 0
