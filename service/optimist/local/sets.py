"""Sets of samples, one of each generator, in memory or in files: read one after the other, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from torch import Tensor

from optimist.estimation.arrays import Batch, arrays_of, check_arrays, tensors_of
from optimist.estimation.question import Question
from optimist.estimation.track import Track
from optimist.local.folders import of_metric
from optimist_client.errors import FixError
from optimist_client.files import read_arrays


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of one generator, and the file that they are from, if there is one."""

    name: str
    batch: Batch
    file: Path | None = None


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
    needed = question.rows_to_fit(len(found))
    return (
        names,
        [rows for *_, rows in found],
        {array: [first[array][:needed] for *_, first, _ in found] for array in question.arrays},
    )


def tracked(
    sets: Iterable[Samples],
    names: Iterable[str],
    question: Question,
    begun: Callable[[str], None],
    lengths: Iterable[int] = (),
) -> Iterator[tuple[Samples, str, Track]]:
    """A track of each whole set, row i with index i; `begun` is called with its name before.

    lengths: of all sets; if they are paired, a track knows the estimates at those of the shorter ones.
    """
    for name, one in zip(names, sets, strict=True):
        begun(name)
        tensors = question.own(tensors_of(check_arrays(arrays_of(one.batch, question.reads.values()), [question])))
        bound = question.bound_for({array: rows.shape[1] for array, rows in tensors.items()})
        rows = len(next(iter(tensors.values())))
        ends = sorted({length for length in lengths if question.is_paired and length < rows})
        with naming(one):
            # Numbers take no room: all of them are compared.
            is_number = sum(bound.metric.widths.values()) == 1
            track = Track(bound, 0.0, question.is_paired, common=rows if is_number else None)
            for start, end in pairwise([0, *ends, rows]):
                part = {array: values[start:end] for array, values in tensors.items()}
                track.add(part, [f"{row}" for row in range(start, end)], None, (start, end - start))
        yield one, name, track


def reader(samples: Mapping[str, Batch | str | Path], question: Question) -> Callable[[], Iterator[Samples]]:
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
def naming(one: Samples) -> Iterator[None]:
    """Errors within name the set of samples."""
    try:
        yield
    except (FixError, ArithmeticError) as error:
        if one.file is None:
            raise FixError(f"samples of {one.name!r}: {error}") from None
        raise FixError(f"{one.file}: array {one.name!r}: {error}") from None
