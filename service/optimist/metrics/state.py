"""The state of what grows with a log, declared once: a snapshot of it, how that is restored, and its size follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from optimist_client.errors import FixError


class Kept(ABC):
    """A buffer or a sum whose state is one tensor."""

    @property
    @abstractmethod
    def tensor(self) -> Tensor:
        """The state; it may be a view."""

    @abstractmethod
    def take(self, tensor: Tensor) -> None:
        """Become what `tensor` says, which nobody else writes to. Raises FixError on another shape."""


class Stateful:
    """Base of what has a state: all that the attributes named in `held` hold.

    These are numbers, lists of numbers, tensors, arrays, objects of `Kept`, others with a state of their own (of
    arrays, where they know no torch), and mappings of these. An attribute that is None has no state.
    """

    held: ClassVar[tuple[str, ...]] = ()
    layout: tuple[int, ...] | None = None
    """What it was made with, as whole numbers: a state is taken over only with the same layout."""

    @property
    def bytes(self) -> int:
        """Bytes of memory of what `state` says."""
        parts = [getattr(self, name) for name in ("layout", *self.held)]
        own = sum(tensor.nbytes for part in parts if not _is_stateful(part) for _, tensor in _state("", part))
        return own + sum(part.bytes for part in parts if _is_stateful(part))

    def state(self) -> dict[str, Tensor]:
        """The whole state by name. Tensors may be views, valid until the next update."""
        return dict(pair for name in ("layout", *self.held) for pair in _state(name.strip("_"), getattr(self, name)))

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        """Take over a `state`, bit for bit, of another object that was made with the same arguments. Returns itself.

        Raises KeyError or ValueError on the state of others.
        """
        left = dict(tensors)
        if self.layout is not None and left.pop("layout").tolist() != [*self.layout]:
            raise FixError("the state has another layout")
        for name in self.held:
            setattr(self, name, _restored(name.strip("_"), getattr(self, name), left))
        if left:
            raise FixError(f"the state is of another kind: it has {', '.join(left)}")
        return self


def below(place: str, tensors: dict[str, Any]) -> dict[str, Any]:
    """What `tensors` hold under names that begin with this place; it is taken out of them."""
    names = [name for name in tensors if name.startswith(f"{place}/")]
    return {name.removeprefix(f"{place}/"): tensors.pop(name) for name in names}


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
