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

from optimist.numerics.batches import as_matrices
from optimist_client.errors import FixError
from optimist_client.files import FEATURES, MOMENTS, SUFFIXES, Arrays, read_arrays
from optimist_client.metrics import declared
from optimist_client.models import Basis
from optimist_client.rows import NO_FIELDS, TABLES, Fields, Rows


def in_folder(
    folder: Path, columns: Mapping[str, int | None], beside: Path | None, fields: Fields = NO_FIELDS
) -> Iterator[tuple[str, str, Arrays]]:
    """Name, origin and arrays of each generator in a folder; one generator is in memory at a time.

    Every file (`files.SUFFIXES`) is a generator, named by its stem. A subfolder is one, too: its files are arrays,
    named by their stems or by the arrays in them, or parts to be concatenated. columns: the arrays by name, with their
    columns where these are known. `beside` is a file to ignore: a reference in the same folder. fields: of the rows of
    tables. Raises FixError, naming the file, for anything else.
    """
    chosen = [one for one in _members(folder) if one.is_dir() or one.suffix.lower() in SUFFIXES]
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
    known = {array for metric in declared().values() for array in metric.arrays} | {*chain(*MOMENTS)}
    for file in sorted(member for member in folder.iterdir() if member.suffix.lower() in SUFFIXES):
        arrays = read_arrays(file, wanted=columns)
        if len(arrays) == 1:
            arrays = {file.stem if file.stem in known else next(iter(columns)): next(iter(arrays.values()))}
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
class Samples:
    """All samples of one generator, and the file that they are from, if there is one."""

    name: str
    batch: Any
    """Rows (n, d), or arrays by name."""
    file: Path | None = None
    ids: Sequence[str] | None = None
    """By which samples of several sets belong together; None: by their places."""
    basis: Basis | None = None
    """What is known of how they were read."""
    common: int | None = None
    """How many of the first samples belong to those of all other sets; None: all, as far as the others have as many."""
    clusters: Sequence[str] | None = None
    """The cluster of each sample; None: samples are independent."""
    labels: Sequence[float] | None = None
    """What people say of each sample, NaN where they say nothing; None: nobody is asked."""
    doubt: Sequence[float] | None = None
    """How unsure the judge is of each sample; None: it does not say."""

    def at(self, places: Sequence[int], batch: Mapping[str, NDArray[Any]], common: int | None = None) -> Self:
        """The samples of these places of the arrays; `common` of these."""
        beside = {name: getattr(self, name) for name in ("ids", "clusters", "labels", "doubt")}
        picked = {name: [each[place] for place in places] for name, each in beside.items() if each is not None}
        rows = {name: array[places] for name, array in batch.items()}
        return replace(self, batch=rows, common=common, **picked)


@dataclass(frozen=True, slots=True)
class FileSamples(Samples):
    """All samples of one generator in a file."""

    batch: Arrays
    file: Path = Path()


def paired_by_ids(sets: Callable[[], Iterator[Samples]]) -> Callable[[], Iterator[Samples]]:
    """The sets with the samples first whose ids are in all of them, in the same order; as they are where none has ids.

    Raises FixError where no id is in all sets, or they have other kinds of ids.
    """
    known = [(one.file, one.ids, one.basis) for one in sets()]
    if all(ids is None for _, ids, _ in known):
        return sets
    fields = [None if basis is None else basis.paired_by for _, _, basis in known]
    for (file, *_), field in zip(known, fields, strict=True):
        if (field in (None, "place")) != (fields[0] in (None, "place")):
            raise FixError(f"{file}: expected an id of each row (--id), as other files have")
    shared = set[str].intersection(*(set(ids or ()) for _, ids, _ in known))
    if not shared:
        raise FixError(f"ids: none is in all of {', '.join(f'{file}' for file, *_ in known)}")
    order = {one: place for place, one in enumerate(one for one in known[0][1] or () if one in shared)}

    def ordered() -> Iterator[Samples]:
        for one in sets():
            ids = one.ids or ()
            places = sorted(range(len(ids)), key=lambda place: order.get(ids[place], len(order)))
            yield one.at(places, one.batch, len(order))

    return ordered


def reader(
    samples: Any, columns: Mapping[str, int | None], paired: bool, beside: Fields = NO_FIELDS
) -> Callable[[], Iterator[Samples]]:
    """Reads the sets given by name, of those in files the arrays of these names, with their columns where known.

    Paired ones are in the order of their ids, where all are tables. beside: the fields of tables, or the arrays in
    memory, of clusters, labels and doubt. Raises FixError for anything but sets by name.
    """
    if not isinstance(samples, Mapping) or not all(isinstance(name, str) for name in samples):
        raise FixError("samples: expected sets of samples by name, such as {'old': rows, 'new': rows}")
    if paired and all(isinstance(one, str | Path) and is_table(Path(one)) for one in samples.values()):
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
    arrays = {one: np.asarray(array) for one, array in batch.items()}
    return arrays, arrays.pop(name).flatten()


