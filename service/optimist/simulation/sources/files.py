"""Sources from files: arrays, moments of a Gaussian, and exported experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from optimist.anomalies.batches import as_matrices
from optimist.archive.file import Archive
from optimist.datasets.sets import by_generator, in_folder, of_metric
from optimist.estimation.paired import runs_of
from optimist.estimation.question import Question
from optimist.estimation.stored import batch_of, metric_of, question_of, stored_reference, unpack_kernels
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.spectra.symmetric import congruence
from optimist.references.real_data import RealData
from optimist.simulation.sources.base import ArraySource, Draw, Rows, Source, SourceSet
from optimist_client.errors import FixError
from optimist_client.files import moments_among, read_arrays
from optimist_client.metrics import find


class GaussianSource:
    """A generator whose features are N(mean (d,), covariance (d, d)).

    Raises FixError like `FrechetReference` if these are not valid moments.
    """

    samples = None

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, origin: str = "a Gaussian") -> None:
        moments = FrechetReference(mean, covariance)
        self.mean: NDArray[np.float64] = moments.mean.numpy()
        self.covariance: NDArray[np.float64] = moments.covariance.numpy()
        self.origin = origin

    @property
    def widths(self) -> dict[str, int]:
        return {"features": len(self.mean)}

    def stream(self, draw: Draw) -> GaussianStream:
        return GaussianStream(self.mean, self._root, draw.rng())

    def exact(self, question: Question) -> float | None:
        """The Fréchet distance between two Gaussians (equations.md §1); None for other metrics."""
        reference = question.reference
        if not isinstance(reference, FrechetReference):
            return None
        covariance = torch.from_numpy(self.covariance)
        squares = torch.linalg.eigvalsh(congruence(reference.whole_factor, covariance))
        gap = float((torch.from_numpy(self.mean) - reference.mean).square().sum())
        return gap + float(covariance.trace()) + reference.trace - 2.0 * float(squares.clamp_min(0.0).sqrt().sum())

    @cached_property
    def _root(self) -> NDArray[np.float64]:
        """Rᵀ (d, d) with R Rᵀ = covariance, from the eigendecomposition because the covariance may be singular."""
        eigenvalues, eigenvectors = np.linalg.eigh(self.covariance)
        return (eigenvectors * np.sqrt(eigenvalues.clip(0.0))).T


class GaussianStream:
    """Normally distributed rows, generated on demand."""

    def __init__(self, mean: NDArray[np.float64], root: NDArray[np.float64], rng: np.random.Generator) -> None:
        self._mean = mean
        self._root = root
        self._rng = rng

    def take(self, count: int) -> Rows:
        return {"features": self._mean + self._rng.standard_normal((count, len(self._mean))) @ self._root}


Found = Iterator[tuple[str, str, Rows]]
"""Name, origin and arrays by name of each generator."""


def files(
    path: str | Path, metric: str | Mapping[str, int | None] = "fid", *, beside: Path | None = None
) -> dict[str, Source]:
    """Read the generators of a folder or a file, by name in alphabetical order.

    metric: its name, or the names of all wanted arrays, with their columns or None.
    In a folder every file (.npy, .npz, .safetensors, .parquet) is a generator, named by its stem. A subfolder is a
    generator, too: its files are tensors, named by their stems or by the arrays in them, or parts to be concatenated.
    In a file every array is a generator; arrays of the same generator may be named `<generator>/<tensor>`. A generator
    with `mean` and `covariance` (or `mu` and `sigma`) is a Gaussian. Arrays of one column may be (n,). `beside` is a
    file to ignore: a reference in the same folder. Raises FixError, naming the file, for anything else.
    """
    location, sources = Path(path), dict[str, Source]()
    wanted = _columns(metric) if isinstance(metric, str) else metric
    if not location.exists():
        raise FixError(f"{location}: no such file or folder")
    items = in_folder(location, wanted, beside) if location.is_dir() else _in_file(location, wanted)
    for name, origin, arrays in sorted(items, key=lambda item: item[0]):
        if name.encode("utf-8", "replace").decode() != name:  # file names may be arbitrary bytes
            raise FixError(f"{location}: expected generator names in UTF-8, found {name!a}")
        if name in sources:
            raise FixError(f"{origin}: expected distinct generator names, found {name!r} in {sources[name].origin}")
        sources[name] = _source(origin, arrays, wanted)
    return sources


def _columns(metric: str) -> dict[str, int | None]:
    declared = find(metric)()
    return {name: declared.widths.get(name) for name in declared.arrays}


def _in_file(file: Path, wanted: Mapping[str, int | None]) -> Found:
    arrays = read_arrays(file, wanted=wanted)
    if moments_among(arrays):
        yield file.stem, f"{file}", dict(arrays)
        return
    for generator, rows in by_generator(arrays).items():
        yield generator, f"{file}: {generator!r}", rows


def _source(origin: str, arrays: Rows, wanted: Mapping[str, int | None]) -> Source:
    if moments := moments_among(arrays):
        mean, covariance = moments[:2]
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


def experiment(path: str | Path) -> SourceSet:
    """Every generator's recorded rows in log order, with the experiment's metric, reference, kernels and confidence.

    Kernels that the first samples fixed stay fixed. Unreadable and retracted batches, and generators without batches,
    are left out. If the experiment was paired and no index is missing, the rows are ordered by index, and aligned.
    Raises FixError for a file that is no whole archive, that was made without keep_log, or that has no batches.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            archive = Archive(stream)
            contents = archive.contents
            config = contents.experiment.config
            if not config.keep_log:
                raise FixError("expected an experiment made with keep_log, found one without: its batches are gone")
            question, data = question_in(archive), real_data_in(archive)
            logs = {generator.name: list(_batches(archive, g)) for g, generator in enumerate(contents.generators)}
    except FileNotFoundError:
        raise FixError(f"{file}: no such file") from None
    except FixError as error:
        raise FixError(f"{file}: {error}") from None
    logs = {name: log for name, log in logs.items() if log}
    if not logs:
        raise FixError(f"{file}: expected batches of at least one generator, found none")
    aligned = contents.experiment.is_paired and all(map(_is_whole, logs.values()))
    ends: tuple[int, ...] = ()
    if aligned:
        logs = {name: _by_index(log) for name, log in logs.items()}
        ends = tuple(sorted({sum(told.size for told in log) for log in logs.values()}))
    sources: dict[str, Source] = {}
    for name, log in logs.items():
        rows = {tensor: np.concatenate([told.rows[tensor] for told in log]) for tensor in question.arrays}
        sources[name] = ArraySource(rows, f"{file}: generator {name!r}", ends)
    pinned = {"delta": config.delta, "tolerance": config.tolerance}
    metric = question.metric if data is None else question.metric.model_copy(update={"reference": data})
    return SourceSet(sources, {"metric": metric, **pinned}, aligned)


