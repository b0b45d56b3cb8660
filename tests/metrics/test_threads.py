"""On how many threads torch and every BLAS compute. What holds in a scorer: tests/scoring/test_scorer_threads.py."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Thread

import joblib
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from optimist.metrics.threads import MANY, WIDE, blas_on_one_thread, few_threads, one_thread
from optimist.simulation.runner import Runner


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(2):
        yield
    torch.set_num_threads(before)


def used() -> set[int]:
    """The numbers of threads of torch and of every BLAS."""
    return {torch.get_num_threads()} | {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_one_thread_is_for_a_while_and_for_threads_that_are_started_meanwhile():
    seen: list[set[int]] = []
    with one_thread():
        another = Thread(target=lambda: seen.append(used()))
        another.start()
        another.join()
        seen.append(used())
    assert seen == [{1}, {1}]
    assert used() == {2}


def test_pieces_of_a_simulation_that_run_in_threads_leave_each_other_one():
    begun, ended = Barrier(2), Barrier(2)

    def first() -> None:
        with one_thread():
            begun.wait()
        ended.wait()

    def second() -> set[int]:
        with one_thread():
            begun.wait()
            ended.wait()
            return used()

    with joblib.parallel_config(backend="threading"):
        runner = Runner(2, progress=False)
        assert runner.run("pieces", [first, second]) == [None, {1}]
    assert used() == {2}


def test_eigenproblems_in_several_threads_use_one_of_blas_and_give_the_others_back():
    begun, ended = Barrier(2), Barrier(2)

    def of_blas() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    seen: list[set[int]] = []

    def first() -> None:
        with blas_on_one_thread:
            begun.wait()
            ended.wait()
            seen.append(of_blas())

    another = Thread(target=first)
    another.start()
    with blas_on_one_thread:
        begun.wait()
        seen.append(of_blas())
    ended.wait()
    another.join()
    assert seen == [{1}, {1}]
    assert used() == {2}


def test_small_estimates_limit_torch_in_their_own_thread_alone():
    other: list[int] = []
    with few_threads(48, 1000):
        beside = Thread(target=lambda: other.append(torch.get_num_threads()))
        beside.start()
        beside.join()
        assert torch.get_num_threads() == 1
        with few_threads(48):
            assert torch.get_num_threads() == 1
    assert other == [2]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("columns", "rows"), [(WIDE, 0), (64, MANY // 64)])
def test_large_estimates_keep_their_threads(columns: int, rows: int):
    with few_threads(columns, rows):
        assert torch.get_num_threads() == 2
