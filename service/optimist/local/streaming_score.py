"""A metric of the project as one of torchmetrics, for training loops on one or many devices.

The state is one tensor of bytes: the statistic as it is stored. torchmetrics gathers it from all ranks, where it has
different lengths, and the statistics are merged in the order of the ranks. Needs the extra `torchmetrics`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torchmetrics import Metric as TorchMetric

from optimist.anomalies.batches import ExpectedValues
from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question, declared_of
from optimist.metrics.bound import Bound
from optimist.metrics.state import real_array
from optimist.metrics.threads import one_thread_here
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

_WIDTH, _METRIC = "width", "metric"
"""The record beside a stored statistic: the columns of its rows, and a digest of what its numbers depend on."""


class StreamingScore(TorchMetric):
    """The de-biased score of all samples that were given to `update`, on all ranks.

    `metric` is an object, such as `FID(reference=…)`, or a text, such as "vendi:kernel.name=cosine": a metric of one
    array whose statistics can be merged. `embed` makes rows (n, d) of what is given to `update`: a network, of which
    this then is the parent module, an embedder, or any function. `compute` returns the score, `estimate` the whole
    estimate with its interval. Statistics are kept on the CPU in float64, whatever the features are.

    Every sample counts as often as it is given: where a sampler repeats some so that ranks have equally many, as
    `DistributedSampler` does, give each rank its own part instead; ranks may have different numbers, or none. Raises
    FixError for settings that make no sense, and for rows that are not as expected, which change nothing.
    """

    is_differentiable = False
    full_state_update = True  # `forward` takes a batch twice: its own score is not what is added to the others

    def __init__(
        self,
        metric: str | Metric,
        *,
        embed: Callable[[Any], Any] | None = None,
        delta: float = 0.05,
        **of_torchmetrics: Any,
    ) -> None:
        super().__init__(**of_torchmetrics)
        self.question = Question(declared_of(metric), delta=delta)
        name = self.question.metric.name
        if self.question.is_open or self.question.is_exact:
            raise FixError(f"metric {name!r}: expected a kernel that is fixed: ranks see different first samples")
        if len(self.question.arrays) != 1:
            raise FixError(f"metric {name!r}: expected a metric of one array, got {', '.join(self.question.arrays)}")
        self.embed = embed
        self._bound: Bound | None = None
        self.stored: list[Tensor] = []
        self.add_state("stored", [], dist_reduce_fx=self._merged, persistent=True)

    @property
    def higher_is_better(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True: the best generator has the highest score."""
        return not self.question.metric.lower_is_better

    def update(self, samples: Any) -> None:
        """Add samples: rows (n, d) of any real dtype, or what `embed` makes such rows of; no rows change nothing."""
        with torch.no_grad():
            rows = samples if self.embed is None else self.embed(samples)
        rows = rows.detach().cpu() if isinstance(rows, Tensor) else torch.from_numpy(real_array("features", rows))
        if rows.ndim == 2 and not len(rows):
            return
        rows = rows.double()
        bound = self._bound_for(rows.shape[-1])
        (array,) = self.question.arrays
        ExpectedValues.from_metrics([self.question.metric]).check({self.question.reads[array]: rows.numpy()})
        statistic = self._statistic(bound, self.stored)
        with one_thread_here():
            statistic.update(rows)
        self.stored = [self._bytes_of(statistic, bound)]

    def compute(self) -> Tensor:
        return torch.tensor(self._estimate().score, dtype=torch.float64, device=self.device)

    def estimate(self) -> Estimate:
        """The estimate by all samples of all ranks, with its interval: each rank has to call this."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute):
            return self._estimate()

    def sync(self, *args: Any, **named: Any) -> None:
        # Each rank has one tensor for the others, also where it has seen nothing.
        self.stored = self.stored or [torch.zeros(0, dtype=torch.uint8, device=self.device)]
        super().sync(*args, **named)

    def merge_state(self, incoming_state: dict[str, Any] | TorchMetric) -> None:
        """Add the samples of another metric, or of its `metric_state`, which follow."""
        state = incoming_state if isinstance(incoming_state, Mapping) else incoming_state.metric_state
        self.stored = self._merged([*self.stored, *state["stored"]])
        self._computed = None
        self._update_count += 1

    def _estimate(self) -> Estimate:
        stored = self._merged(self.stored)
        if not stored:
            raise FixError(f"the metric {self.question.metric.name!r} needs at least 1 sample")
        bound = self._bound_for(_width_of(stored[0]))
        with one_thread_here():
            return bound.estimate(self._statistic(bound, stored))

    def _bound_for(self, width: int) -> Bound:
        (array,) = self.question.arrays
        if self._bound is None or self._bound.metric.widths[array] != width:
            bound = self.question.bound_for({array: width})
            if not bound.alone().can_merge:
                raise FixError(f"metric {bound.metric.name!r}: its statistics cannot be merged across ranks")
            self._bound = bound
        return self._bound

    def _statistic(self, bound: Bound, stored: list[Tensor]) -> Any:
        """The statistic of the stored one, an empty one of none."""
        statistic = bound.alone()
        if not stored or not len(stored[0]):
            return statistic
        tensors = _tensors(stored[0])
        if not torch.equal(tensors.pop(_METRIC), _digest(bound)):
            raise FixError(f"the state is not of the metric {bound.metric.name!r} with these settings")
        tensors.pop(_WIDTH)
        return statistic.restore(tensors)

    def _merged(self, stored: list[Tensor]) -> list[Tensor]:
        """One for all that are not empty, merged in their order."""
        given = [each for each in stored if len(each)]
        if len(given) < 2:
            return given
        bound = self._bound_for(_width_of(given[0]))
        whole, *others = (self._statistic(bound, [each]) for each in given)
        with one_thread_here():
            for other in others:
                whole.merge(other)
        return [self._bytes_of(whole, bound)]

    def _bytes_of(self, statistic: Any, bound: Bound) -> Tensor:
        tensors = {_WIDTH: torch.tensor(*bound.metric.widths.values()), _METRIC: _digest(bound), **statistic.state()}
        stored = save({name: each.clone(memory_format=torch.contiguous_format) for name, each in tensors.items()})
        return torch.frombuffer(bytearray(stored), dtype=torch.uint8).to(self.device)


def _tensors(stored: Tensor) -> dict[str, Tensor]:
    return load(stored.cpu().numpy().tobytes())


def _width_of(stored: Tensor) -> int:
    return int(_tensors(stored)[_WIDTH])


def _digest(bound: Bound) -> Tensor:
    """The SHA-256 (32,) of what the numbers of a statistic depend on."""
    metric = bound.metric
    digest = hashlib.sha256(f"{metric.name} {dict(metric.widths)} {metric.layout}".encode())
    for name, tensors in metric.identity():
        digest.update(name.encode())
        for tensor in tensors:
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return torch.from_numpy(np.frombuffer(digest.digest(), np.uint8).copy())
