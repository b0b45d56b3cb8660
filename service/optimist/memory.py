"""What this process keeps of the memory that it frees."""

from __future__ import annotations

import contextlib
import ctypes

M_MMAP_THRESHOLD = -3


def give_back_from(size: int) -> None:
    """Have blocks of `size` bytes and more go back to the system as soon as they are freed.

    glibc keeps freed blocks of up to 32 MiB otherwise, in a heap for each thread.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, size)
