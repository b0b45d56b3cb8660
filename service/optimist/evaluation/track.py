"""A generator's log taken in order: its statistic, samples that show it, and when estimates are due.

`Evaluation` and the scorer both keep one of these for each generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from optimist.numerics.bound import Bound
from optimist.numerics.estimate import Estimate, is_due
from optimist.numerics.modes import Mode, PromptGroup
from optimist.numerics.reservoir import Reservoir
from optimist.numerics.statistic import Statistic


class Track:
    """One generator's log, with estimates at the due sample counts of decisions.md §2."""

    def __init__(self, bound: Bound, growth: float) -> None:
        self._bound = bound
        self._growth = growth
        self._last_due = 0
        self.samples = 0
        """Rows of the log so far, skipped ones included: what due counts are counted by."""
        self.statistic: Statistic = bound.statistic()
        self.reservoir = Reservoir() if bound.metric.offers_modes else None

    @property
    def bytes(self) -> int:
        """What `state` takes; the memory it is held in is up to a quarter larger."""
        return sum(tensor.nbytes for tensor in self.state().values())

    @property
    def followed_bytes(self) -> int:
        """Bytes of memory that makes estimates cheap, which `forget` gives back."""
        return self._bound.metric.followed_bytes(self.statistic)

    @property
    def has_prompts(self) -> bool:
        """Whether the metric has groups of prompts."""
        return self._bound.metric.offers_prompt_groups

    def add(self, batch: Mapping[str, Tensor], ids: Sequence[str]) -> bool:
        """Take a batch, float64 tensors (n, …) by name with n ids, and say whether an estimate is due exactly now.

        Raises ValueError, changing nothing, where the statistic or the reservoir does not take it.
        """
        if self.reservoir is not None:
            self.reservoir.check(batch, ids)
        self.statistic.update(*(batch[name] for name in self._bound.metric.widths))
        if self.reservoir is not None:
            self.reservoir.update(batch, ids)
        if self._growth == 0.0 and self._bound.name != "influence":
            self._bound.metric.follow(self.statistic)
        return self.skip(len(ids))

    def skip(self, rows: int) -> bool:
        """Pass over a batch of `rows` that cannot be taken, and say whether an estimate is due exactly now.

        Its rows count towards the due counts, as they do where the log was accepted.
        """
        self.samples += rows
        due = is_due(self.samples, self._last_due, self._growth)
        if due:
            self._last_due = self.samples
        return due

    def last_due_position(self, rows: Sequence[int]) -> int | None:
        """Index of the last of the coming batches, with these row counts, after which an estimate is due."""
        samples, last_due, position = self.samples, self._last_due, None
        for index, count in enumerate(rows):
            samples += count
            if is_due(samples, last_due, self._growth):
                last_due, position = samples, index
        return position

    def state(self) -> dict[str, Tensor]:
        """The whole state by name, not copied where that can be: good until the next batch."""
        counts = torch.tensor([self.samples, self._last_due], dtype=torch.int64)
        found = {f"statistic/{key}": tensor for key, tensor in self.statistic.state().items()}
        if self.reservoir is not None:
            found |= {f"reservoir/{key}": tensor for key, tensor in self.reservoir.state().items()}
        return {"counts": counts} | found

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], bound: Bound, growth: float) -> Track:
        """The inverse of `state`, bit for bit. Raises KeyError or ValueError on that of another bound's track."""
        track = cls(bound, growth)
        split: dict[str, dict[str, Tensor]] = {"statistic": {}, "reservoir": {}}
        for name, tensor in tensors.items():
            part, _, key = name.partition("/")
            if key:
                split[part][key] = tensor
        track.samples, track._last_due = tensors["counts"].tolist()
        track.statistic = bound.metric.restore(split["statistic"])
        if track.reservoir is not None:
            track.reservoir = Reservoir.from_tensors(split["reservoir"])
        return track

    def forget(self) -> None:
        """Drop what was kept to make estimates cheap: from here on this track makes the bits of a restored one."""
        self._bound.metric.forget(self.statistic)

    def estimate(self) -> Estimate:
        """The estimate at this position of the log."""
        return self._bound.estimate(self.statistic)

    def modes(self, count: int = 5, samples: int = 8) -> list[Mode]:
        """The modes as `Metric.modes` has them. Raises ValueError for metrics without, and before the first sample."""
        return self._bound.metric.modes(self.statistic, self.reservoir or Reservoir(), count, samples)

    def prompt_groups(self, count: int = 5, samples: int = 8) -> list[PromptGroup]:
        """The groups as `Metric.prompt_groups` has them; raises ValueError as `modes` does."""
        return self._bound.metric.prompt_groups(self.reservoir or Reservoir(), count, samples)


def first_rows(logs: Sequence[Sequence[Mapping[str, Tensor]]], count: int) -> dict[str, list[Tensor]]:
    """The first `count` rows of each log, by tensor name: what open kernels are fixed by."""
    return {name: [torch.cat([batch[name] for batch in log])[:count] for log in logs] for name in logs[0][0]}
