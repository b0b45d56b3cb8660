"""Half of a symmetric matrix, and statistics that take large batches in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.fid import statistic as gaussian_module
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.spectra import symmetric
from optimist.metrics.spectra.routines import add_square
from optimist.metrics.spectra.symmetric import MANY_ROWS, PANEL, SymmetricSum
from optimist.metrics.state import LastRows
from optimist.metrics.threads import few_threads
from optimist.metrics.vendi.statistic import KernelStatistic, SecondMoment, inner_products, mixed
from tests.support.streams import assert_bit_identical, rows_of, stored_and_read, taken


@pytest.mark.parametrize("width", [1, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL, 2 * PANEL + 77])
def test_half_a_matrix_says_all_of_it(width: int):
    parts = [rows_of(seed, count, width) for seed, count in enumerate((1, 7, 300))]
    rows = torch.cat(parts)
    whole = rows.T @ rows
    added = SymmetricSum(width)
    for part in parts:
        added.add(part)
    for found in (added, SymmetricSum.pack(whole), SymmetricSum(width, packed=added.packed.clone())):
        torch.testing.assert_close(found.dense(), whole, rtol=1e-12, atol=1e-10)
        torch.testing.assert_close(found.times(parts[1]), parts[1] @ whole, rtol=1e-11, atol=1e-9)
        assert found.square_sum() == pytest.approx(float(whole.square().sum()), rel=1e-12)
        assert found.inner(whole) == pytest.approx(float(whole.square().sum()), rel=1e-12)
        torch.testing.assert_close(found.diagonal(), whole.diagonal(), rtol=1e-12, atol=1e-10)
    # No more than the panels on the diagonal beyond a triangle.
    assert added.packed.numel() <= width * (width + PANEL) / 2 + PANEL**2
    with pytest.raises(ValueError, match="packed entries"):
        SymmetricSum(width, packed=added.packed[1:])


@pytest.mark.parametrize("width", [1, PANEL, 2 * PANEL + 77])
@pytest.mark.parametrize("step", [1, 2])
def test_many_rows_are_added_by_scipys_blas_on_one_thread(width: int, step: int, monkeypatch: pytest.MonkeyPatch):
    called: list[int] = []
    monkeypatch.setattr(symmetric, "add_square", lambda *given: (called.append(1), add_square(*given)))
    rows = rows_of(0, step * MANY_ROWS, width)[::step]
    added = SymmetricSum(width)
    with few_threads(width):
        added.add(rows)
        added.add(rows)
    assert len(called) == 2 * math.ceil(width / PANEL)
    found, whole = added.dense(), 2.0 * rows.T @ rows
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-10)
    assert torch.equal(found, found.T)


@pytest.mark.long
def test_reading_a_batch_takes_the_memory_of_two_copies_of_it():
    """Of the rows as float64, and of the rows minus their mean."""
    rows = rows_of(0, 3000, 300).float()
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        GaussianStatistic(300, keep=100, halves=False).update(rows)
    now = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    assert peak <= 2.4 * rows.numel() * 8


def test_a_scatter_of_several_panels_is_restored_bit_for_bit():
    """Read or not in between, and by batches of any size."""
    rows = rows_of(0, 420, PANEL + 77) + 2.0
    live = GaussianStatistic(PANEL + 77, keep=40)
    restored = GaussianStatistic(PANEL + 77, keep=40)
    for batch in rows.split([5, 30, 1, 9, 300, 5, 1, 69]):
        for each in (live, restored):
            each.update(batch)
        assert live.bytes <= sum(tensor.nbytes for tensor in live.state().values())
        restored = stored_and_read(restored, GaussianStatistic(PANEL + 77, keep=40))
    assert_bit_identical(live, restored)
    centred = rows - rows.mean(0)
    torch.testing.assert_close(live.scatter, centred.T @ centred, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("width", [3, PANEL + 77, 2 * PANEL])
def test_inner_products_of_sums_are_those_of_the_matrices(width: int):
    """By rows, by sums, and by the sums of two halves."""
    rows = [rows_of(seed, count, width) for seed, count in enumerate((width + 5, 2 * width, 9))]
    even, odd = SymmetricSum(width), SymmetricSum(width)
    even.add(rows[1][::2])
    odd.add(rows[1][1::2])
    parts = [SecondMoment(rows[0]), SecondMoment(sums=(even, odd), count=2 * width), SecondMoment(rows[2])]
    expected = [[float((one @ other.T).square().sum()) for other in rows] for one in rows]
    for chosen in ([0, 1, 2], [0, 2], [2], [1]):
        found = inner_products([parts[place] for place in chosen])
        np.testing.assert_allclose(found, np.array(expected)[np.ix_(chosen, chosen)], rtol=1e-11)
    asked, shares = rows_of(7, 4, width), np.array([0.5, 0.2, 0.0])
    seen = [0.5 * (asked @ rows[0].T).square().sum(1), 0.2 * (asked @ rows[1].T).square().sum(1)]
    torch.testing.assert_close(mixed(parts, shares)(asked), seen[0] + seen[1], rtol=1e-11, atol=1e-9)
    few = mixed([parts[2]], np.array([2.0]))(asked)
    torch.testing.assert_close(few, 2.0 * (asked @ rows[2].T).square().sum(1), rtol=1e-11, atol=1e-9)
    torch.testing.assert_close(parts[1].last_column, rows[1].T @ rows[1][:, -1], rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "block", "width"),
    [
        (partial(GaussianStatistic, 3, keep=3), gaussian_module.BLOCK, 3),
        *(
            (partial(KernelStatistic, feature_map, halves=halves), KernelStatistic(feature_map).rows_at_once, 5)
            for feature_map in (GaussianFourier.draw(5, 150, 2.0), Cosine(5))
            for halves in (False, True)
        ),
    ],
)
def test_a_large_batch_is_its_blocks_one_after_the_other(make: Callable[[], Any], block: int, width: int):
    rows = rows_of(0, 2 * block + 9, width)
    assert_bit_identical(taken(make(), rows, len(rows)), taken(make(), rows, block))


def test_a_row_refused_in_a_late_block_leaves_no_early_block_behind():
    statistic = KernelStatistic(Cosine(4))
    rows = rows_of(0, 2 * statistic.rows_at_once, 4)
    statistic.update(rows[:10])
    before = taken(KernelStatistic(Cosine(4)), rows[:10], 10)
    rows[-1] = 0.0
    with pytest.raises(ValueError, match="no direction"):
        statistic.update(rows)
    assert_bit_identical(statistic, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_rows_of_any_dtype_are_taken_and_what_is_infinite_in_theirs_is_not(dtype: torch.dtype):
    statistic, rows = GaussianStatistic(4), (8 * rows_of(0, 6, 4)).to(dtype)
    statistic.update(rows)
    torch.testing.assert_close(statistic.mean, rows.double().mean(0))
    if dtype.is_floating_point:
        rows[2, 1] = torch.inf
        with pytest.raises(ValueError, match="finite"):
            statistic.update(rows)
    assert statistic.samples == 6


@pytest.mark.parametrize("count", [0, 1, 10])
def test_the_last_rows_are_those_in_little_more_memory(count: int):
    rows, seen = rows_of(0, 400, 2), 0
    last = LastRows(rows[:0].clone(), count)
    for size in [1, 3, 2, 11, 1, 40] * 6:
        last.append(rows[seen : seen + size])
        seen += size
        assert torch.equal(last.tensor, rows[max(seen - count, 0) : seen])
        assert len(last._rows._data) <= 1.25 * count
