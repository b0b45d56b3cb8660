"""The kernel statistic of a feature stream: samples, Σ φφᵀ, and the few φ that estimators need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.base import Statistic
from optimist.metrics.feature_maps import ExactKernel, FeatureMap
from optimist.metrics.mixtures.objective import Half
from optimist.metrics.spectra.symmetric import SymmetricSum, edges
from optimist.metrics.state import Buffer, LastRows, check_rows
from optimist.metrics.vendi.listed import ListedPrompts
from optimist_client.errors import FixError


class SecondMoment:
    """S = Σ φφᵀ of `count` samples, by their rows (count, width), or as a sum of packed sums."""

    def __init__(self, rows: Tensor | None = None, sums: Sequence[SymmetricSum] = (), count: int = 0) -> None:
        self.rows = rows
        self.count = count if rows is None else len(rows)
        self._sums = tuple(sums)

    def panel(self, index: int) -> Tensor:
        """The rows of S in a panel at this place of `symmetric.edges`, up to its diagonal block."""
        if self.rows is not None:
            start, stop = edges(self.width)[index]
            return self.rows[:, start:stop].T @ self.rows[:, :stop]
        return torch.stack([each.panel(index) for each in self._sums]).sum(0)

    def times(self, rows: Tensor) -> Tensor:
        """Rows (b, width) times S (b, width)."""
        if self.rows is not None:
            return (rows @ self.rows.T) @ self.rows
        return torch.stack([each.times(rows) for each in self._sums]).sum(0)

    @property
    def width(self) -> int:
        return self._sums[0].width if self.rows is None else self.rows.shape[1]

    @property
    def device(self) -> torch.device:
        return self._sums[0].packed.device if self.rows is None else self.rows.device

    def add_to(self, whole: SymmetricSum, share: float) -> None:
        """Add share · S to a sum."""
        if self.rows is not None:
            whole.add(math.sqrt(share) * self.rows)
        for each in self._sums:
            whole.packed.add_(each.packed, alpha=share)

    @property
    def last_column(self) -> Tensor:
        """S e (width,), e the last unit vector: of features whose last one is 1, their sum."""
        if self.rows is not None:
            return self.rows.T @ self.rows[:, -1]
        return torch.stack([each.last_row() for each in self._sums]).sum(0)

    def within(self, rows: Tensor) -> Tensor:
        """φᵀSφ (b,) of rows φ (b, width): the sum of k² over the samples."""
        if self.rows is not None:
            return (rows @ self.rows.T).square().sum(-1)
        return (self.times(rows) * rows).sum(-1)


def inner_products(parts: Sequence[SecondMoment]) -> NDArray[np.float64]:
    """⟨S_i, S_j⟩_F (G, G), the sums of k² over all pairs of a sample of one part and one of another.

    By the rows while they are few and all held. Otherwise panel by panel, so that only one panel of each S is in memory
    beside what is kept.
    """
    width, count = parts[0].width, len(parts)
    products = np.zeros((count, count))
    held = [part.rows for part in parts if part.rows is not None]
    if len(held) == count and sum(map(len, held)) <= 1.5 * width:
        for i, mine in enumerate(held):
            for j, theirs in enumerate(held[: i + 1]):
                products[i, j] = products[j, i] = float((mine @ theirs.T).square().sum())
        return products
    for index, (start, _) in enumerate(edges(width)):
        panels = torch.stack([part.panel(index) for part in parts])
        flat, corners = panels.flatten(1), panels[:, :, start:].flatten(1)
        # Entries below the diagonal count twice.
        products += (2.0 * (flat @ flat.T) - corners @ corners.T).cpu().numpy()
    return products


def mixed(parts: Sequence[SecondMoment], shares: NDArray[np.float64]) -> Callable[[Tensor], Tensor]:
    """φᵀ(Σ_j shares_j S_j)φ (b,) of rows φ (b, width), shares at least 0.

    By the rows while they are fewer than the width and all held, otherwise by one weighted sum.
    """
    used = [(part, float(share)) for part, share in zip(parts, shares, strict=True) if share > 0.0]
    held = [(part.rows, share) for part, share in used if part.rows is not None]
    width = parts[0].width
    if len(held) == len(used) and sum(len(rows) for rows, _ in held) <= width:
        scaled = torch.cat([math.sqrt(share) * rows for rows, share in held])
        return lambda features: (features @ scaled.T).square().sum(-1)
    whole = SymmetricSum(width, parts[0].device)
    for part, share in used:
        part.add_to(whole, share)
    return SecondMoment(sums=(whole,)).within


MIN_ROWS, NUMBERS = 512, 2**20
"""Rows of a batch whose φ are computed at once: so many numbers of φ, but enough rows for the GEMM's full rate."""


