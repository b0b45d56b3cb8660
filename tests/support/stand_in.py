"""A stand-in for a GPU on machines without one: tensors that say they are on cuda:0, and refuse what such ones refuse.

They compute on the CPU. It finds code that forgets where its tensors are; it says nothing of a GPU's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA = torch.device("cuda", 0)
FACTORIES = (torch.zeros, torch.ones, torch.empty, torch.full, torch.arange, torch.linspace, torch.eye, torch.tensor)
NUMBERS = (Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__index__, Tensor.item, Tensor.tolist)
ASK_THE_DRIVER = (Tensor.__getitem__, Tensor.contiguous, Tensor.__invert__, torch.where, torch.nonzero)
"""Functions that look for a driver before they ask a tensor what it is."""
BETWEEN_DEVICES = (torch.ops.aten.copy_.default, torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default)
"""Operations that take tensors of two devices."""


class OnGPU(Tensor):
    """A tensor that stands in for one on the GPU; `held` has its numbers."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: Tensor) -> OnGPU:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            dispatch_device=True,
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.prim.device.default:
            return CUDA
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if func not in BETWEEN_DEVICES:
            _check_places(func, tensors)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        owners = {id(leaf.held): leaf for leaf in tensors if isinstance(leaf, OnGPU)}
        found = func(*tree_map(_held, args), **tree_map(_held, kwargs))

        def owned(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            # What was written in place is the tensor that it was written to.
            return owners[id(leaf)] if id(leaf) in owners else OnGPU(leaf)

        return tree_map(owned, found)


class _Moves(TorchFunctionMode):
    """Makes tensors on the stand-in, and moves them there and back."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in FACTORIES and torch.device(kwargs.get("device") or "cpu") == CUDA:
            return OnGPU(func(*args, **{**kwargs, "device": "cpu"}))
        if func is Tensor.to:
            places = [place for place in (*args[1:], *kwargs.values()) if isinstance(place, torch.device | str)]
            wanted = torch.device(places[0]) if places else args[0].device
            others = [part for part in args[1:] if not isinstance(part, torch.device | str)]
            moved = _held(args[0]).to(*others, **{name: part for name, part in kwargs.items() if name != "device"})
            if wanted != CUDA:
                return moved.clone() if isinstance(args[0], OnGPU) and moved is args[0].held else moved
            if isinstance(args[0], OnGPU) and moved is args[0].held:
                return args[0]
            return OnGPU(moved if moved is not args[0] else moved.clone())
        if func is Tensor.cpu:
            return _held(args[0]).clone() if isinstance(args[0], OnGPU) else args[0]
        if func in ASK_THE_DRIVER and any(isinstance(part, OnGPU) for part in args):
            _check_places(func, args if func is torch.where else args[:1])
            return OnGPU(func(*tree_map(_held, args), **kwargs))
        if func is Tensor.__setitem__ and isinstance(args[0], OnGPU):
            args[0].held[tree_map(_held, args[1])] = _held(args[2])
            return None
        if func in NUMBERS:
            return func(_held(args[0]))
        if func is Tensor.numpy and isinstance(args[0], OnGPU):
            raise TypeError("can't convert a cuda:0 tensor to numpy")
        return func(*args, **kwargs)


@contextmanager
def stand_in() -> Iterator[torch.device]:
    """The stand-in's device, while tensors may be made on it."""
    with _Moves():
        yield CUDA


def _check_places(func: Any, parts: Sequence[Any]) -> None:
    """Raise RuntimeError where a tensor with dimensions is on the CPU."""
    if any(isinstance(part, Tensor) and not isinstance(part, OnGPU) and part.ndim > 0 for part in parts):
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, found cuda:0 and cpu")


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, OnGPU) else leaf
