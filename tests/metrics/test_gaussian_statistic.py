import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.metrics.fid.statistic import GaussianStatistic
from optimist_client.errors import FixError
from tests.support.streams import rows_of, taken


def fed(rows: Tensor, sizes: list[int], **layout: int | bool) -> GaussianStatistic:
    return taken(GaussianStatistic(rows.shape[1], **layout), rows, sizes)  # type: ignore[arg-type]


def assert_same_moments(statistic: GaussianStatistic, rows: Tensor) -> None:
    centred = rows - rows.mean(0)
    assert statistic.samples == len(rows)
    torch.testing.assert_close(statistic.mean, rows.mean(0), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(statistic.scatter, centred.T @ centred, rtol=1e-10, atol=1e-10 * len(rows))
    assert statistic.scatter_trace == pytest.approx(float(centred.square().sum()), rel=1e-10, abs=1e-10)


sizes = st.lists(st.integers(1, 23), min_size=1, max_size=12)
layouts = st.fixed_dictionaries(
    {
        "keep": st.integers(0, 70),
        "first": st.integers(0, 40),
        "last": st.integers(0, 40),
        "scatter": st.booleans(),
    }
)


@given(st.integers(0, 9), sizes, st.integers(1, 64), layouts)
def test_moments_of_batches_of_any_size_are_those_of_the_rows(seed, sizes, dimension, layout):
    rows = rows_of(seed, sum(sizes), dimension, offset=3.0)
    assert_same_moments(fed(rows, sizes, **layout), rows)


@given(st.integers(0, 9), sizes, st.integers(1, 9), layouts)
def test_rows_are_kept_in_log_order(seed, sizes, dimension, layout):
    rows = rows_of(seed, sum(sizes), dimension)
    statistic = fed(rows, sizes, **layout)
    assert torch.equal(statistic.first_rows, rows[: layout["first"]])
    assert torch.equal(statistic.last_rows, rows[max(len(rows) - layout["last"], 0) :])
    assert statistic.holds_rows == (len(rows) <= layout["keep"])
    if statistic.holds_rows:
        assert statistic.rows is not None
        assert torch.equal(statistic.rows, rows)
    else:
        assert statistic.rows is None


@given(st.integers(0, 9), sizes, st.integers(1, 64), st.integers(0, 70), st.sampled_from([0, 1]))
def test_halves_are_the_rows_in_even_and_in_odd_places(seed, sizes, dimension, keep, parity):
    rows = rows_of(seed, sum(sizes), dimension, offset=3.0)
    statistic = fed(rows, sizes, keep=keep, last=7)
    own = rows[parity::2]
    if len(own) == 0:
        with pytest.raises(ValueError, match="half"):
            statistic.half(parity)
        return
    half, centred = statistic.half(parity), own - own.mean(0)
    assert half.count == len(own)
    torch.testing.assert_close(half.mean, own.mean(0), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(half.scatter, centred.T @ centred, rtol=1e-9, atol=1e-9 * len(rows))
    last = torch.arange(len(rows))[-7:]
    assert torch.equal(statistic.last_of_half(parity), rows[last[last % 2 == parity]])


def test_an_offset_costs_no_accuracy():
    rows = rows_of(0, 400, 8)
    far = fed(rows + 1e6, [5] * 80)
    torch.testing.assert_close(far.scatter / (far.samples - 1), rows.T.cov(), rtol=1e-8, atol=1e-8)


def test_identical_rows_have_a_scatter_of_exactly_zero():
    statistic = fed(torch.full((35, 3), 0.1, dtype=torch.float64), [7] * 5)
    assert statistic.scatter_trace == 0.0
    assert torch.equal(statistic.mean, torch.full((3,), 0.1, dtype=torch.float64))


def test_a_statistic_of_no_columns_is_refused():
    with pytest.raises(ValueError, match="dimension"):
        GaussianStatistic(0)


def test_a_statistic_alone_keeps_no_halves():
    rows = rows_of(0, 12, 3)
    whole, alone = GaussianStatistic(3, keep=4), GaussianStatistic(3, keep=4, halves=False)
    for statistic in (whole, alone):
        statistic.update(rows)
    assert torch.equal(alone.scatter, whole.scatter)
    assert alone.bytes < whole.bytes
    with pytest.raises(FixError, match="halves=True"):
        alone.half(0)
    assert torch.equal(GaussianStatistic(3, keep=4, halves=False).restore(alone.state()).scatter, alone.scatter)
