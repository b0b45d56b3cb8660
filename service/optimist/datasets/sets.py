"""Sets of samples, one of each generator, in memory, in files or in folders: read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from optimist.anomalies.batches import as_matrices
from optimist_client.errors import FixError
from optimist_client.files import FEATURES, MOMENTS, SUFFIXES, Arrays, read_arrays
from optimist_client.metrics import declared
from optimist_client.models import Basis
from optimist_client.rows import NO_FIELDS, TABLES, Fields, Rows


def in_folder(
    folder: Path, columns: Mapping[str, int | None], beside: Path | None, fields: Fields = NO_FIELDS
) -> Iterator[tuple[str, str, Arrays]]:
    """Name, origin and arrays of each generator in a folder; one generator is in memory at a time.

    Every file (`files.SUFFIXES`) is a generator, named by its stem. A subfolder is a generator, too: its files are
    arrays, named by their stems or by the arrays in them, or parts to be concatenated. columns: the arrays by name,
    with their columns or None. `beside` is a file to ignore: a reference in the same folder. fields: of the rows of
    tables. Raises FixError, naming the file, for anything else.
    """
    chosen = [member for member in _members(folder) if member.is_dir() or member.suffix.lower() in SUFFIXES]
    chosen = [member for member in chosen if beside is None or member.resolve() != beside.resolve()]
    if not chosen:
        wanted = f"a file ending in {', '.join(SUFFIXES)}, or a folder, for each generator"
        raise FixError(f"{folder}: expected {wanted}; found {len(_members(folder))} other entries")
    for member in chosen:
        if member.is_dir():
            yield member.name, f"{member}", _of_folder(member, columns)
        else:
            yield (
                member.stem,
                f"{member}",
                dict(read_arrays(member, fields if member.suffix in TABLES else NO_FIELDS, columns)),
            )


def _members(folder: Path) -> list[Path]:
    return sorted(member for member in folder.iterdir() if not member.name.startswith("."))


def _of_folder(folder: Path, columns: Mapping[str, int | None]) -> Arrays:
    """The arrays of one generator's folder. Arrays with the same name are concatenated."""
    parts: dict[str, list[NDArray[Any]]] = {}
    # File names (without suffix) that are names of arrays.
    array_names = {array for metric in declared().values() for array in metric.arrays} | {*chain(*MOMENTS)}
    for file in sorted(member for member in folder.iterdir() if member.suffix.lower() in SUFFIXES):
        arrays = read_arrays(file, wanted=columns)
        if len(arrays) == 1:
            arrays = {file.stem if file.stem in array_names else next(iter(columns)): next(iter(arrays.values()))}
        for name, array in arrays.items():
            parts.setdefault(name, []).append(array)
    if not parts:
        raise FixError(f"{folder}: expected files ending in {', '.join(SUFFIXES)}, found none")
    for name, arrays in parts.items():
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            listed = " and ".join(map(str, sorted(shapes)))
            raise FixError(f"{folder}: {name}: expected parts with rows of one shape, found {listed}")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def by_generator(arrays: Arrays) -> dict[str, Arrays]:
    """The arrays of each generator of a file, named `<generator>/<array>`, or by the generator alone."""
    grouped: dict[str, Arrays] = {}
    for name, array in arrays.items():
        generator, _, own = name.rpartition("/")
        grouped.setdefault(generator or name, {})[own if generator else name] = array
    return grouped


def of_metric(origin: str, arrays: Arrays, tensors: Sequence[str]) -> Arrays:
    """The metric's tensors among the arrays. A single array may have any name if the metric needs only one."""
    if set(tensors) <= set(arrays):
        return {name: arrays[name] for name in tensors}
    if len(tensors) == len(arrays) == 1:
        return {tensors[0]: next(iter(arrays.values()))}
    wanted = f"one array, or one called {tensors[0]!r}" if len(tensors) == 1 else f"the arrays {', '.join(tensors)}"
    raise FixError(f"{origin}: expected {wanted}; found {', '.join(arrays)}")


