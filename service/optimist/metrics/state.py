"""State that grows with a log, declared once: snapshot, restoration and size follow.

Buffers of rows, and checks of arrays of rows, are here as well.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.anomalies.batches import LARGEST
from optimist_client.errors import FixError


class Kept(ABC):
    """A buffer or a sum whose state is one tensor."""

    @property
    @abstractmethod
    def tensor(self) -> Tensor:
        """The state; it may be a view."""

    @abstractmethod
    def take(self, tensor: Tensor) -> None:
        """Restore the contents of `tensor`, which nobody else writes to. Raises FixError on another shape."""


class Stateful:
    """Base of objects with a state: the contents of the attributes named in `held`.

    These are numbers, lists of numbers, tensors, arrays, objects of `Kept`, objects with their own state (of arrays,
    for objects without torch), and mappings of these. An attribute that is None has no state.
    """

    held: ClassVar[tuple[str, ...]] = ()
    layout: tuple[int, ...] | None = None
    """Layout as whole numbers: a state is restored only with the same layout."""

    @property
    def bytes(self) -> int:
        """Bytes of memory of the contents of `state`."""
        parts = [getattr(self, name) for name in ("layout", *self.held)]
        own = sum(tensor.nbytes for part in parts if not _is_stateful(part) for _, tensor in _state("", part))
        return own + sum(part.bytes for part in parts if _is_stateful(part))

    def state(self) -> dict[str, Tensor]:
        """The whole state by name. Tensors may be views, valid until the next update."""
        return dict(pair for name in ("layout", *self.held) for pair in _state(name.strip("_"), getattr(self, name)))

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        """Restore a `state`, bit for bit, of another object with the same arguments. Returns itself.

        Raises KeyError or ValueError on the state of other objects.
        """
        left = dict(tensors)
        if self.layout is not None and left.pop("layout").tolist() != [*self.layout]:
            raise FixError("the state has another layout")
        for name in self.held:
            setattr(self, name, _restored(name.strip("_"), getattr(self, name), left))
        if left:
            raise FixError(f"the state is of another kind: it has {', '.join(left)}")
        return self


def below(prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors with names under this prefix, which are removed from `tensors`."""
    names = [name for name in tensors if name.startswith(f"{prefix}/")]
    return {name.removeprefix(f"{prefix}/"): tensors.pop(name) for name in names}


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state")


def _state(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a value, whose names begin with `name`."""
    if isinstance(value, Kept):
        yield name, value.tensor
    elif isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping) or _is_stateful(value):
        for key, part in (value if isinstance(value, Mapping) else value.state()).items():
            yield from _state(f"{name}/{key}", part)
    elif value is not None:
        yield name, torch.from_numpy(np.asarray(value))


def _restored(name: str, value: Any, left: dict[str, Tensor]) -> Any:
    """The value as the tensors say, which are taken out of `left`; `value` shows its kind."""
    if _is_stateful(value):
        own = below(name, left)
        value.restore(own if isinstance(value, Stateful) else {key: part.numpy() for key, part in own.items()})
    elif isinstance(value, Mapping):
        return {key: _restored(f"{name}/{key}", part, left) for key, part in value.items()}
    elif isinstance(value, Kept):
        value.take(left.pop(name).to(value.tensor.device, copy=True))
    elif isinstance(value, Tensor):
        return left.pop(name).to(value.device, copy=True)
    elif isinstance(value, np.ndarray):
        return left.pop(name).numpy().copy()
    elif value is not None:
        return type(value)(left.pop(name).tolist())
    return value


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """A float64 copy of an array, a tensor, or (nested) lists of numbers or of tensors.

    Raises `FixError`, beginning with `name`, for anything but real numbers.
    """
    try:
        plain = np.asarray(_without_torch(values))
        # numpy has no bfloat16; such an array has the kind V.
        if plain.dtype.kind not in "biufV":
            raise TypeError(f"{plain.dtype} from {type(values).__name__}")
        return np.array(plain, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FixError(f"{name}: expected an array of real numbers, got {error}") from None


def _without_torch(values: Any) -> Any:
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_complex():
            raise TypeError(f"a tensor of {values.layout} and {values.dtype}")
        return values.detach().cpu().double().numpy()
    if isinstance(values, list | tuple) and any(isinstance(value, Tensor) for value in values):
        return [_without_torch(value) for value in values]
    return values


def check_rows(name: str, rows: Tensor, columns: int) -> None:
    """Raise FixError unless `rows` are (b ≥ 1, columns) of any real dtype, finite and of sane size."""
    if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] != columns:
        raise FixError(f"expected {name} of shape (b ≥ 1, {columns}), not {tuple(rows.shape)}")
    check_size(name, rows)


def check_size(name: str, rows: Tensor, largest: float = LARGEST, why: str = "") -> None:
    """Raise FixError unless all numbers are finite and at most `largest` in size."""
    # Without a copy of the batch. As Python floats, because float16 would turn 1e30 into infinity.
    low, high = (float(end) for end in torch.aminmax(rows))
    # Written so that NaN fails it too.
    if not -largest <= low <= high <= largest:
        raise FixError(f"{name} must be finite and at most {largest:g} in magnitude{why}")


def copied(rows: Tensor, device: torch.device) -> Tensor:
    """The rows in float64 on the device, in memory of their own: where they begin decides the last bit of a sum."""
    return rows.to(device, torch.float64, copy=True, memory_format=torch.contiguous_format)


class Buffer(Kept):
    """Rows in log order in a buffer that doubles, so that appending costs O(1) copies a row.

    The buffer does not grow beyond `limit` rows until there are more.
    """

    def __init__(self, rows: Tensor, limit: int = sys.maxsize) -> None:
        self._data = rows
        self._count = len(rows)
        self._limit = limit

    def __len__(self) -> int:
        return self._count

    def take(self, tensor: Tensor) -> None:
        self._data, self._count = tensor, len(tensor)

    @property
    def tensor(self) -> Tensor:
        """All rows, not copied."""
        return self._data[: self._count]

    def tail(self, count: int) -> Tensor:
        """A copy of the last `count` rows, or of all where there are fewer."""
        return self._data[max(self._count - count, 0) : self._count].clone()

    def append(self, rows: Tensor) -> None:
        """Add rows at the end."""
        needed = self._count + len(rows)
        if needed > len(self._data):
            room = max(needed, min(2 * len(self._data), self._limit))
            grown = self._data.new_empty(room, self._data.shape[1])
            grown[: self._count] = self.tensor
            self._data = grown
        self._data[self._count : needed] = rows
        self._count = needed


class LastRows(Kept):
    """The last `count` rows of a stream, in log order. With room for a quarter more, a row is copied about five times.

    `rows` are the last rows so far, at most `count`.
    """

    def __init__(self, rows: Tensor, count: int) -> None:
        self._count = count
        self._room = count + count // 4
        self._rows = Buffer(rows, self._room)

    def __len__(self) -> int:
        return min(len(self._rows), self._count)

    def take(self, tensor: Tensor) -> None:
        self._rows.take(tensor)

    @property
    def tensor(self) -> Tensor:
        """The min(seen, count) last rows, in memory of their own."""
        return self._rows.tail(self._count)

    def tail(self, count: int) -> Tensor:
        """A copy of the last `count` ≤ len(self) rows."""
        return self._rows.tail(count)

    def append(self, rows: Tensor) -> None:
        """Add rows at the end."""
        latest = rows[max(len(rows) - self._count, 0) :]
        if len(self._rows) + len(latest) > self._room:
            self._rows = Buffer(self._rows.tail(self._count - len(latest)), self._room)
        self._rows.append(latest)
