"""A generator's log applied to its statistic, in order, up to the latest estimate that is due. Runs in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from optimist.bounds import Bound, Track, make_bound
from optimist.estimates import Estimate
from optimist.metrics import Reference, make_metric
from optimist.store import LogEntry
from optimist_client import tensors
from optimist_client.models import Experiment


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
            self._track.add(batch(entry.body))
            self.seq = entry.seq
            if position == due:
                scored = Scored(entry.seq, self._track.estimate())
        return scored


def batch(body: bytes) -> dict[str, torch.Tensor]:
    """The tensors (n, …) of a log entry by name, float64."""
    return {name: torch.from_numpy(array.astype(np.float64)) for name, array in tensors.decode(body).items()}


def build_bound(experiment: Experiment, reference: bytes | None) -> Bound:
    """The bound of an experiment; the eigendecomposition of its reference, where it has one, is done here."""
    config = experiment.config
    moments = None if reference is None else tensors.decode(reference)
    metric = make_metric(
        config.metric,
        experiment.dimension,
        reference=None if moments is None else Reference(moments["mean"], moments["covariance"]),
        order=config.order,
        truncation=config.truncation,
        kernel=None if config.kernel is None else config.kernel.model_dump(),
    )
    return make_bound(config.bound, metric, config.delta, **config.bound_options.given())
