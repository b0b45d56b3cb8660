"""Experiments of every kind of score, and logs for them as the store gives them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import first_rows
from optimist.metrics.bound import Bound
from optimist.metrics.fid.reference import FrechetReference
from optimist.records import LogEntry, RetractionRecord, codec
from optimist.scoring.cached import CachedStatistic
from optimist_client import tensors
from optimist_client.metrics import FID

GAUSSIAN = {"name": "gaussian", "sigma": 2.0, "features": 15}
OPEN = {"name": "nystrom", "sigma": "median", "features": 30}


@dataclass(frozen=True)
class Kind:
    """A metric with its settings, and the columns of its batches: odd ones, so that rows are not aligned."""

    metric: str
    settings: dict[str, Any]
    widths: dict[str, int]
    bound: str = "influence"

    def make(self) -> Bound:
        """Its bound, kernels fixed by a first batch where they are open."""
        reference = None
        if self.metric == "fid":
            dimension = self.widths["features"]
            spread = np.random.default_rng(5).standard_normal((dimension, dimension))
            reference = FrechetReference(np.zeros(dimension), spread @ spread.T / dimension + np.eye(dimension))
        question = Question(declared_of(self.metric, reference=reference, **self.settings), self.bound)
        if question.open_kernels:
            rows = {name: torch.from_numpy(array) for name, array in self.arrays(40, seed=99).items()}
            question = question.fitted(first_rows([[rows]], 40))
        return question.bound_for(self.widths)

    def arrays(self, rows: int, seed: int) -> dict[str, NDArray[Any]]:
        rng = np.random.default_rng(seed)
        if self.metric == "is":
            return {"probabilities": rng.dirichlet(np.ones(self.widths["probabilities"]), rows)}
        return {name: 1.5 * rng.standard_normal((rows, width)) for name, width in self.widths.items()}


KINDS = {
    "fid below rank": Kind("fid", {}, {"features": 211}),
    "fid past rank": Kind("fid", {}, {"features": 7}),
    "fid theorem": Kind("fid", {}, {"features": 7}, "theorem"),
    "is": Kind("is", {}, {"probabilities": 11}),
    "rke": Kind("rke", {"kernel": GAUSSIAN}, {"features": 7}),
    "vendi 1": Kind("vendi", {"kernel": GAUSSIAN}, {"features": 7}),
    "vendi 3": Kind("vendi", {"kernel": GAUSSIAN, "order": 3.0}, {"features": 7}),
    "vendi truncated": Kind("vendi", {"kernel": GAUSSIAN, "truncation": 6}, {"features": 7}),
    "vendi cosine": Kind("vendi", {"kernel": {"name": "cosine"}}, {"features": 13}),
    "vendi median": Kind("vendi", {"kernel": {"sigma": "median", "features": 15}}, {"features": 7}),
    "vendi nystrom": Kind("vendi", {"kernel": OPEN}, {"features": 7}),
    "conditional-vendi": Kind(
        "conditional-vendi", {"kernel": GAUSSIAN, "prompt_kernel": GAUSSIAN}, {"features": 7, "prompts": 3}
    ),
    "information-vendi 3": Kind(
        "information-vendi",
        {"kernel": GAUSSIAN, "prompt_kernel": GAUSSIAN, "order": 3.0},
        {"features": 7, "prompts": 3},
    ),
}


def entry(seq: int, arrays: dict[str, NDArray[Any]], ids: Sequence[str] | None = None, **other: Any) -> LogEntry:
    """The arrays at position `seq`, as they are accepted; `other` fields are what went wrong since."""
    named = arrays if ids is None else {**arrays, tensors.IDS: tensors.pack_ids(ids)}
    rows = len(next(iter(arrays.values())))
    fields = {"seq": seq, "pick": seq, "rows": rows, "digest": tensors.digest(named), "body": tensors.encode(named)}
    return LogEntry(**{**fields, **other})


def retraction(seq: int, position: int) -> RetractionRecord:
    """At `seq`, of the batch at `position`; 0: of all before it."""
    return RetractionRecord(2, seq, position, 0 if position else seq, 0, 1, 1, "", 0.0, "", 0, False, f"{seq:040x}")


def entry_of(retraction: RetractionRecord) -> LogEntry:
    return LogEntry(retraction.seq, 0, 0, retraction.digest, b"", is_retraction=True)


def log_of(kind: Kind, batches: int) -> list[LogEntry]:
    """Batches of 1 to 9 rows, some with ids."""
    sizes = [1 + (5 * seq) % 9 for seq in range(1, batches + 1)]
    return [
        entry(seq, kind.arrays(rows, seed=seq), [f"{seq}/{row}" for row in range(rows)] if seq % 3 == 0 else None)
        for seq, rows in enumerate(sizes, start=1)
    ]


def moments_bound() -> Bound:
    """The bound of `Made`'s FID in 4 dimensions."""
    return Question(FID(reference=FrechetReference(np.zeros(4), np.eye(4)))).bound_for({"features": 4})


def applied(cached: CachedStatistic, log: Sequence[LogEntry], *pages: int, newest: int = 0) -> dict[int, str]:
    """Give it the entries in pages of these sizes, again and again; its estimates by position, as they are stored."""
    made: dict[int, str] = {}
    left, sizes = list(log), itertools.cycle(pages)
    while left:
        page = next(sizes)
        scored = cached.apply(left[:page], newest).scored
        left = left[page:]
        if scored is not None:
            made[scored.seq] = codec.encode(scored.estimate)
    return made


def bits_of(part: Any) -> dict[str, bytes]:
    """The state of an estimator, or of a statistic, with its types and shapes."""
    return {
        name: f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.contiguous().numpy().tobytes()
        for name, tensor in part.state().items()
    }
