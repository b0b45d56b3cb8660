"""Converts stored data of an experiment for the numerics: question, reference, kernels and logged batches."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimation.learner import Learner
from optimist.estimation.paired import runs_of
from optimist.estimation.question import Question, prepared
from optimist.estimation.streaming import StreamingEstimator
from optimist.records import AskedPrompt, LogEntry, LoggedAnswer
from optimist.references.real_data import RealData, Reference
from optimist_client import tensors
from optimist_client.metrics import Metric
from optimist_client.models import Experiment

_LEARNER = "context."
"""Prefix of the names of arrays that the first prompts have fixed for the learner."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of adding a logged batch to an estimator."""

    is_due: bool
    """True if an estimate is due at this position."""
    unreadable: str = ""
    """Why the batch was skipped; "" if it was added."""


def metric_of(experiment: Experiment, label: str | None = None) -> Metric:
    """The metric with this label; None: the deciding metric. Raises KeyError for another label."""
    return experiment.config.metric if label is None else experiment.config.metrics[label]


def question_of(
    experiment: Experiment,
    reference: RealData | Reference | None,
    device: torch.device | str = "cpu",
    label: str | None = None,
    learner: Learner | None = None,
) -> Question:
    """The question of one metric of an experiment, as of `metric_of`; open kernels stay open.

    A metric that does not decide has the bound "influence".
    reference: real data, or their converted form on the `device`. learner: of the goal, if any. Raises ValueError if a
    newer version created the experiment.
    """
    experiment.check_rules()
    config, metric = experiment.config, metric_of(experiment, label)
    decides = metric is config.metric
    return Question(
        metric if reference is None else prepared(metric.model_copy(update={"reference": reference}), device),
        config.bound if decides else "influence",
        config.delta,
        options=config.bound_options.given() if decides else {},
        device=device,
        prompts=config.known_prompts(metric),
        are_list=config.prompts_are == "list",
        clusters=config.clusters,
        paired=experiment.is_paired,
        generators=len(config.generators),
        learner=learner if decides else None,
    )


def stored_reference(body: bytes) -> RealData:
    """The real data of a stored reference: safetensors of `RealData.arrays`.

    Raises ValueError if it cannot be read.
    """
    return RealData.from_arrays(tensors.decode(body))


def pack_kernels(open_question: Question, question: Question) -> bytes:
    """The parameters of open kernels that samples have fixed: "<field>.sigma" (1,) and "<field>.landmarks" (m, d).

    What prompts have fixed of the learner begins with "context.".
    """
    fixed: dict[str, NDArray[np.float64]] = {}
    for field in open_question.open_kernels:
        kernel = question.kernels[field]
        fixed[f"{field}.sigma"] = np.array([kernel.sigma])
        if kernel.landmarks is not None:
            fixed[f"{field}.landmarks"] = kernel.landmarks
    if open_question.learner is not None and open_question.learner.is_open and question.learner is not None:
        fixed |= {_LEARNER + name: array for name, array in question.learner.fixed.items()}
    return tensors.encode(fixed)


def unpack_kernels(open_question: Question, fitted: bytes) -> Question:
    """The question with its open kernels fixed by the output of `pack_kernels`."""
    parts: dict[str, dict[str, Any]] = {field: {} for field in open_question.open_kernels}
    arrays = tensors.decode(fitted)
    of_learner = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_LEARNER)}
    for name, array in arrays.items():
        field, _, part = name.partition(".")
        parts[field][part] = float(array[0]) if part == "sigma" else array
    learner = open_question.learner
    if learner is not None and of_learner:
        learner = learner.closed({name.removeprefix(_LEARNER): array for name, array in of_learner.items()})
    return open_question.closed(parts, learner)


