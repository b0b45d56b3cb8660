"""Sets the number of threads of torch and of every BLAS."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock

import torch
from threadpoolctl import OpenBLASController, ThreadpoolController, threadpool_limits

# scipy and numpy have a BLAS each. A limit holds for those that are loaded, and scipy loads its own when it is used.
import_module("scipy.linalg.cython_lapack")


def limit_threads(count: int) -> None:
    """Let this process compute on `count` threads for good, wherever it has computed before.

    To be called before other threads compute, and again in each of them: some libraries keep the number by thread.
    """
    torch.set_num_threads(count)
    with _any_thread_may_limit():
        threadpool_limits(count)


@contextmanager
def _any_thread_may_limit() -> Generator[None]:
    """OpenBLAS has one number for the process, and threadpoolctl lets only one thread set it, silently: the first to do
    so. Meanwhile that is whoever calls."""
    OpenBLASController.clear_controlling_thread(force=True)
    try:
        yield
    finally:
        OpenBLASController.clear_controlling_thread(force=True)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute on one thread: it is faster at these sizes, and the last bits depend on the number of threads.

    Threads that are started meanwhile compute on one as well. A limit that another thread has set for good stays.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


class _OneThread:
    """Lets scipy's BLAS and LAPACK compute on one thread while somebody is inside, in any thread of the process.

    The eigenproblems here have no use for more: two threads take 1.5 to 6 times the processor time, and on a machine
    with other work longer. Products of matrices on several threads are torch's.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                with _any_thread_may_limit():
                    self._limit = _blas().limit(limits=1)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                with _any_thread_may_limit():
                    self._limit.restore_original_limits()


blas_on_one_thread = _OneThread()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


WIDE = 2048
"""Columns from which on an estimate is faster on several threads."""
MANY = 2**24
"""Size in numbers of a batch from which on reading it uses all threads. Two idle cores take 0.7 to 1.4 times as long as
one for 5,000 × 512, and 1.5 to 2 times the processor time; on busy cores 4 times and more."""


@contextmanager
def few_threads(columns: int, rows: int = 0) -> Generator[None]:
    """Estimate from rows of so many columns, or add so many such rows, on one thread of torch if the work is small.

    On several threads small work takes ten times the processor time, spent in waiting, and is no faster. Only the
    calling thread is limited, so that a user's functions, which may run beside it, keep their threads:
    `torch.set_num_threads` would also limit threads that use torch for the first time. The BLAS of numpy and scipy has
    one number for the process, and uses one thread for small matrices by itself.
    """
    if columns >= WIDE or columns * rows >= MANY:
        yield
        return
    with one_thread_here():
        yield


@contextmanager
def one_thread_here() -> Generator[None]:
    """Let torch compute on one thread in the calling thread; other threads keep theirs."""
    # torch sets the number of a thread when that first uses it, so that this comes before the limit.
    if torch.get_num_threads() == 1:
        yield
        return
    openmp, limit_mkl = _of_one_thread()
    before = limit_mkl(1)
    try:
        with openmp.limit(limits=1):
            yield
    finally:
        limit_mkl(before)


@cache
def _of_one_thread() -> tuple[ThreadpoolController, Callable[[int], int]]:
    """Limiters of OpenMP, and of the MKL inside torch, if any, in the calling thread alone."""
    openmp = ThreadpoolController().select(user_api="openmp")
    for library in Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"):
        if (limit := getattr(CDLL(f"{library}"), "MKL_Set_Num_Threads_Local", None)) is not None:
            return openmp, limit
    return openmp, lambda count: count