@dataclass(frozen=True, slots=True)
class SampleSet:
    """All samples of one generator, and the file that they are from, if there is one."""

    name: str
    batch: Any
    """Rows (n, d), or arrays by name."""
    file: Path | None = None
    ids: Sequence[str] | None = None
    """Ids by which samples of several sets belong together; None: their positions."""
    basis: Basis | None = None
    """Facts about how the samples were read."""
    common: int | None = None
    """Number of first samples that belong to the first samples of all other sets; None: as many as the sets share."""
    clusters: Sequence[str] | None = None
    """The cluster of each sample; None: samples are independent."""
    labels: Sequence[float] | None = None
    """Human labels of the samples, NaN without one; None: no labels."""

    def at(self, positions: Sequence[int], batch: Mapping[str, NDArray[Any]], common: int | None = None) -> Self:
        """The samples at these positions of the arrays; `common` of these."""
        beside = {name: getattr(self, name) for name in ("ids", "clusters", "labels")}
        picked = {name: [values[index] for index in positions] for name, values in beside.items() if values is not None}
        rows = {name: array[positions] for name, array in batch.items()}
        return replace(self, batch=rows, common=common, **picked)


@dataclass(frozen=True, slots=True)
class FileSamples(SampleSet):
    """All samples of one generator in a file."""

    batch: Arrays
    file: Path = Path()


def paired_by_ids(sets: Callable[[], Iterator[SampleSet]]) -> Callable[[], Iterator[SampleSet]]:
    """The sets, samples with common ids first and in the same order; unchanged where no set has ids.

    Raises FixError where no id is in all sets, or the sets have different kinds of ids.
    """
    listed = [(part.file, part.ids, part.basis) for part in sets()]
    if all(ids is None for _, ids, _ in listed):
        return sets
    fields = [None if basis is None else basis.paired_by for _, _, basis in listed]
    for (file, *_), field in zip(listed, fields, strict=True):
        if (field in (None, "place")) != (fields[0] in (None, "place")):
            raise FixError(f"{file}: expected an id of each row (--id), as other files have")
    shared = set[str].intersection(*(set(ids or ()) for _, ids, _ in listed))
    if not shared:
        raise FixError(f"ids: none is in all of {', '.join(f'{file}' for file, *_ in listed)}")
    order = {id: position for position, id in enumerate(id for id in listed[0][1] or () if id in shared)}

    def ordered() -> Iterator[SampleSet]:
        for part in sets():
            ids = part.ids or ()
            positions = sorted(range(len(ids)), key=lambda index: order.get(ids[index], len(order)))
            yield part.at(positions, part.batch, len(order))

    return ordered


def reader(
    samples: Any, columns: Mapping[str, int | None], paired: bool, beside: Fields = NO_FIELDS
) -> Callable[[], Iterator[SampleSet]]:
    """Reads the sets given by name, from files the arrays of these names, with their columns where known.

    Paired sets are in the order of their ids, where all are tables. beside: the fields of tables, or the arrays in
    memory, of clusters and labels. Raises FixError for anything but sets by name.
    """
    if not isinstance(samples, Mapping) or not all(isinstance(name, str) for name in samples):
        raise FixError("samples: expected sets of samples by name, such as {'old': rows, 'new': rows}")
    if paired and all(isinstance(source, str | Path) and is_table(Path(source)) for source in samples.values()):
        return paired_by_ids(lambda: _read(samples, columns, beside))
    return lambda: _read(samples, columns, beside)


def clusters_beside(origin: str, batch: Any, cluster: str) -> tuple[Arrays, list[str]]:
    """The other arrays of a batch, and the cluster of each row, which the array of this name has (n,) or (n, 1).

    Raises FixError where there is none.
    """
    arrays, labels = _beside(origin, batch, cluster, "the cluster")
    return arrays, [f"{label}" for label in labels.tolist()]


