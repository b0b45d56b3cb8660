"""An exported experiment as a source: the rows that its workers told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optimist.archive.file import Archive, ArchiveError
from optimist.evaluation import Question
from optimist.evaluation.stored import batch_of, question_of, stored_reference, unpack_kernels
from optimist.simulation.sources.arrays import ArraySource
from optimist.simulation.sources.base import Rows, Source, SourceSet
from optimist_client.files import FileError


def experiment(path: str | Path) -> SourceSet:
    """Every generator's told rows in log order, with the experiment's metric, reference, kernels and confidence.

    Kernels that the first samples fixed are taken as they were fixed. Batches that cannot be read or were retracted,
    and generators that told nothing, are left out. Raises FileError for a file that is no whole archive, that was made
    without keep_log, or that has no batches.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            archive = Archive(stream)
            config = archive.contents.experiment.config
            if not config.keep_log:
                raise ArchiveError("expected an experiment made with keep_log, found one without: its batches are gone")
            question = question_in(archive)
            sources: dict[str, Source] = {}
            for ordinal, generator in enumerate(archive.contents.generators):
                batches = list(_batches(archive, ordinal))
                if batches:
                    rows = {name: np.concatenate([part[name] for part in batches]) for name in question.arrays}
                    sources[generator.name] = ArraySource(rows, f"{file}: generator {generator.name!r}")
    except FileNotFoundError:
        raise FileError(f"{file}: no such file") from None
    except ArchiveError as error:
        raise FileError(f"{file}: {error}") from None
    if not sources:
        raise FileError(f"{file}: expected batches of at least one generator, found none")
    pinned = {"delta": config.delta, "tolerance": config.tolerance, "rules": question.rules}
    return SourceSet(sources, {"metric": question.metric, **pinned})


def question_in(archive: Archive) -> Question:
    """The question of an exported experiment, with the kernels that its samples have fixed, if they have."""
    experiment = archive.contents.experiment
    has_reference = experiment.config.setting("reference") is not None
    reference = stored_reference(archive.reference()[1]) if has_reference else None
    question = question_of(experiment, reference)
    return question if archive.fitted is None else unpack_kernels(question, archive.fitted)


def _batches(archive: Archive, ordinal: int) -> Iterator[Rows]:
    known = archive.contents.generators[ordinal]
    for page in archive.log(ordinal):
        for entry in page:
            if entry.retracts is not None or not known.counts(entry.seq):
                continue
            try:
                tensors = batch_of(entry)[0]
            except ValueError:
                continue  # the scorer skipped it, too
            yield {name: tensor.numpy() for name, tensor in tensors.items()}
