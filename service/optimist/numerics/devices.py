"""Where numbers live: the CPU, or a CUDA GPU. Free of torch until one is looked for."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

M_MMAP_THRESHOLD = -3


class DeviceError(ValueError):
    """The device has no such name, or is not here; the message says what there is."""


def find_device(name: str) -> torch.device:
    """The device called cpu, cuda or cuda:<i>. Raises DeviceError for another name, and for a GPU that is not here."""
    import torch

    kind, colon, index = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (colon and not (index.isascii() and index.isdigit()))):
        raise DeviceError(f"device: expected cpu, cuda or cuda:<i>, got {name!r}")
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if count == 0:
        built = "without CUDA" if torch.version.cuda is None else f"for CUDA {torch.version.cuda}, and sees no GPU"
        raise DeviceError(f"device {name!r} is not here: torch {torch.__version__} was built {built}; use cpu")
    if int(index or 0) >= count:
        raise DeviceError(f"device {name!r} is not here: there is cuda:0 to cuda:{count - 1}")
    # With its index, as tensors name it.
    return torch.device("cuda", int(index or 0))


def give_back_from(size: int) -> None:
    """Have blocks of `size` bytes and more go back to the system as soon as they are freed.

    glibc keeps freed blocks of up to 32 MiB otherwise, in a heap for each thread.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, size)
