"""How the C library gives memory back to the system."""

from __future__ import annotations

import contextlib
import ctypes

M_MMAP_THRESHOLD = -3


def give_back_from(size: int) -> None:
    """Return blocks of `size` bytes or more to the system as soon as they are freed.

    Otherwise glibc keeps freed blocks of up to 32 MiB, in a heap for each thread.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, size)
