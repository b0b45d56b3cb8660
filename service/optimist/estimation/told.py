"""What `Evaluation` is given: names, and batches of tensors, ids, prompts and indices, each checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.estimation.common_rows import Indices
from optimist.estimation.track import Track
from optimist.numerics.checks import check_number
from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import LARGEST_INDEX
from optimist_client.errors import FixError

Start = int | Literal["next"] | None
"""The index of a batch's first sample; "next": the one after those told; None: its samples have no index."""


class Told(NamedTuple):
    """A batch, as the arguments of `Track.add`."""

    tensors: dict[str, Tensor]
    ids: list[str]
    listed: Tensor | None
    indices: Indices | None


def checked_prompts(prompt_indices: Sequence[int] | None, rows: int, length: int | None) -> Tensor | None:
    """The prompts (rows,) of a batch as places in a list of this length, None without a list.

    Raises FixError if they are not valid, or if there is no list.
    """
    if prompt_indices is None:
        return None
    if length is None:
        raise FixError("prompt_indices: expected them only with prompts_are='list'")
    indices = np.asarray(prompt_indices)
    if indices.shape != (rows,) or indices.dtype.kind not in "iu" or not all(0 <= i < length for i in indices):
        raise FixError(f"prompt_indices: expected {rows} whole numbers from 0 to {length - 1}")
    return torch.from_numpy(indices.astype(np.int64))


def checked_start(start: Start, rows: int, end: int) -> Indices | None:
    """The indices of a batch, "next" from `end` on. Raises FixError for a `start` that is none."""
    if start is None:
        return None
    first = end if isinstance(start, str) and start == "next" else start
    if isinstance(first, bool) or not isinstance(first, Integral) or not 0 <= first <= LARGEST_INDEX - rows:
        most = LARGEST_INDEX - rows
        raise FixError(f'start: expected "next", None, or a whole number from 0 to {most}, got {first!r}')
    return int(first), rows


def replayed(track: Track, log: Sequence[Told]) -> Estimate | None:
    """Add batches to a track; the latest estimate that is due after them."""
    estimate: Estimate | None = None
    for told in log:
        if track.add(*told):
            estimate = track.estimate()
    return estimate


def names_of(generators: Any) -> tuple[str, ...]:
    """The names of the generators. Raises FixError unless they are distinct strings, at least one."""
    names = tuple(generators) if isinstance(generators, Iterable) and not isinstance(generators, str | Set) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise FixError(f"expected at least one generator and distinct names, got {generators!r}")
    return names


def checked_costs(costs: Mapping[str, float] | None, generators: Sequence[str]) -> dict[str, float]:
    """The costs by generator. Raises FixError for unknown names, and for costs that are not finite or below 0."""
    found = {name: check_number(f"costs: {name}", cost) for name, cost in (costs or {}).items()}
    if unknown := sorted(found.keys() - set(generators)):
        raise FixError(f"costs: no generator is called {', '.join(unknown)}")
    if wrong := next((name for name, cost in found.items() if not 0 <= cost < math.inf), None):
        raise FixError(f"costs: expected finite costs of at least 0, got {found[wrong]} of {wrong!r}")
    return found
