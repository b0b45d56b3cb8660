"""Reads the generators of a folder: one file, or one folder of files, each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError
from optimist_client.files import MOMENTS, SUFFIXES, Arrays, read_arrays
from optimist_client.metrics import declared


def in_folder(folder: Path, tensors: Sequence[str], beside: Path | None) -> Iterator[tuple[str, str, Arrays]]:
    """Name, origin and arrays of each generator in a folder; one generator is in memory at a time.

    Every file (.npy, .npz, .safetensors, .parquet) is a generator, named by its stem. A subfolder is one, too: its
    files are tensors, named by their stems or by the arrays in them, or parts to be concatenated. `beside` is a file
    to ignore: a reference in the same folder. Raises FixError, naming the file, for anything else.
    """
    members = sorted(member for member in folder.iterdir() if not member.name.startswith("."))
    chosen = [member for member in members if member.suffix in SUFFIXES or member.is_dir()]
    chosen = [member for member in chosen if beside is None or member.resolve() != beside.resolve()]
    if not chosen:
        wanted = f"a file ending in {', '.join(SUFFIXES)}, or a folder, for each generator"
        raise FixError(f"{folder}: expected {wanted}; found {len(members)} other entries")
    for member in chosen:
        if member.is_dir():
            yield member.name, f"{member}", _of_folder(member, tensors)
        else:
            yield member.stem, f"{member}", dict(read_arrays(member))


def _of_folder(folder: Path, tensors: Sequence[str]) -> Arrays:
    """The arrays of one generator's folder. Arrays with the same name are concatenated."""
    parts: dict[str, list[NDArray[Any]]] = {}
    # File names (without suffix) that are names of arrays.
    known = {array for metric in declared().values() for array in metric.arrays} | {*chain(*MOMENTS)}
    for file in sorted(member for member in folder.iterdir() if member.suffix in SUFFIXES):
        arrays = read_arrays(file)
        if len(arrays) == 1:
            arrays = {file.stem if file.stem in known else tensors[0]: next(iter(arrays.values()))}
        for name, array in arrays.items():
            parts.setdefault(name, []).append(array)
    if not parts:
        raise FixError(f"{folder}: expected files ending in {', '.join(SUFFIXES)}, found none")
    for name, arrays in parts.items():
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            found = " and ".join(map(str, sorted(shapes)))
            raise FixError(f"{folder}: {name}: expected parts with rows of one shape, found {found}")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def of_metric(origin: str, arrays: Arrays, tensors: Sequence[str]) -> Arrays:
    """The metric's tensors among the arrays. A single array may have any name if the metric needs only one."""
    if set(tensors) <= set(arrays):
        return {name: arrays[name] for name in tensors}
    if len(tensors) == len(arrays) == 1:
        return {tensors[0]: next(iter(arrays.values()))}
    wanted = f"one array, or one called {tensors[0]!r}" if len(tensors) == 1 else f"the arrays {', '.join(tensors)}"
    raise FixError(f"{origin}: expected {wanted}; found {', '.join(arrays)}")
