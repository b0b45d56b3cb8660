"""How many threads the numerics have: torch's, numpy's, and two halves of a computation at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

First = TypeVar("First")
Second = TypeVar("Second")

_is_shared = False
"""Whether several threads of the process compute at once."""


def share_cores(threads: int) -> None:
    """Prepare a process in which `threads` threads compute at once: torch has its share of the cores in each."""
    global _is_shared
    _is_shared = threads > 1
    # With more threads than cores, the threads of an eigenproblem wait for each other, many times slower.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // threads))
    _limit_numpy()


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """The results of two independent computations, at once where torch has several threads: each with half of them.

    Eigenproblems are limited by memory, and gain little from more threads. One after the other in a process of
    `share_cores` with several threads: the number of threads of scipy's BLAS is the whole process's, and results
    depend on it in their last digits.
    """
    threads = torch.get_num_threads()
    if threads == 1 or _is_shared:
        return first(), second()
    half = threads // 2
    torch.set_num_threads(half)
    try:
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(half,)) as beside:
            found = beside.submit(second)
            return first(), found.result()
    finally:
        torch.set_num_threads(threads)


def _limit_numpy() -> None:
    """Let numpy's BLAS have one thread, for good; torch and scipy keep theirs.

    It has a pool of its own, one thread a core by default, which waits busily: beside other load, the eigenproblems of
    routing took ten times the processor time. Its results also depend, in their last digits, on the number of threads.
    To be called before it has computed anything.
    """
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        if "numpy" in library.filepath:
            library.set_num_threads(1)