def question_in(archive: Archive, label: str | None = None) -> Question:
    """The question of one metric of an exported experiment, with the kernels that its samples have fixed, if any.

    label: of the metric; None: the deciding metric.
    """
    question = question_of(archive.contents.experiment, real_data_in(archive, label), label=label)
    fitted = archive.fitted(metric_of(archive.contents.experiment, label).shown_label)
    return question if fitted is None else unpack_kernels(question, fitted)


def real_data_in(archive: Archive, label: str | None = None) -> RealData | None:
    """The real data that a metric of an exported experiment compares with; None if it compares with none."""
    name = metric_of(archive.contents.experiment, label).setting("reference")
    return None if name is None else stored_reference(archive.reference(name)[1])


@dataclass(frozen=True)
class _LoggedRun:
    """Rows of one logged batch whose indices follow each other."""

    rows: Rows
    size: int
    start: int | None
    """The index of its first row; None unless all rows have one, without a gap."""


def _batches(archive: Archive, ordinal: int) -> Iterator[_LoggedRun]:
    generator = archive.contents.generators[ordinal]
    for page in archive.log(ordinal):
        for entry in page:
            if not entry.is_batch or not generator.counts(entry.seq):
                continue
            try:
                tensors = batch_of(entry)[0]
            except ValueError:
                continue  # the scorer skipped it, too
            rows = {name: tensor.numpy() for name, tensor in tensors.items()}
            yield from _runs(rows, entry.rows, entry.indices)


def _runs(rows: Rows, size: int, indices: tuple[int, ...]) -> Iterator[_LoggedRun]:
    """A batch by the runs of its indices, or as it is where some rows have none."""
    if sum(indices[1::2]) < size:
        yield _LoggedRun(rows, size, None)
        return
    row = 0
    for first, count in runs_of(indices):
        yield _LoggedRun({name: part[row : row + count] for name, part in rows.items()}, count, first)
        row += count


def _by_index(log: list[_LoggedRun]) -> list[_LoggedRun]:
    return sorted(log, key=lambda told: told.start or 0)


def _is_whole(log: list[_LoggedRun]) -> bool:
    """True if the rows have the indices 0, 1, 2, … without a gap."""
    sizes = [told.size for told in _by_index(log)]
    return [told.start for told in _by_index(log)] == [0, *accumulate(sizes)][:-1]