def batch_of(entry: LogEntry) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors (n, …) of the rows of a logged batch that count by name, float64, and their ids.

    A row without an id gets "<pick>:<row>", or "@<seq>:<row>" by its log position where no pick asked for it. Raises
    ValueError if the body cannot be read, or if its numbers or count of rows differ from the accepted batch.
    """
    arrays = tensors.decode(entry.body)
    if tensors.digest(arrays) != entry.digest:
        raise ValueError("the batch is not the one that was accepted: its digest differs")
    # The digest does not cover the count of rows, which decides when estimates are due.
    counted = _counted_of(entry)
    size, is_exact = (entry.rows, True) if counted is None else (int(counted[-1]) + 1, False)
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) != 1 or min(lengths) < size or (is_exact and max(lengths) > size):
        sizes = ", ".join(f"{len(array)} of {name}" for name, array in arrays.items())
        expected = f"{size} rows" if is_exact else f"at least {size} rows"
        raise ValueError(f"the batch is not the one that was accepted: expected {expected}, found {sizes}")
    arrays.pop(tensors.RECORDS, None)
    ids = arrays.pop(tensors.IDS, None)
    names = [""] * max(lengths) if ids is None else tensors.unpack_ids(ids)
    kept = range(entry.rows) if counted is None else counted.tolist()
    if counted is not None:
        arrays = {name: array[counted] for name, array in arrays.items()}
    origin = f"{entry.pick}" if entry.pick else f"@{entry.seq}"
    return (
        # Copied by torch, whose memory has the same alignment in every process: equal bits depend on it.
        {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()},
        # A reservoir refuses zero bytes in ids, but this batch was accepted with them and must count.
        [names[row].replace("\0", " ") or f"{origin}:{row}" for row in kept],
    )


def _counted_of(entry: LogEntry) -> NDArray[np.int64] | None:
    """The rows of the body that count, ascending; None for all. Raises ValueError where they are not `entry.rows`."""
    if not entry.counted:
        return None
    runs = [np.arange(first, first + count) for first, count in runs_of(entry.counted)]
    rows = np.concatenate(runs)
    if len(rows) != entry.rows or len(rows) == 0 or (np.diff(rows) <= 0).any():
        raise ValueError(f"the rows that count are not {entry.rows}: {entry.counted}")
    return rows


def prompt_indices_of(entry: LogEntry) -> Tensor | None:
    """Index in a fixed list of each counting row's prompt (rows,); None where prompts are not told."""
    if not entry.prompts:
        return None
    indices, counted = torch.tensor([int(index) for index in entry.prompts.split(",")]), _counted_of(entry)
    return indices if counted is None else indices[torch.from_numpy(counted)]


def asked_prompt_of(entry: LogEntry) -> AskedPrompt:
    """The prompt that a batch was made for. Raises ValueError where there is none, or where it cannot be read."""
    if not entry.context:
        raise ValueError("the batch has no context of a prompt")
    return replace(AskedPrompt.unpack(entry.context), position=entry.seq, pick=entry.pick)


def take(estimator: StreamingEstimator, entry: LogEntry) -> Taken:
    """Add a logged batch to an estimator. A batch that cannot be read is skipped: its rows count, its numbers do not.

    An estimator that learns of prompts cannot read a batch without its prompt. What people say of a sample that is not
    there any more, or by another metric, counts for nothing.
    """
    if entry.is_answer:
        return _answered(estimator, entry)
    try:
        asked = asked_prompt_of(entry) if estimator.learned is not None and entry.context else None
        properties = prompt_indices_of(entry), entry.indices, asked, entry.seconds
        return Taken(estimator.add(*batch_of(entry), *properties))
    # The store counted the rows when it accepted the batch: otherwise estimates would be due at other positions.
    except (ValueError, KeyError) as error:
        return Taken(estimator.skip(entry.rows), f"{error}")


def _answered(estimator: StreamingEstimator, entry: LogEntry) -> Taken:
    if hashlib.sha1(entry.body).hexdigest() != entry.digest:  # nosec B324: as the store made it
        return Taken(False, "the answer is not the one that was accepted: its digest differs")
    try:
        answer = LoggedAnswer.from_body(entry.body)
        estimator.hear(answer.sample, answer.weight, answer.score)
    except (ValueError, KeyError, TypeError) as error:
        return Taken(False, f"the answer cannot be read: {error}")
    return Taken(answer.is_due)


def is_due_answer(entry: LogEntry) -> bool:
    """True if an estimate is due at an answer of people. False for an unreadable answer."""
    with suppress(ValueError, KeyError, TypeError):
        return LoggedAnswer.from_body(entry.body).is_due
    return False