def numbers_beside(origin: str, batch: Any, name: str) -> tuple[Arrays, list[float]]:
    """The other arrays of a batch, and the number of each row that the array of this name has (n,) or (n, 1), NaN where
    there is none. Raises FixError where there is no such array, or it is of another kind or length.
    """
    arrays, numbers = _beside(origin, batch, name, "a number, or NaN,")
    if numbers.dtype.kind not in "fiub" or any(len(array) != len(numbers) for array in arrays.values()):
        raise FixError(
            f"{origin}: {name}: expected a number or NaN for each row, got {len(numbers)} of {numbers.dtype}"
        )
    return arrays, numbers.astype(np.float64).tolist()


def _beside(origin: str, batch: Any, name: str, what: str) -> tuple[Arrays, NDArray[Any]]:
    if not isinstance(batch, Mapping) or name not in batch:
        raise FixError(f"{origin}: expected arrays by name, one of them {name!r}, {what} of each row")
    arrays = {key: np.asarray(array) for key, array in batch.items()}
    return arrays, arrays.pop(name).flatten()


def _read(samples: Mapping[str, Any], columns: Mapping[str, int | None], fields: Fields) -> Iterator[SampleSet]:
    """The sets; files are read now."""
    like: dict[str, Sequence[str]] = {}
    for name, source in samples.items():
        if not isinstance(source, str | Path):
            batch, columns_beside = source, dict[str, Any]()
            if fields.cluster is not None:
                batch, columns_beside["clusters"] = clusters_beside(f"samples of {name!r}", batch, fields.cluster)
            if fields.labels is not None:
                batch, columns_beside["labels"] = numbers_beside(f"samples of {name!r}", batch, fields.labels)
            yield SampleSet(name, batch, **columns_beside)
        elif is_table(Path(source)):
            several = [
                *_of_rows(Path(source), WantedArrays(columns, is_whole=True, fields=fields), like, with_ids=True)
            ]
            if len(several) > 1:
                listed = ", ".join(part.name for part in several)
                raise FixError(f"{source}: expected the rows of one generator, found {listed}")
            yield replace(several[0], name=name)
        else:
            arrays = read_arrays(Path(source), fields, columns)
            yield SampleSet(name, of_metric(f"{source}", arrays, tuple(columns)), Path(source))


