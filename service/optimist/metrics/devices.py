"""Finds the device for tensors: the CPU or a CUDA GPU. Imports torch only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimist_client.errors import FixError

if TYPE_CHECKING:
    import torch


def find_device(name: str) -> torch.device:
    """The device called cpu, cuda or cuda:<i>. Raises FixError for another name, and for a missing GPU."""
    import torch

    kind, colon, index = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (colon and not (index.isascii() and index.isdigit()))):
        raise FixError(f"device: expected cpu, cuda or cuda:<i>, got {name!r}")
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if count == 0:
        built = "without CUDA" if torch.version.cuda is None else f"for CUDA {torch.version.cuda}, and sees no GPU"
        raise FixError(f"device {name!r} is not here: torch {torch.__version__} was built {built}; use cpu")
    if int(index or 0) >= count:
        raise FixError(f"device {name!r} is not here: there is cuda:0 to cuda:{count - 1}")
    # With an index, as in the device of a tensor.
    return torch.device("cuda", int(index or 0))
