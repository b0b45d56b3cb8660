"""Scores of one set of samples in many files (shards), each of which is read by a task of an executor.

A task makes the statistic of its file on one thread, and the statistics are merged in the order of the files: so the
bits of a score depend neither on the executor, nor on how many tasks there are at a time and which ends first.
"""

from __future__ import annotations

import pickle  # nosec B403: of whoever has called these functions
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from optimist.anomalies.batches import ExpectedValues, as_matrices, check_batch
from optimist.datasets.sets import of_metric
from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import columns_of
from optimist.estimation.question import Question
from optimist.metrics.base import Statistic
from optimist.metrics.threads import one_thread_here
from optimist_client.errors import FixError
from optimist_client.files import SUFFIXES, read_arrays
from optimist_client.progress import counted

StateTensors = dict[str, Tensor]


class TaskResult(Protocol):
    """The handle that an executor answers at once, such as a future of `concurrent.futures`."""

    def result(self) -> Any: ...


class Executor(Protocol):
    """A runner of functions elsewhere, such as an executor of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> TaskResult: ...


def are_shards(batch: Any) -> TypeGuard[str | Path | Sequence[str | Path]]:
    """True for files, or a folder; False for samples in memory."""
    if isinstance(batch, list | tuple):
        return bool(batch) and all(isinstance(file, str | Path) for file in batch)
    return isinstance(batch, str | Path)


def files_of(shards: str | Path | Sequence[str | Path], beside: Path | None = None) -> list[Path]:
    """The files in the order in which they are merged: as they are given, a folder's by name but for `beside`.

    Raises FixError where there are none, and for a file that is given twice.
    """
    files: list[Path] = []
    for path in map(Path, [shards] if isinstance(shards, str | Path) else shards):
        inside = [path]
        if path.is_dir():
            candidates = (file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
            inside = sorted(file for file in candidates if not _same(file, beside))
        if not inside:
            raise FixError(f"{path}: expected files ending in {', '.join(SUFFIXES)}, found none")
        files += inside
    resolved = [file.resolve() for file in files]
    times = Counter(resolved)
    for file, resolved_file in zip(files, resolved, strict=True):
        if times[resolved_file] > 1:
            raise FixError(f"{file}: expected every file once, got it twice")
    return files


def _same(file: Path, beside: Path | None) -> bool:
    return beside is not None and file.resolve() == beside.resolve()


def score_shards(
    files: Sequence[Path], questions: Sequence[Question], executor: Executor | None = None
) -> list[Estimate]:
    """The estimate of each question by the samples in all files; executor None: file by file, in this process.

    Raises FixError for a metric whose statistics cannot be merged, and, naming the file, for what is in a file;
    RuntimeError, naming the file, where a task fails.
    """
    columns, questions = _known(files[0], questions)
    bounds = [
        question.bound_for({own: columns[name] for own, name in question.reads.items()}) for question in questions
    ]
    merged: list[Statistic] = [bound.alone() for bound in bounds]
    for bound, statistic in zip(bounds, merged, strict=True):
        if not statistic.can_merge:
            raise FixError(f"metric {bound.metric.name!r}: its samples must be in one file, or in memory")
    reads = [tuple(question.reads.values()) for question in questions]
    expected = ExpectedValues.from_metrics([question.metric for question in questions])
    # Once, and not by the executor: with these bytes, processes share no memory of tensors.
    task = pickle.dumps(_Task(tuple(merged), tuple(reads), columns, expected))
    with counted("reading", len(files), " files") as step, one_thread_here():
        for states in _results(executor, task, files):
            for bound, statistic, state in zip(bounds, merged, states, strict=True):
                statistic.merge(bound.alone().restore(load(state)))
            step()
        return [bound.estimate(statistic) for bound, statistic in zip(bounds, merged, strict=True)]


def _known(file: Path, questions: Sequence[Question]) -> tuple[dict[str, int], list[Question]]:
    """The columns of each array, and the questions with kernels that are fixed, by the samples in the first file where
    these say it."""
    for question in questions:
        if question.bound != "influence":
            raise FixError(f"bound: expected 'influence' for samples in several files, got {question.bound!r}")
        if question.is_exact:
            raise FixError("kernel: features='exact', the kernel itself, needs all samples in memory")
    columns = {name: width for name, width in columns_of(questions).items() if width is not None}
    if len(columns) == len(columns_of(questions)) and not any(question.open_kernels for question in questions):
        return columns, [*questions]
    arrays = _read(file, columns_of(questions))
    tensors = {name: [torch.from_numpy(rows.astype(np.float64))] for name, rows in arrays.items()}
    fitted = [question.fitted(question.own(tensors)) for question in questions]
    return {name: rows.shape[1] for name, rows in arrays.items()}, fitted


def _results(executor: Executor | None, task: bytes, files: Sequence[Path], ahead: int = 64) -> Generator[list[bytes]]:
    """The states that the task makes of each file, in their order.

    ahead: files that the executor has beside the one whose statistic is merged next, as the others wait in memory.
    """
    if executor is None:
        yield from (_statistics(task, file) for file in files)
        return
    left = iter(files)
    given = deque((file, executor.submit(_statistics, task, file)) for file in islice(left, ahead))
    try:
        while given:
            file, result = given.popleft()
            try:
                made = result.result()
            except FixError:
                raise
            except Exception as error:
                raise RuntimeError(f"{file}: {error or type(error).__name__}") from error
            given.extend((file, executor.submit(_statistics, task, file)) for file in islice(left, 1))
            yield made
    finally:
        for _, result in given:
            getattr(result, "cancel", bool)()


@dataclass(frozen=True)
class _Task:
    """The task for each file: statistics, empty here, each of the arrays that it reads."""

    statistics: tuple[Statistic, ...]
    reads: tuple[tuple[str, ...], ...]
    columns: Mapping[str, int]
    expected: ExpectedValues


def _statistics(task: bytes, file: Path) -> list[bytes]:
    """The states of the statistics of a file. Raises FixError, which names the file, for what is not as expected."""
    made: _Task = pickle.loads(task)  # nosec B301: of whoever has called this function
    arrays = _read(file, made.columns)
    try:
        arrays = as_matrices(arrays, made.columns)
        check_batch(arrays, made.columns)
        made.expected.check(arrays)
        with one_thread_here():
            for statistic, names in zip(made.statistics, made.reads, strict=True):
                statistic.update(*(torch.from_numpy(arrays[name]) for name in names))
            return [save(_apart(statistic.state().items())) for statistic in made.statistics]
    except FixError as error:
        raise FixError(f"{file}: {error}") from None


def _read(file: Path, columns: Mapping[str, int | None]) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name, of real numbers that torch has, too."""
    arrays = of_metric(f"{file}", read_arrays(file, wanted=columns), [*columns])
    return {name: rows if rows.dtype in _FLOATS else rows.astype(np.float64) for name, rows in arrays.items()}


_FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")]


def _apart(state: Iterable[tuple[str, Tensor]]) -> StateTensors:
    """The tensors of a state, in memory of their own."""
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state}
