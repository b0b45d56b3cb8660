"""Estimators of sets of samples that are there, one after the other, so that one is in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optimist.datasets.sets import SampleSet, naming
from optimist.estimation.arrays import arrays_of, check_arrays, tensors_of
from optimist.estimation.audited import AuditAnswer
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.audits import AuditedSets, Labels
from optimist_client.errors import FixError


class SetsSummary(NamedTuple):
    """The facts about all sets, once they are checked."""

    names: list[str]
    """Distinct ones."""
    lengths: list[int]
    first: dict[str, list[Tensor]]
    """The first rows of each array."""
    clusters: dict[str, int]
    """The number of each cluster, from 0; none where samples are independent."""
    audits: AuditedSets
    """The labels by people, where the metric has a judge."""


def seen(sets: Iterable[SampleSet], question: Question) -> SetsSummary:
    """The facts about all sets. Raises FixError for sets that are not valid."""
    parts: list[tuple[str, str, dict[str, Tensor], int]] = []
    clusters: dict[str, int] = {}
    labels: list[Labels | None] = []
    widths: dict[str, int] | None = None
    for samples in sets:
        with naming(samples):
            arrays = arrays_of(samples.batch, question.reads.values())
            arrays = check_arrays(arrays, [question], widths)
        widths = {array: rows.shape[1] for array, rows in tensors_of(arrays).items()}
        tensors = question.own(tensors_of(arrays))
        max_rows = question.rows_to_fit(1)
        rows = len(next(iter(tensors.values())))
        longer = samples.name if samples.file is None else f"{samples.file}:{samples.name}"
        parts.append((samples.name, longer, {array: part[:max_rows].clone() for array, part in tensors.items()}, rows))
        for cluster in samples.clusters or ():
            clusters.setdefault(cluster, len(clusters))
        if samples.labels is not None:
            labels.append(Labels.of(samples, longer, tensors))
    counts = Counter(name for name, *_ in parts)
    names = [name if counts[name] == 1 else longer for name, longer, *_ in parts]
    for name, count in Counter(names).items():
        if count > 1:
            raise FixError(f"{name}: expected different sets of samples, got this one {count} times")
    needed = question.rows_to_fit(len(parts))
    first = {array: [first[array][:needed] for *_, first, _ in parts] for array in question.arrays}
    named = [each and replace(each, name=name) for each, name in zip(labels, names, strict=False)]
    audits = AuditedSets(named, question.is_paired)
    return SetsSummary(names, [rows for *_, rows in parts], first, clusters, audits)


def streamed(
    sets: Iterable[SampleSet],
    names: Iterable[str],
    question: Question,
    begun: Callable[[str], None],
    lengths: Iterable[int] = (),
    clusters: Mapping[str, int] = MappingProxyType({}),
    answers: Mapping[str, Sequence[AuditAnswer]] = MappingProxyType({}),
) -> Iterator[tuple[SampleSet, str, StreamingEstimator]]:
    """An estimator of each whole set, row i with index i; `begun` is called with its name before.

    lengths: of all sets; if they are paired, an estimator knows the estimates at the shorter lengths. clusters:
    the number of each, as many as the question has prompts. answers: people's, by the names of the sets.
    """
    for name, samples in zip(names, sets, strict=True):
        begun(name)
        tensors = question.own(tensors_of(check_arrays(arrays_of(samples.batch, question.reads.values()), [question])))
        bound = question.bound_for({array: rows.shape[1] for array, rows in tensors.items()})
        rows = len(next(iter(tensors.values())))
        others = lengths if samples.common is None else [samples.common]
        ends = sorted({length for length in others if question.is_paired and 0 < length < rows})
        with naming(samples):
            # Numbers take no room: all of them are compared.
            is_number = sum(bound.metric.widths.values()) == 1
            how: dict[str, Any] = {"common": rows if is_number else None, "clusters": question.counts}
            how |= {"reads": {own: own for own in tensors}}
            estimator = StreamingEstimator(bound, 0.0, question.is_paired, **how)
            listed = None if samples.clusters is None else torch.tensor([clusters[each] for each in samples.clusters])
            for start, end in pairwise([0, *ends, rows]):
                part = {array: values[start:end] for array, values in tensors.items()}
                indices = (start, end - start) if samples.common is None or start < samples.common else None
                of = None if listed is None else listed[start:end]
                estimator.add(part, [f"{row}" for row in range(start, end)], of, indices)
            if name in answers:
                estimator.audited.answer(answers[name])
        yield samples, name, estimator
