"""A generator's log applied to its statistic, in order, up to the latest estimate that is due. Runs in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.bounds import Bound
from optimist.estimates import Estimate
from optimist.evaluation import Question, Track
from optimist.metrics import Reference
from optimist.store import LogEntry
from optimist_client import tensors
from optimist_client.models import Experiment, ModeInfo, Modes, PromptGroupInfo

SHOWN_MODES = 20
SHOWN_SAMPLES = 32
"""Modes, and samples of each, that are made when somebody asks for modes; a reader takes as many as it wants."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An estimate and the log position it was made at."""

    seq: int
    estimate: Estimate


class WarmGenerator:
    """The statistic of one generator, warm at log position `seq`."""

    def __init__(self, bound: Bound, growth: float) -> None:
        self._track = Track(bound, growth)
        self.seq = 0

    def apply(self, entries: Sequence[LogEntry]) -> Scored | None:
        """Take the next entries of the log; the estimate at the last position among them where one was due.

        Every process that takes the same log makes the same estimates: each at exactly its due position, however many
        entries came along. Earlier due ones are passed over, since a newer one replaces them.
        """
        due = self._track.last_due_position([entry.rows for entry in entries])
        scored = None
        for position, entry in enumerate(entries):
            self._track.add(*batch(entry))
            self.seq = entry.seq
            if position == due:
                scored = Scored(entry.seq, self._track.estimate())
        return scored

    def modes(self, name: str) -> Modes:
        """Modes of what was taken so far, and the score by type of prompt where there are prompts."""
        groups = self._track.prompt_groups(SHOWN_MODES, SHOWN_SAMPLES) if self._track.has_prompts else []
        return Modes(
            generator=name,
            samples=self._track.statistic.samples,
            position=self.seq,
            modes=[ModeInfo.model_validate(mode.to_dict()) for mode in self._track.modes(SHOWN_MODES, SHOWN_SAMPLES)],
            prompt_groups=[PromptGroupInfo.model_validate(group.to_dict()) for group in groups],
        )


def batch(entry: LogEntry) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors (n, …) of a log entry by name, float64, and the ids of its rows: "<pick>:<row>" where it has none."""
    arrays = tensors.decode(entry.body)
    ids = arrays.pop(tensors.IDS, None)
    names = [""] * entry.rows if ids is None else tensors.unpack_ids(ids)
    return (
        {name: torch.from_numpy(array.astype(np.float64)) for name, array in arrays.items()},
        [name or f"{entry.pick}:{row}" for row, name in enumerate(names)],
    )


def build_question(experiment: Experiment, reference: bytes | None) -> Question:
    """What an experiment asks; the eigendecomposition of its reference, where it has one, is done here."""
    config = experiment.config
    moments = None if reference is None else tensors.decode(reference)
    kernels = {name: kernel.model_dump() for name, kernel in config.kernels.items()}
    return Question(
        config.metric,
        config.bound,
        config.delta,
        None if moments is None else Reference(moments["mean"], moments["covariance"]),
        config.order,
        config.truncation,
        **kernels,
        options=config.bound_options.given(),
    )


def pack_fitted(open_question: Question, question: Question) -> bytes:
    """What samples have fixed of the kernels that were open: "<field>.sigma" (1,) and "<field>.landmarks" (m, d)."""
    fixed: dict[str, NDArray[np.float64]] = {}
    for field in open_question.open_kernels:
        kernel = question.kernels[field]
        fixed[f"{field}.sigma"] = np.array([kernel["sigma"]])
        if "landmarks" in kernel:
            fixed[f"{field}.landmarks"] = np.asarray(kernel["landmarks"])
    return tensors.encode(fixed)


def unpack_fitted(open_question: Question, fitted: bytes) -> Question:
    """The question with its open kernels as `pack_fitted` has them."""
    arrays = tensors.decode(fitted)
    found: dict[str, dict[str, Any]] = {field: {} for field in open_question.open_kernels}
    for name, array in arrays.items():
        field, _, part = name.partition(".")
        found[field][part] = float(array[0]) if part == "sigma" else array
    return open_question.closed(found)
