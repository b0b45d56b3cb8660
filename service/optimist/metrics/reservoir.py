"""A bounded uniform sample of a generator's log: rows with the caller's ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.metrics.state import Buffer, Stateful, below
from optimist_client.errors import FixError
from optimist_client.tensors import LONGEST_ID, pack_ids, unpack_ids


class Reservoir(Stateful):
    """The `capacity` samples of a log whose index has the smallest hash: a uniform sample without any random state.

    Bottom-k sampling: which samples are kept depends only on their number, not on the batches. Rows are kept unchanged,
    in float64 on the CPU. A batch costs O(b) hashes, O(b + capacity) where one of its rows is kept, which are few in a
    long log. Raises FixError on a capacity below 1.
    """

    def __init__(self, capacity: int = 512, log: int = 0, dtype: torch.dtype | None = torch.float64) -> None:
        """log: a number below 2^16 that other logs do not have, where samples of several are put together: of all that
        these hold, the `capacity` with the smallest hashes are a uniform sample of all logs.

        dtype: that rows are kept in; None: as they come.
        """
        if capacity < 1:
            raise FixError(f"need capacity ≥ 1, not {capacity}")
        self.capacity = capacity
        self._log = log
        self._dtype = dtype
        self.samples = 0
        """Samples seen."""
        self._limit = 2**64
        """No smaller than the largest hash held: most batches of a long log have none below."""
        # Slots in no order: a new sample replaces one that is dropped.
        self._indices = np.zeros(0, dtype=np.int64)
        self._ids: list[str] = []
        self._rows: dict[str, Buffer] = {}

    def __len__(self) -> int:
        """Samples held, min(samples, capacity)."""
        return len(self._ids)

    @property
    def indices(self) -> NDArray[np.int64]:
        """The index in the log of each sample held (k), ascending: the order of `ids` and `tensors` too."""
        return np.sort(self._indices)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each sample held (k), in log order: no two samples tie, of different logs neither."""
        return _hash(self.indices, self._log)

    @property
    def bytes(self) -> int:
        longest = max((len(text.encode()) for text in self._ids), default=0)
        rows = sum(rows.tensor.nbytes for rows in self._rows.values())
        return 16 + self._indices.nbytes + longest * len(self._ids) + rows

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of each sample held (k), in log order."""
        return tuple(self._ids[slot] for slot in np.argsort(self._indices))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The rows of the samples held (k, d) by tensor name, in log order; no names before the first."""
        order = torch.from_numpy(np.argsort(self._indices))
        return {name: rows.tensor[order] for name, rows in self._rows.items()}

    def rows(self, name: str, mask: NDArray[np.bool_]) -> Tensor:
        """The rows of one tensor for the masked (k,) samples in the reservoir, in log order."""
        return self._rows[name].tensor[torch.from_numpy(np.argsort(self._indices)[mask])]

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each tensor; no names before the first batch."""
        return {name: rows.tensor.shape[1] for name, rows in self._rows.items()}

    def update(self, arrays: Mapping[str, Tensor], ids: Sequence[str]) -> None:
        """Add a batch: tensors (b, d) of any real dtype by name, b ≥ 1, and the ids of its b samples.

        Raises FixError as `check` does, changing nothing. Ids may repeat. That the numbers are finite is checked
        by the statistic.
        """
        self.check(arrays, ids)
        count = len(ids)
        self._offer(np.arange(self.samples, self.samples + count, dtype=np.int64), arrays, ids)
        self.samples += count

    def check(self, arrays: Mapping[str, Tensor], ids: Sequence[str]) -> None:
        """Raise FixError on other names or widths than before, other numbers of rows, and ids that cannot be kept.

        Such ids hold a zero byte, are longer than `LONGEST_ID` bytes, or have no UTF-8.
        """
        count = len(ids)
        if count < 1 or not arrays or any(rows.ndim != 2 or len(rows) != count for rows in arrays.values()):
            shapes = {name: tuple(rows.shape) for name, rows in arrays.items()}
            raise FixError(f"expected tensors of shape (b ≥ 1, d) for {count} ids, not {shapes}")
        widths = {name: rows.shape[1] for name, rows in arrays.items()}
        if self._rows and widths != self.widths:
            raise FixError(f"expected tensors of widths {self.widths}, not {widths}")
        # A lone surrogate cannot be encoded: UnicodeEncodeError is a ValueError.
        if any(len(text.encode()) > LONGEST_ID or "\0" in text for text in ids):
            raise FixError(f"ids: expected text of at most {LONGEST_ID} bytes without zero bytes")

    def state(self) -> dict[str, Tensor]:
        """The state as independent tensors: `layout` and `indices` (int64), `ids` (uint8), `rows/<name>` (as kept).

        `ids` (k, longest id) holds UTF-8, zeros after its end.
        """
        return {
            "layout": torch.tensor([self.capacity, self.samples], dtype=torch.int64),
            "indices": torch.from_numpy(self.indices),
            "ids": torch.from_numpy(pack_ids(self.ids).copy()),
            **{f"rows/{name}": rows for name, rows in self.tensors.items()},
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        left = dict(tensors)
        self.capacity, self.samples = left["layout"].tolist()
        self._indices, self._limit = left["indices"].numpy().copy(), 2**64
        self._ids = unpack_ids(left["ids"].numpy())
        self._rows = {name: Buffer(rows.clone(), limit=self.capacity) for name, rows in below("rows", left).items()}
        return self

    def _offer(self, indices: NDArray[np.int64], arrays: Mapping[str, Tensor], ids: Sequence[str]) -> None:
        """Keep the `capacity` samples with the smallest hashes, of the kept and the new samples."""
        held = len(self)
        hashes = _hash(indices, self._log)
        if held == self.capacity and int(hashes.min()) > self._limit:
            return
        chosen = np.ones(held + len(indices), dtype=np.bool_)
        if len(chosen) > self.capacity:
            everything = np.concatenate([_hash(self._indices, self._log), hashes])
            order = np.argpartition(everything, self.capacity - 1)
            chosen[order[self.capacity :]] = False
            self._limit = int(everything[order[self.capacity - 1]])
        stay = np.flatnonzero(chosen[held:])
        if len(stay) == 0:
            return
        free = np.flatnonzero(~chosen[:held])
        replacing, added = stay[: len(free)], stay[len(free) :]
        self._indices[free] = indices[replacing]
        self._indices = np.concatenate([self._indices, indices[added]])
        for slot, row in zip(free, replacing, strict=True):
            self._ids[int(slot)] = ids[int(row)]
        self._ids.extend(ids[int(row)] for row in added)
        for name, batch in arrays.items():
            empty = torch.zeros(0, batch.shape[1], dtype=self._dtype or batch.dtype)
            rows = self._rows.setdefault(name, Buffer(empty, limit=self.capacity))
            kept = batch[torch.from_numpy(stay).to(batch.device)].to("cpu", rows.tensor.dtype)
            rows.tensor[torch.from_numpy(free)] = kept[: len(free)]
            rows.append(kept[len(free) :])


def _hash(indices: NDArray[np.int64], log: int) -> NDArray[np.uint64]:
    """splitmix64 of each index (k) of a log: a bijection of 64 bits, so that no two samples ever tie."""
    mixed = (indices.astype(np.uint64) + np.uint64(1) + np.uint64(log << 48)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
