"""Sets of samples, one of each generator, in memory, in files or in folders: read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.batches import as_matrices
from optimist_client.errors import FixError
from optimist_client.files import MOMENTS, SUFFIXES, Arrays, read_arrays
from optimist_client.metrics import declared
from optimist_client.rows import NO_FIELDS, Fields, Rows
from optimist_client.rows import SUFFIXES as ROWS


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


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of one generator, and the file that they are from, if there is one."""

    name: str
    batch: Any
    """Rows (n, d), or arrays by name."""
    file: Path | None = None
    ids: Sequence[str] | None = None
    """By which samples of several sets belong together; None: by their places."""
    common: int | None = None
    """How many of the first samples belong to those of all other sets; None: all, as far as the others have as many."""


@dataclass(frozen=True, slots=True)
class FileSamples(Samples):
    """All samples of one generator in a file."""

    batch: Arrays
    file: Path = Path()


def paired_by_ids(sets: Callable[[], Iterator[FileSamples]]) -> Callable[[], Iterator[Samples]]:
    """The sets as they are, or where they have ids with the samples first whose ids are in all sets, in the same order.

    Raises FixError where some sets have ids and others none, and where no id is in all of them.
    """
    known = [(one.file, one.ids) for one in sets()]
    if all(ids is None for _, ids in known):
        return sets
    if without := [file for file, ids in known if ids is None]:
        raise FixError(f"{without[0]}: expected an id of each row, as other files have")
    shared = set[str].intersection(*(set(ids or ()) for _, ids in known))
    if not shared:
        raise FixError(f"ids: none is in all of {', '.join(f'{file}' for file, _ in known)}")
    order = {one: place for place, one in enumerate(one for one in known[0][1] or () if one in shared)}

    def ordered() -> Iterator[Samples]:
        for one in sets():
            ids = one.ids or ()
            places = sorted(range(len(ids)), key=lambda place: order.get(ids[place], len(order)))
            yield replace(one, batch={name: rows[places] for name, rows in one.batch.items()}, common=len(order))

    return ordered


def reader(samples: Any, names: Sequence[str]) -> Callable[[], Iterator[Samples]]:
    """Reads the sets given by name, of those in files the arrays of these `names`.

    Raises FixError for anything but sets by name.
    """
    if not isinstance(samples, Mapping) or not all(isinstance(name, str) for name in samples):
        raise FixError("samples: expected sets of samples by name, such as {'old': rows, 'new': rows}")
    return lambda: _read(samples, names)


def _read(samples: Mapping[str, Any], names: Sequence[str]) -> Iterator[Samples]:
    """The sets, those in files read now."""
    for name, one in samples.items():
        if isinstance(one, str | Path):
            yield Samples(name, of_metric(f"{one}", read_arrays(Path(one)), names), Path(one))
        else:
            yield Samples(name, one)


@contextmanager
def naming(one: Samples) -> Generator[None]:
    """Errors within name the set of samples."""
    try:
        yield
    except (FixError, ArithmeticError) as error:
        if one.file is None:
            raise FixError(f"samples of {one.name!r}: {error}") from None
        raise FixError(f"{one.file}: array {one.name!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read of the files and folders of generators."""

    columns: Mapping[str, int | None]
    """The arrays by name, with their columns where these are known."""
    told_by: str = "the settings"
    """What says these numbers of columns."""
    is_whole: bool = False
    """Whether each file is one generator with all arrays. Otherwise every array of a file is a generator's."""
    beside: Path | None = None
    """A file in the folders that is no generator's: the reference."""
    fields: Fields = NO_FIELDS


def sets_in(files: Sequence[Path], wanted: Wanted, paired: bool) -> Callable[[], Iterator[FileSamples | Samples]]:
    """Reads the sets of all generators in the files and folders, one in memory at a time.

    Paired ones are in the order of their ids, where their rows have some.
    """
    if not paired:
        return lambda: generators_in(files, wanted)
    return paired_by_ids(lambda: generators_in(files, wanted, with_ids=True))


def generators_in(files: Sequence[Path], wanted: Wanted, *, with_ids: bool = False) -> Iterator[FileSamples]:
    """The samples of every generator, one file in memory at a time. Raises FixError if widths differ.

    with_ids: whether rows that have ids bring them.
    """
    widths = {name: columns for name, columns in wanted.columns.items() if columns is not None}
    known = {array: (columns, wanted.told_by) for array, columns in widths.items()}
    names = tuple(wanted.columns)
    for file in files:
        if file.is_dir():
            found = _in_folder(file, names, wanted.beside)
        elif file.suffix in ROWS:
            found = _of_rows(Rows.from_file(file, wanted.fields), names, wanted.is_whole, with_ids)
        else:
            found = _batches_of(file, read_arrays(file, wanted.fields), names, wanted.is_whole)
        for one in found:
            name, batch = one.name, as_matrices(one.batch, widths)
            for array, rows in batch.items():
                check_matrix(file, name if len(names) == 1 else array, rows)
                columns, whose = known.setdefault(array, (rows.shape[1], f"{name!r} of {file}"))
                if rows.shape[1] != columns:
                    expected = f"{columns} columns" if len(names) == 1 else f"{columns} columns of {array}"
                    raise FixError(f"{file}: expected {expected}, as {whose} has; {name!r} has {rows.shape[1]}")
            yield replace(one, batch=batch)


def _in_folder(folder: Path, names: Sequence[str], beside: Path | None) -> Iterator[FileSamples]:
    """The generators of a folder, by name."""
    for name, origin, arrays in in_folder(folder, names, beside):
        yield FileSamples(name, of_metric(origin, arrays, names), folder)


def _of_rows(rows: Rows, names: Sequence[str], is_whole: bool, with_ids: bool) -> Iterator[FileSamples]:
    """The generators of rows, each of which may be several by its fields."""
    for generator, part in rows.by_generator().items():
        ids = part.ids() if with_ids else None
        for one in _batches_of(rows.file, part.arrays(), names, is_whole, generator):
            yield replace(one, ids=ids)


def _batches_of(
    file: Path, arrays: Arrays, names: Sequence[str], is_whole: bool, generator: str | None = None
) -> Iterator[FileSamples]:
    """The generators of a file, by displayed name: one per array, or a single one that has them all.

    generator: of a part of the file.
    """
    alone = generator or file.stem
    if is_whole:
        yield FileSamples(alone, of_metric(f"{file}", arrays, names), file)
        return
    for name, rows in arrays.items():
        yield FileSamples(alone if len(arrays) == 1 else name, {names[0]: rows}, file)


def check_matrix(file: Path, name: str, rows: NDArray[Any]) -> None:
    """Raise FixError unless the array of a file is a matrix of more than one row."""
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise FixError(f"{file}: array {name!r}: expected shape (n, d), found {rows.shape}")
    if len(rows) == 1:
        raise FixError(f"{file}: array {name!r}: expected two rows or more, as one says nothing of errors; found 1")
