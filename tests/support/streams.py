"""Helpers of tests of metrics and estimates: rows, a statistic that has taken them or was stored, and equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def rows_of(seed: int, count: int, width: int, offset: float = 0.0) -> Tensor:
    """Normal rows (count, width), float64, around an offset."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, width)) + offset)


def taken(statistic: Any, rows: Tensor | NDArray[Any], sizes: int | list[int] = 5, listed: Tensor | None = None) -> Any:
    """The statistic, which has taken the rows, and their prompts of a list, in batches of these sizes."""
    parts = torch.as_tensor(rows).split(sizes)
    for part, prompts in zip(parts, [None] * len(parts) if listed is None else listed.split(sizes), strict=True):
        statistic.update(part, **({} if prompts is None else {"listed": prompts}))
    return statistic


def fed(metric: Any, rows: Tensor | NDArray[Any], sizes: int | list[int] = 5, listed: Tensor | None = None) -> Any:
    """The metric's statistic, which has taken the rows."""
    return taken(metric.statistic(), rows, sizes, listed)


def stored_and_read(statistic: Any, empty: Any) -> Any:
    """`empty` with the state of a statistic, with which it shares no memory."""
    return empty.restore({name: tensor.clone() for name, tensor in statistic.state().items()})


def assert_bit_identical(one: Any, other: Any) -> None:
    """The stored forms of two statistics, or of two reservoirs, are equal to the last bit."""
    left, right = one.state(), other.state()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
