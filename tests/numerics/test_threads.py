"""Two halves of a computation at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from optimist.numerics import threads
from optimist.numerics.fid.influence import FrechetInfluence
from optimist.numerics.fid.reference import Reference
from optimist.numerics.fid.statistic import GaussianStatistic
from optimist.numerics.threads import both


@pytest.fixture(params=[1, 2, 4])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Threads of torch in this test."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "_is_shared", False)
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def used() -> tuple[int, int]:
    return threading.get_ident(), torch.get_num_threads()


def test_two_computations_share_the_threads(count: int) -> None:
    first, second = both(used, used)
    assert [first[1], second[1]] == ([1, 1] if count == 1 else [count // 2, count // 2])
    assert (first[0] == second[0]) == (count == 1)
    assert torch.get_num_threads() == count


def test_threads_that_compute_at_once_run_them_in_turn(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_is_shared", True)
    first, second = both(used, used)
    assert first == second == (threading.get_ident(), count)


@pytest.mark.parametrize("place", [0, 1])
def test_a_failure_of_either_is_raised_and_the_threads_come_back(count: int, place: int) -> None:
    def failing() -> None:
        raise ArithmeticError("not finite")

    calls = [used, used]
    calls[place] = failing  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(ArithmeticError, match="not finite"):
        both(*calls)
    assert torch.get_num_threads() == count


def test_an_estimate_is_the_same_with_any_number_of_threads(count: int) -> None:
    rng = np.random.default_rng(0)
    statistic = GaussianStatistic(16, keep=16)
    statistic.update(torch.from_numpy(rng.standard_normal((400, 16)) + 0.1))
    influence = FrechetInfluence(Reference(np.zeros(16), np.eye(16)))
    found = influence.analyse(statistic, torch.from_numpy(rng.standard_normal((256, 16))))
    torch.set_num_threads(1)
    alone = FrechetInfluence(Reference(np.zeros(16), np.eye(16)))
    expected = alone.analyse(statistic, torch.from_numpy(np.random.default_rng(1).standard_normal((256, 16))))
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)
    assert found.stopping_error == pytest.approx(expected.stopping_error, rel=1e-12)


def test_equal_rows_have_no_spectrum_but_a_distance(count: int) -> None:
    statistic = GaussianStatistic(8, keep=8)
    statistic.update(torch.full((600, 8), 2.0))
    found = FrechetInfluence(Reference(np.zeros(8), np.eye(8))).analyse(statistic, torch.zeros(256, 8))
    assert found.estimate == pytest.approx(8 * 4.0 + 8.0)
    assert found.influence is not None
    assert len(found.influence) == 256
