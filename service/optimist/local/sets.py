"""Sets of samples, one of each generator, in memory, in files or in folders: read one after the other, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimation.arrays import Batch, arrays_of, check_arrays, tensors_of
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
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


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of one generator, and the file that they are from, if there is one."""

    name: str
    batch: Batch
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


def seen(sets: Iterable[Samples], question: Question) -> tuple[list[str], list[int], dict[str, list[Tensor]]]:
    """Distinct names and the lengths of all sets, once they are checked, and the first rows of each array."""
    found: list[tuple[str, str, dict[str, Tensor], int]] = []
    widths: dict[str, int] | None = None
    for one in sets:
        with naming(one):
            arrays = arrays_of(one.batch, question.reads.values())
            arrays = check_arrays(arrays, [question], widths)
        widths = {array: rows.shape[1] for array, rows in tensors_of(arrays).items()}
        tensors = question.own(tensors_of(arrays))
        most = question.rows_to_fit(1)
        rows = len(next(iter(tensors.values())))
        longer = one.name if one.file is None else f"{one.file}:{one.name}"
        found.append((one.name, longer, {array: part[:most].clone() for array, part in tensors.items()}, rows))
    counts = Counter(name for name, *_ in found)
    names = [name if counts[name] == 1 else longer for name, longer, *_ in found]
    for name, count in Counter(names).items():
        if count > 1:
            raise FixError(f"{name}: expected different sets of samples, got this one {count} times")
    needed = question.rows_to_fit(len(found))
    return (
        names,
        [rows for *_, rows in found],
        {array: [first[array][:needed] for *_, first, _ in found] for array in question.arrays},
    )


def streamed(
    sets: Iterable[Samples],
    names: Iterable[str],
    question: Question,
    begun: Callable[[str], None],
    lengths: Iterable[int] = (),
) -> Iterator[tuple[Samples, str, StreamingEstimator]]:
    """An estimator of each whole set, row i with index i; `begun` is called with its name before.

    lengths: of all sets; if they are paired, an estimator knows the estimates at those of the shorter ones.
    """
    for name, one in zip(names, sets, strict=True):
        begun(name)
        tensors = question.own(tensors_of(check_arrays(arrays_of(one.batch, question.reads.values()), [question])))
        bound = question.bound_for({array: rows.shape[1] for array, rows in tensors.items()})
        rows = len(next(iter(tensors.values())))
        known = lengths if one.common is None else [one.common]
        ends = sorted({length for length in known if question.is_paired and 0 < length < rows})
        with naming(one):
            # Numbers take no room: all of them are compared.
            is_number = sum(bound.metric.widths.values()) == 1
            estimator = StreamingEstimator(bound, 0.0, question.is_paired, common=rows if is_number else None)
            for start, end in pairwise([0, *ends, rows]):
                part = {array: values[start:end] for array, values in tensors.items()}
                indices = (start, end - start) if one.common is None or start < one.common else None
                estimator.add(part, [f"{row}" for row in range(start, end)], None, indices)
        yield one, name, estimator


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


def reader(samples: Any, question: Question) -> Callable[[], Iterator[Samples]]:
    """Reads the sets given by name. Raises FixError for anything but sets by name."""
    if not isinstance(samples, Mapping) or not all(isinstance(name, str) for name in samples):
        raise FixError("samples: expected sets of samples by name, such as {'old': rows, 'new': rows}")
    return lambda: _read(samples, question)


def _read(samples: Mapping[str, Batch | str | Path], question: Question) -> Iterator[Samples]:
    """The sets, those in files read now."""
    for name, one in samples.items():
        if isinstance(one, str | Path):
            yield Samples(name, of_metric(f"{one}", read_arrays(Path(one)), tuple(question.reads.values())), Path(one))
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
