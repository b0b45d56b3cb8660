"""Sets the number of threads of numerical libraries: torch's and those of every BLAS."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread

import torch
from threadpoolctl import OpenBLASController, threadpool_limits

# scipy and numpy have a BLAS each. A limit holds for those that are loaded, and scipy loads its own when it is used.
import_module("scipy.linalg.cython_lapack")


def limit_threads(count: int) -> None:
    """Let this process compute on `count` threads for good, wherever it has computed before.

    To be called before other threads compute, and again in each of them: some libraries keep the number by thread.
    """
    torch.set_num_threads(count)
    # OpenBLAS has one number for the process, and threadpoolctl lets only one thread set it, silently: the first to do
    # so. Here that is whoever calls.
    OpenBLASController.clear_controlling_thread(force=True)
    threadpool_limits(count)


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


WIDE = 512
"""Columns from which on an estimate is faster on several threads."""
MANY = 2**20
"""Numbers of one batch from which on reading it is."""


@contextmanager
def few_threads(columns: int, rows: int = 0) -> Generator[None]:
    """Estimate from rows of so many columns, or add so many such rows, on one thread of torch where that is small.

    On several threads small ones take ten times the processor time, spent in waiting for each other, and as long. Only
    the calling thread is limited, so that a user's functions, which may run beside it, keep their threads. The BLAS of
    numpy and scipy is left alone: it has one number for the process, and uses one thread for small matrices by itself.
    """
    threads = torch.get_num_threads()
    if threads == 1 or columns >= WIDE or columns * rows >= MANY:
        yield
        return
    torch.set_num_threads(1)
    try:
        # torch has set two things: the number of this thread, and that of threads which use torch for the first time.
        # A thread that sets its own number gives those the number that they had.
        others = Thread(target=torch.set_num_threads, args=(threads,))
        others.start()
        others.join()
        yield
    finally:
        torch.set_num_threads(threads)
