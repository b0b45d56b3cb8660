"""Reads sources from files: a folder with one file or folder per generator, or one file with all generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from optimist.local.sets import in_folder, of_metric
from optimist.numerics.batches import as_matrices
from optimist.simulation.sources.arrays import ArraySource
from optimist.simulation.sources.base import Rows, Source
from optimist.simulation.sources.gaussian import GaussianSource
from optimist_client.errors import FixError
from optimist_client.files import moments_among, read_arrays
from optimist_client.metrics import find

Found = Iterator[tuple[str, str, Rows]]
"""Name, origin and arrays by name of each generator."""


def files(
    path: str | Path, metric: str | Mapping[str, int | None] = "fid", *, beside: Path | None = None
) -> dict[str, Source]:
    """Read the generators of a folder or a file, by name in alphabetical order.

    metric: its name, or the names of all arrays that are wanted, with their columns where these are known.
    In a folder every file (.npy, .npz, .safetensors, .parquet) is a generator, named by its stem. A subfolder is a
    generator, too: its files are tensors, named by their stems or by the arrays in them, or parts to be concatenated.
    In a file every array is a generator; arrays of the same generator may be named `<generator>/<tensor>`. A generator
    with `mean` and `covariance` (or `mu` and `sigma`) is a Gaussian. Arrays of one column may be (n,). `beside` is a
    file to ignore: a reference in the same folder. Raises FixError, naming the file, for anything else.
    """
    place, sources = Path(path), dict[str, Source]()
    wanted = _columns(metric) if isinstance(metric, str) else metric
    if not place.exists():
        raise FixError(f"{place}: no such file or folder")
    found = in_folder(place, tuple(wanted), beside) if place.is_dir() else _in_file(place)
    for name, origin, arrays in sorted(found, key=lambda each: each[0]):
        if name.encode("utf-8", "replace").decode() != name:  # file names may be arbitrary bytes
            raise FixError(f"{place}: expected generator names in UTF-8, found {name!a}")
        if name in sources:
            raise FixError(f"{origin}: expected distinct generator names, found {name!r} in {sources[name].origin}")
        sources[name] = _source(origin, arrays, wanted)
    return sources


def _columns(metric: str) -> dict[str, int | None]:
    declared = find(metric)()
    return {name: declared.widths.get(name) for name in declared.arrays}


def _in_file(file: Path) -> Found:
    arrays = read_arrays(file)
    if moments_among(arrays):
        yield file.stem, f"{file}", dict(arrays)
        return
    grouped: dict[str, Rows] = {}
    for name, array in arrays.items():
        generator, _, tensor = name.rpartition("/")
        grouped.setdefault(generator or name, {})[tensor if generator else name] = array
    for generator, rows in grouped.items():
        yield generator, f"{file}: {generator!r}", rows


def _source(origin: str, arrays: Rows, wanted: Mapping[str, int | None]) -> Source:
    if found := moments_among(arrays):
        mean, covariance = found[:2]
        try:
            return GaussianSource(arrays[mean], arrays[covariance], origin)
        except ValueError as error:
            raise FixError(f"{origin}: {error}".replace("the reference ", "the ")) from None
    columns = {name: width for name, width in wanted.items() if width is not None}
    rows = as_matrices(of_metric(origin, arrays, tuple(wanted)), columns)
    for name, array in rows.items():
        if array.ndim != 2 or array.shape[1] < 1:
            raise FixError(f"{origin}: {name}: expected shape (n, d), found {array.shape}")
    return ArraySource(rows, origin)
