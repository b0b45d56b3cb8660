"""Reads arrays of numbers from files. Pickles are not loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from optimist_client import rows, tensors
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile

OF_NUMBERS = (".npy", ".npz", ".safetensors")
"""The endings of files that hold nothing but numbers."""
SUFFIXES = (*OF_NUMBERS, ".parquet", *rows.SUFFIXES)
FEATURES: Mapping[str, int | None] = {"features": None}
"""Arrays read from a table by default: one array, of any number of columns."""
MOMENTS = (("mean", "covariance"), ("mu", "sigma"))
"""Names of reference moments in a file: Optimist's, and pytorch-fid's."""
BESIDE_MOMENTS = ("samples", "some_rows")
"""Arrays that may accompany moments: the number of real rows, and some of these rows."""

Arrays = dict[str, NDArray[Any]]


def moments_among(names: Collection[str]) -> tuple[str, ...]:
    """The names of mean and covariance, if a file has both, and its names of `BESIDE_MOMENTS`; else none.

    Other arrays describe how the moments were made.
    """
    pair = next((pair for pair in MOMENTS if set(pair) <= set(names)), ())
    return (*pair, *(name for name in BESIDE_MOMENTS if pair and name in names))


def read_arrays(
    file: Path, fields: rows.Fields = rows.NO_FIELDS, wanted: Mapping[str, int | None] = FEATURES
) -> Arrays:
    """Read the arrays of a file by name: at least one, all of real numbers. Raises FixError.

    fields: of the rows of tables. wanted: the names of the arrays made from rows, with their columns or None. An `.npz`
    with a mean and covariance is read as moments (`moments_among`). Axes of length 1 after the second, as pooling
    layers leave them, are dropped; whole numbers (n,) beside a matrix of as many rows are labels, and skipped.
    """
    suffix = file.suffix.lower()
    if suffix == ".gz":
        raise FixError(f"{file}: expected a file that is not packed: unpack it first, as by gunzip")
    if suffix not in SUFFIXES:
        raise FixError(f"{file}: expected a file ending in {', '.join(SUFFIXES)}, found {file.suffix or 'no ending'!r}")
    if file.exists() and not file.is_file():
        raise FixError(f"{file}: expected a regular file, found {'a folder' if file.is_dir() else 'a special file'}")
    if suffix in rows.TABLES:
        parts = rows.Rows.from_file(file, fields).by_generator()
        by_name = {name: part.arrays(wanted).arrays for name, part in parts.items()}
        if len(by_name) == 1:
            return next(iter(by_name.values()))
        return {f"{name}/{key}": array for name, arrays in by_name.items() for key, array in arrays.items()}
    fields.check_unused(file)
    try:
        arrays = _readers[suffix](file)
    except FileNotFoundError:
        raise FixError(f"{file}: no such file") from None
    # A damaged file may raise errors of zipfile, zlib or numpy, depending on where it is damaged.
    except Exception as error:
        raise FixError(f"{file}: expected a readable {file.suffix} file of numbers: {error}") from None
    if not arrays:
        raise FixError(f"{file}: expected at least one array, found none")
    arrays = {name: _plain(array) for name, array in arrays.items() if not _are_labels(array, arrays)}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise FixError(f"{file}: array {name!r}: expected real numbers, found dtype {array.dtype}")
    return arrays


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array with booleans as numbers, and without axes of length 1 behind the second one."""
    if array.ndim > 2 and max(array.shape[2:]) == 1:
        array = array.reshape(array.shape[:2])
    return array.astype(np.uint8) if array.dtype.kind == "b" else array


def _are_labels(array: NDArray[Any], arrays: Arrays) -> bool:
    """True for labels: one whole number for each row of another array."""
    if array.ndim != 1 or array.dtype.kind not in "iuUS" or moments_among(arrays):
        return False
    return any(other.ndim > 1 and len(other) == len(array) for other in arrays.values())


def _load(file: Path) -> Arrays:
    # Open the file here: if the archive is damaged, np.load does not close a file that it opened itself.
    with file.open("rb") as stream:
        loaded = np.load(stream, allow_pickle=False)
        if not _is_archive(loaded):
            return {file.stem: loaded}
        with loaded:
            names = list(loaded)
            return {name: np.asarray(loaded[name]) for name in moments_among(names) or names}


def _is_archive(loaded: object) -> TypeGuard[NpzFile[Any]]:
    return isinstance(loaded, np.lib.npyio.NpzFile)


def _decode(file: Path) -> Arrays:
    return tensors.decode(file.read_bytes())


_readers = dict(zip(OF_NUMBERS, (_load, _load, _decode), strict=True))