def _read(samples: Mapping[str, Any], columns: Mapping[str, int | None], fields: Fields) -> Iterator[Samples]:
    """The sets, those in files read now."""
    like: dict[str, Sequence[str]] = {}
    for name, one in samples.items():
        if not isinstance(one, str | Path):
            batch, known = one, dict[str, Any]()
            if fields.cluster is not None:
                batch, known["clusters"] = clusters_beside(f"samples of {name!r}", batch, fields.cluster)
            for what, array in (("labels", fields.labels), ("doubt", fields.doubt)):
                if array is not None:
                    batch, known[what] = numbers_beside(f"samples of {name!r}", batch, array)
            yield Samples(name, batch, **known)
        elif is_table(Path(one)):
            several = [*_of_rows(Path(one), Wanted(columns, is_whole=True, fields=fields), like, with_ids=True)]
            if len(several) > 1:
                found = ", ".join(part.name for part in several)
                raise FixError(f"{one}: expected the rows of one generator, found those of {found}")
            yield replace(several[0], name=name)
        else:
            arrays = read_arrays(Path(one), fields, columns)
            yield Samples(name, of_metric(f"{one}", arrays, tuple(columns)), Path(one))


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
    like: dict[str, Sequence[str]] = {}
    if wanted.beside is not None and wanted.beside.suffix.lower() in TABLES and any(map(is_table, files)):
        like = dict(Rows.from_file(wanted.beside).arrays(FEATURES).columns)
    for file in files:
        if file.is_dir():
            found = _in_folder(file, wanted)
        elif is_table(file):
            found = _of_rows(file, wanted, like, with_ids)
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
            count = len(next(iter(batch.values())))
            basis = one.basis or Basis(rows={})
            yield replace(one, batch=batch, basis=basis.model_copy(update={"rows": {name: count}}))


def is_table(file: Path) -> bool:
    """Whether the file has rows with fields, by its ending."""
    return file.suffix.lower() in TABLES


def _in_folder(folder: Path, wanted: Wanted) -> Iterator[FileSamples]:
    """The generators of a folder, by name."""
    names = tuple(wanted.columns)
    chosen = {one for one in _members(folder) if one.is_dir() or one.suffix.lower() in SUFFIXES}
    others = tuple(f"{one}" for one in _members(folder) if one not in chosen)
    left_out = (f"{len(others):,} other files of {folder}, such as {others[0]}",) if others else ()
    for name, origin, arrays in in_folder(folder, wanted.columns, wanted.beside, wanted.fields):
        yield FileSamples(name, of_metric(origin, arrays, names), folder, basis=Basis(rows={}, left_out=left_out))


def _of_rows(file: Path, wanted: Wanted, like: dict[str, Sequence[str]], with_ids: bool) -> Iterator[FileSamples]:
    """The generators of a table: those that a field names, or several fields that are asked for.

    like: the fields of the columns of arrays before, to which those of the first table are added.
    """
    rows = Rows.from_file(file, wanted.fields)
    for generator, part in rows.by_generator().items():
        taken = part.arrays(wanted.columns, like)
        for array, columns in taken.columns.items():
            like.setdefault(array, columns)
        several = len(taken.arrays) > 1 and rows.generator is not None
        for one in _batches_of(file, taken.arrays, tuple(wanted.columns), wanted.is_whole, generator):
            name = f"{generator}/{one.name}" if several and one.name != generator else one.name
            fields = taken.columns.get(one.name, next(iter(taken.columns.values())))
            counts = {"missing": taken.missing, "unselected": taken.dropped}
            known = {field: {name: count} for field, count in counts.items() if count}
            notes = () if rows.generator in (None, wanted.fields.by) else (f"generators by the field {rows.generator}",)
            notes += () if taken.clusters is None else (f"clusters by the field {wanted.fields.cluster}",)
            basis = Basis(rows={}, fields=fields, paired_by=taken.paired_by, notes=notes).model_copy(update=known)
            ids = taken.ids if with_ids else None
            beside: dict[str, Any] = {"clusters": taken.clusters, "labels": taken.labels, "doubt": taken.doubt}
            yield replace(one, name=name, ids=ids, basis=basis, **beside)


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
        are_images = rows.ndim == 4 and rows.dtype == np.uint8
        hint = "; images are embedded by `optimist compare`" if are_images else ""
        raise FixError(f"{file}: array {name!r}: expected shape (n, d), found {rows.shape}{hint}")
    if len(rows) == 1:
        raise FixError(f"{file}: array {name!r}: expected two rows or more, as one says nothing of errors; found 1")