@contextmanager
def naming(samples: SampleSet) -> Generator[None]:
    """Add the set's name to errors within."""
    try:
        yield
    except (FixError, ArithmeticError) as error:
        if samples.file is None:
            raise FixError(f"samples of {samples.name!r}: {error}") from None
        raise FixError(f"{samples.file}: array {samples.name!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class WantedArrays:
    """Arrays to read from the files and folders of generators."""

    columns: Mapping[str, int | None]
    """Arrays by name, with their columns or None."""
    told_by: str = "the settings"
    """Source of these numbers of columns, for messages."""
    is_whole: bool = False
    """True if each file is one generator with all arrays; False if every array of a file is a generator."""
    beside: Path | None = None
    """A file in the folders that is no generator's: the reference."""
    fields: Fields = NO_FIELDS


def sets_in(
    files: Sequence[Path], wanted: WantedArrays, paired: bool
) -> Callable[[], Iterator[FileSamples | SampleSet]]:
    """Reads the sets of all generators in the files and folders, one in memory at a time.

    Paired sets are in the order of their ids, where their rows have some.
    """
    if not paired:
        return lambda: generators_in(files, wanted)
    return paired_by_ids(lambda: generators_in(files, wanted, with_ids=True))


def generators_in(files: Sequence[Path], wanted: WantedArrays, *, with_ids: bool = False) -> Iterator[FileSamples]:
    """The samples of every generator, one file in memory at a time. Raises FixError if widths differ.

    with_ids: True to keep the ids of rows.
    """
    widths = {name: columns for name, columns in wanted.columns.items() if columns is not None}
    seen_widths = {array: (columns, wanted.told_by) for array, columns in widths.items()}
    names = tuple(wanted.columns)
    like: dict[str, Sequence[str]] = {}
    if wanted.beside is not None and wanted.beside.suffix.lower() in TABLES and any(map(is_table, files)):
        like = dict(Rows.from_file(wanted.beside).arrays(FEATURES).columns)
    for file in files:
        if file.is_dir():
            parts = _in_folder(file, wanted)
        elif is_table(file):
            parts = _of_rows(file, wanted, like, with_ids)
        else:
            parts = _batches_of(file, read_arrays(file, wanted.fields), names, wanted.is_whole)
        for part in parts:
            name, batch = part.name, as_matrices(part.batch, widths)
            for array, rows in batch.items():
                check_matrix(file, name if len(names) == 1 else array, rows)
                columns, whose = seen_widths.setdefault(array, (rows.shape[1], f"{name!r} of {file}"))
                if rows.shape[1] != columns:
                    expected = f"{columns} columns" if len(names) == 1 else f"{columns} columns of {array}"
                    raise FixError(f"{file}: expected {expected}, as {whose} has; {name!r} has {rows.shape[1]}")
            count = len(next(iter(batch.values())))
            basis = part.basis or Basis(rows={})
            yield replace(part, batch=batch, basis=basis.model_copy(update={"rows": {name: count}}))


def is_table(file: Path) -> bool:
    """True if the file has rows with fields, by its ending."""
    return file.suffix.lower() in TABLES


def _in_folder(folder: Path, wanted: WantedArrays) -> Iterator[FileSamples]:
    """The generators of a folder, by name."""
    names = tuple(wanted.columns)
    chosen = {member for member in _members(folder) if member.is_dir() or member.suffix.lower() in SUFFIXES}
    others = tuple(f"{member}" for member in _members(folder) if member not in chosen)
    left_out = (f"{len(others):,} other files of {folder}, such as {others[0]}",) if others else ()
    for name, origin, arrays in in_folder(folder, wanted.columns, wanted.beside, wanted.fields):
        yield FileSamples(name, of_metric(origin, arrays, names), folder, basis=Basis(rows={}, left_out=left_out))


def _of_rows(file: Path, wanted: WantedArrays, like: dict[str, Sequence[str]], with_ids: bool) -> Iterator[FileSamples]:
    """The generators of a table: named by a field, or one for each of several wanted fields.

    like: the fields of each array's columns so far, to which the first table's are added.
    """
    rows = Rows.from_file(file, wanted.fields)
    for generator, part in rows.by_generator().items():
        taken = part.arrays(wanted.columns, like)
        for array, columns in taken.columns.items():
            like.setdefault(array, columns)
        several = len(taken.arrays) > 1 and rows.generator is not None
        for samples in _batches_of(file, taken.arrays, tuple(wanted.columns), wanted.is_whole, generator):
            name = f"{generator}/{samples.name}" if several and samples.name != generator else samples.name
            fields = taken.columns.get(samples.name, next(iter(taken.columns.values())))
            counts = {"missing": taken.missing, "unselected": taken.dropped}
            updates = {field: {name: count} for field, count in counts.items() if count}
            notes = () if rows.generator in (None, wanted.fields.by) else (f"generators by the field {rows.generator}",)
            notes += () if taken.clusters is None else (f"clusters by the field {wanted.fields.cluster}",)
            basis = Basis(rows={}, fields=fields, paired_by=taken.paired_by, notes=notes).model_copy(update=updates)
            ids = taken.ids if with_ids else None
            beside: dict[str, Any] = {"clusters": taken.clusters, "labels": taken.labels}
            yield replace(samples, name=name, ids=ids, basis=basis, **beside)


def _batches_of(
    file: Path, arrays: Arrays, names: Sequence[str], is_whole: bool, generator: str | None = None
) -> Iterator[FileSamples]:
    """The generators of a file, by displayed name: one per array, or a single one with all arrays.

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
        are_images = rows.ndim == 4 and rows.dtype == np.uint8
        hint = "; images are embedded by `optimist compare`" if are_images else ""
        raise FixError(f"{file}: array {name!r}: expected shape (n, d), found {rows.shape}{hint}")
    if len(rows) == 1:
        raise FixError(f"{file}: array {name!r}: expected two rows or more, as one says nothing of errors; found 1")
