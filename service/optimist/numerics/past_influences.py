"""The influences that earlier estimates are compared by, in a few bytes each. No torch.

A correlation needs neither their scale nor a constant, and few digits: they are kept as float16 with the mean 0 and the
largest size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError

_DTYPE = np.dtype("<f2")


def packed(influence: NDArray[np.floating[Any]]) -> bytes:
    """The influences (m,) of the samples of indices 0 … m − 1; none may be NaN."""
    centred = influence.astype(np.float64)
    centred -= centred.mean()
    return (centred / (float(np.abs(centred).max()) or 1.0)).astype(_DTYPE).tobytes()


def unpacked(known: Sequence[bytes], width: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The influences of k estimates (k, width), and how many each has (k,). Behind these they are 0."""
    counts = np.array([len(each) for each in known], np.int64) // _DTYPE.itemsize
    rows = np.zeros((len(known), width))
    rows[np.arange(width) < counts[:, None]] = np.frombuffer(b"".join(known), _DTYPE)
    return rows, counts


def joined(known: Sequence[bytes]) -> bytes:
    """All of them, one after the other; nothing if one is empty."""
    return b"".join(known) if all(known) else b""


def parted(joint: bytes, counts: Sequence[int]) -> list[bytes]:
    """The inverse of `joined`, by the number of influences of each. Raises FixError unless there are as many."""
    ends = [0, *accumulate(_DTYPE.itemsize * count for count in counts)]
    if not joint:
        return [b""] * len(counts)
    if len(joint) != ends[-1]:
        raise FixError(f"expected {ends[-1]} bytes of influences of earlier estimates, got {len(joint)}")
    return [joint[start:end] for start, end in pairwise(ends)]


def are_finite(joint: bytes) -> bool:
    """Whether all influences may be stored."""
    return bool(np.isfinite(np.frombuffer(joint, _DTYPE)).all())
