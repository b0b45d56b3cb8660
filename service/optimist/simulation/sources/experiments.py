"""An exported experiment as a source: the rows that its workers told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from optimist.archive.file import Archive
from optimist.estimation.paired import runs_of
from optimist.estimation.question import Question
from optimist.estimation.stored import batch_of, metric_of, question_of, stored_reference, unpack_kernels
from optimist.numerics.real_data import RealData
from optimist.simulation.sources.arrays import ArraySource
from optimist.simulation.sources.base import Rows, Source, SourceSet
from optimist_client.errors import FixError


def experiment(path: str | Path) -> SourceSet:
    """Every generator's told rows in log order, with the experiment's metric, reference, kernels and confidence.

    Kernels that the first samples fixed are taken as they were fixed. Batches that cannot be read or were retracted,
    and generators that told nothing, are left out. If the experiment was paired and no index is missing, the rows are
    ordered by index, and aligned. Raises FixError for a file that is no whole archive, that was made
    without keep_log, or that has no batches.
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
            logs = {known.name: list(_batches(archive, place)) for place, known in enumerate(contents.generators)}
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


def question_in(archive: Archive, label: str = "") -> Question:
    """The question of one metric of an exported experiment, with the kernels that its samples have fixed, if they have.

    label: of a watched metric, "" for the one that decides.
    """
    question = question_of(archive.contents.experiment, real_data_in(archive, label), label=label)
    fitted = archive.fitted(label)
    return question if fitted is None else unpack_kernels(question, fitted)


def real_data_in(archive: Archive, label: str = "") -> RealData | None:
    """The real data that a metric of an exported experiment compares with; None if it compares with none."""
    name = metric_of(archive.contents.experiment, label).setting("reference")
    return None if name is None else stored_reference(archive.reference(name)[1])


@dataclass(frozen=True)
class _Told:
    """A batch of the log."""

    rows: Rows
    size: int
    start: int | None
    """The index of its first row; None unless all rows have one, without a gap."""


def _batches(archive: Archive, ordinal: int) -> Iterator[_Told]:
    known = archive.contents.generators[ordinal]
    for page in archive.log(ordinal):
        for entry in page:
            if entry.retracts is not None or not known.counts(entry.seq):
                continue
            try:
                tensors = batch_of(entry)[0]
            except ValueError:
                continue  # the scorer skipped it, too
            rows = {name: tensor.numpy() for name, tensor in tensors.items()}
            yield from _runs(rows, entry.rows, entry.indices)


def _runs(rows: Rows, size: int, indices: tuple[int, ...]) -> Iterator[_Told]:
    """A batch by the runs of its indices, or as it is where some rows have none."""
    if sum(indices[1::2]) < size:
        yield _Told(rows, size, None)
        return
    row = 0
    for first, count in runs_of(indices):
        yield _Told({name: part[row : row + count] for name, part in rows.items()}, count, first)
        row += count


def _by_index(log: list[_Told]) -> list[_Told]:
    return sorted(log, key=lambda told: told.start or 0)


def _is_whole(log: list[_Told]) -> bool:
    """Whether the rows have the indices 0, 1, 2, … without a gap."""
    sizes = [told.size for told in _by_index(log)]
    return [told.start for told in _by_index(log)] == [0, *accumulate(sizes)][:-1]