class KernelStatistic(Statistic):
    """The second moment S = Σ φφᵀ of a stream of rows with a feature map, a batch at a time in float64.

    While `samples` ≤ `width` it holds all φ and no width × width matrix; the batch that exceeds `width` builds S and
    drops all but the last `last` φ. S is stored as a triangle; with `halves` as two sums, of the samples of even and
    of odd index in the log. The state is a function of the sequence of batches alone: reading a property never
    changes it. Tensors handed out are views of the state: do not write to them. `prompts`: the length of the list that
    the samples' prompts are, if they are one.
    """

    held = ("samples", "parities", "_rows", "_tail", "_moments", "listed")
    can_merge = True

    def __init__(
        self, feature_map: FeatureMap, *, last: int = 512, halves: bool = False, prompts: int | None = None
    ) -> None:
        if last < 0:
            raise FixError(f"need last ≥ 0, not {last}")
        self.feature_map = feature_map
        self.dimension, self.width = feature_map.dimension, feature_map.width
        self.last = last
        self.halves = halves
        self.parities = (0, 1) if halves else (0,)
        """The sums that it has."""
        self.layout = (feature_map.dimension, feature_map.width, last)
        self.samples = 0
        self._rows = Buffer(self._no_rows(), limit=self.width)
        self._tail = LastRows(self._no_rows(), last)
        self._moments: dict[int, SymmetricSum] = {}
        self.list_length = prompts
        self.listed = None if prompts is None else ListedPrompts(prompts, self.width, last, feature_map.device)

    @property
    def moment(self) -> Tensor:
        """S = Σ φφᵀ (width, width), built on demand; `times` and `square_sum` do not need it."""
        rows = self.rows
        return self._whole().dense() if rows is None else rows.T @ rows

    @property
    def square_sum(self) -> float:
        """‖S‖_F², the sum of all squared entries."""
        rows = self.rows
        return self._whole().square_sum() if rows is None else float(self.products(rows, rows).square().sum())

    @property
    def holds_rows(self) -> bool:
        return not self._moments

    @property
    def rows(self) -> Tensor | None:
        """All φ (samples, width) in log order while samples ≤ width, else None."""
        return self._rows.tensor if self.holds_rows else None

    @property
    def last_rows(self) -> Tensor:
        """The last min(samples, `last`) φ, in log order."""
        # A copy: the last bit of a sum depends on where its rows begin in memory.
        return self._rows.tail(self.last) if self.holds_rows else self._tail.tensor

    def products(self, features: Tensor, others: Tensor) -> Tensor:
        """The kernel (n, m) between φ (n, columns) and others (m, columns)."""
        return self.feature_map.products(features, others)

    def times(self, rows: Tensor) -> Tensor:
        """Rows (b, width) times S (b, width)."""
        held = self.rows
        return self._whole().times(rows) if held is None else (rows @ held.T) @ held

    def latest(self, count: int) -> Tensor | None:
        """A copy of the last `count` φ, in log order; None where not so many are kept."""
        held = self._rows if self.holds_rows else self._tail
        return held.tail(count) if count <= len(held) else None

    def half_moment(self, parity: int) -> Tensor:
        """Σ φφᵀ (width, width) over the samples of even (0) or odd (1) index. Raises FixError where not kept."""
        if self.holds_rows:
            half = self._rows.tensor[parity::2]
            return half.T @ half
        if not self.halves:
            raise FixError("the halves of the stream are kept only with halves=True")
        return self._moments[parity].dense()

    def part(self, half: Half | None = None) -> SecondMoment:
        """Σ φφᵀ over the samples of even (0) or odd (1) index, None: over all. Raises FixError where not kept."""
        if self.holds_rows:
            rows = self._rows.tensor
            return SecondMoment(rows if half is None else rows[half::2].clone())
        if half is None:
            return SecondMoment(sums=[*self._moments.values()], count=self.samples)
        if not self.halves:
            raise FixError("the halves of the stream are kept only with halves=True")
        return SecondMoment(sums=(self._moments[half],), count=(self.samples + 1 - half) // 2)

    def update(self, batch: Tensor, *, listed: Tensor | None = None) -> None:
        """Add a batch (b, d) of any real dtype, b ≥ 1; `listed` (b): the prompts in the list, None where not known.

        Raises FixError, changing nothing, on anything else, and on rows that the feature map does not take.
        """
        check_rows("features", batch, self.dimension)
        if isinstance(self.feature_map, ExactKernel) and (total := self.samples + len(batch)) > self.width:
            raise FixError(
                f"features='exact', the kernel's n × n matrix: expected at most {self.width:,} samples, got {total:,}; "
                "of more take features=r, r random features"
            )
        prompts = None if self.listed is None else self.listed.check(listed, len(batch)).split(self.rows_at_once)
        blocks = batch.split(self.rows_at_once)
        if len(blocks) > 1:
            # If the map refuses a row, nothing has changed.
            for block in blocks:
                self.feature_map.check(block)
        for index, block in enumerate(blocks):
            features = self.feature_map(block.to(self.feature_map.device, torch.float64))
            if self.listed is not None and prompts is not None:
                self.listed.add(prompts[index], features)
            self._add(features)

    @property
    def rows_at_once(self) -> int:
        """Rows of a block, in which a batch is added."""
        return max(MIN_ROWS, NUMBERS // self.width)

    def merge(self, other: Self) -> None:
        if self.listed is not None:
            raise FixError("statistics of a list of prompts are not merged")
        if other.rows is not None:
            for block in other.rows.split(self.rows_at_once):
                self._add(block)
            return
        if self.holds_rows:
            self._build()
        for parity, moment in self._moments.items():
            moment.packed += other._moments[(parity + self.samples) % len(self.parities)].packed
        self._tail.append(other.last_rows)
        self.samples += other.samples

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        if int(tensors["samples"]) > self.width:
            self._begin_sums()
            if self.listed is not None:
                self.listed.go_on()
        return super().restore(tensors)

    def _no_rows(self) -> Tensor:
        return torch.zeros(0, self.feature_map.columns, dtype=torch.float64, device=self.feature_map.device)

    def _add(self, features: Tensor) -> None:
        """Take φ (b, width) that follow the samples so far."""
        total = self.samples + len(features)
        if self.holds_rows:
            self._rows.append(features)
            self.samples = total
            if total > self.width:
                # One pass over all rows, so that S does not depend on the batches.
                self._build()
            return
        self._accumulate(features, self.samples)
        self.samples = total
        self._tail.append(features)

    def _build(self) -> None:
        """Turn the rows into the sums, keeping the last of them."""
        if self.listed is not None:
            self.listed.drop_rows(self._rows.tensor)
        self._begin_sums()
        self._accumulate(self._rows.tensor, 0)
        self._tail = LastRows(self._rows.tail(self.last), self.last)
        self._rows = Buffer(self._no_rows(), limit=self.width)

    def _begin_sums(self) -> None:
        device = self.feature_map.device
        self._moments = {parity: SymmetricSum(self.width, device) for parity in self.parities}

    def _accumulate(self, features: Tensor, start: int) -> None:
        """Add φ whose first has index `start` in the log."""
        for parity, moment in self._moments.items():
            part = features[(start + parity) % 2 :: 2] if self.halves else features
            moment.add(part)

    def _whole(self) -> SymmetricSum:
        """S, once the rows are dropped."""
        if not self.halves:
            return self._moments[0]
        return SymmetricSum(self.width, packed=self._moments[0].packed + self._moments[1].packed)
