"""The statistic of KID: pair sums of blocks of consecutive rows, of which the open one keeps its rows."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.metrics.kid.reference import RealRows, check_size, cubic
from optimist.metrics.pair_sums import PairSums
from optimist.metrics.rows import Rows, check_rows, copied
from optimist.metrics.statistic import Statistic
from optimist_client.errors import FixError

BLOCK = 2000
"""Rows of a block: all their pairs count. Pairs of rows of different blocks do not."""
PIECE = 256
"""Rows whose kernels with others are computed at once."""
KEPT = 512
"""Last rows of the block before the open one that are kept, to know the mean kernel of a row with the samples."""


class BlockStatistic(Statistic):
    """Sums of q_ab = k_ab − h_a − h_b + c over the pairs of each block; h: mean kernel with real rows, c: among these.

    A row costs (rows of the open block + real rows) · d multiplications, a statistic at most (block + 512) · d numbers.
    The state is a function of the sequence of batches alone. Tensors handed out are views: do not write to them.
    """

    def __init__(self, real: RealRows, block: int = BLOCK) -> None:
        if block < 4:
            raise FixError(f"need a block of at least 4 rows, not {block}")
        self.real = real
        self.block = block
        self.samples = 0
        self._closed: list[PairSums] = []
        self._before, self._means_before = self._zeros(0, real.dimension), self._zeros(0)
        self._with_some = self._zeros(len(real.some))
        self._open()

    @property
    def blocks(self) -> list[PairSums]:
        """The sums of all blocks, the open one last."""
        sums = self._row_sums
        square = float(sums.square().sum())
        return [*self._closed, PairSums(len(self._rows), float(sums.sum()), square, float(self._squares))]

    @property
    def rows(self) -> Tensor:
        """The rows (k, d) of the open block, in log order."""
        return self._rows.view()

    @property
    def last_rows(self) -> Tensor:
        """The rows of the open block, after the last ones of the block before it."""
        return torch.cat([self._before, self.rows])

    @property
    def row_means(self) -> Tensor:
        """The mean q of each of `last_rows` (k,) with the others of its block, half its influence."""
        return torch.cat([self._means_before, self._row_sums / max(len(self._rows) - 1, 1)])

    @property
    def with_some(self) -> Tensor:
        """The mean kernel (k,) of each of the reference's `some` rows with all samples."""
        return self._with_some / self.samples

    def update(self, batch: Tensor) -> None:
        """Add a batch (b, d) of any real dtype, b ≥ 1. Raises FixError, changing nothing, on anything else."""
        check_rows("features", batch, self.real.dimension)
        check_size("features", batch)
        rows = copied(batch, self.real.device)
        while len(rows):
            take = min(PIECE, self.block - len(self._rows))
            self._add(rows[:take].clone())
            rows = rows[take:]

    def state(self) -> dict[str, Tensor]:
        """The whole state by name, views where that can be: `layout` (int64), the rest float64."""
        closed = [(block.n, block.total, block.row_squares, block.squares) for block in self._closed]
        return {
            "layout": torch.tensor([self.samples, self.real.dimension, self.block], dtype=torch.int64),
            "rows": self.rows,
            "witness": self._witness,
            "row_sums": self._row_sums,
            "squares": self._squares,
            "closed": torch.tensor(closed, dtype=torch.float64).reshape(-1, 4),
            "before": self._before,
            "means_before": self._means_before,
            "with_some": self._with_some,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], real: RealRows) -> BlockStatistic:
        """A copy of the statistic whose `state` this is, bit for bit, for every later update too.

        Raises KeyError on missing tensors, FixError on another dimension.
        """
        samples, dimension, block = tensors["layout"].tolist()
        if dimension != real.dimension:
            raise FixError(f"the statistic is of {dimension} columns, not {real.dimension}")
        statistic = cls(real, block)
        state = {name: tensor.to(real.device, copy=True) for name, tensor in tensors.items()}
        statistic.samples = samples
        statistic._closed = [PairSums(int(n), *rest) for n, *rest in state["closed"].tolist()]
        statistic._before, statistic._means_before = state["before"], state["means_before"]
        statistic._with_some = state["with_some"]
        statistic._rows = Rows(state["rows"], limit=block)
        statistic._witness, statistic._row_sums = state["witness"], state["row_sums"]
        statistic._squares = state["squares"]
        return statistic

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.real.device)

    def _open(self) -> None:
        """Begin a block."""
        self._rows = Rows(self._zeros(0, self.real.dimension), limit=self.block)
        self._witness, self._row_sums = self._zeros(0), self._zeros(0)
        self._squares = self._zeros()

    def _add(self, rows: Tensor) -> None:
        """Take rows (p, d) that the open block has room for."""
        witness, c = self.real.witness(rows), self.real.similarity
        across = cubic(rows, self.rows) - witness[:, None] - self._witness + c
        within = cubic(rows, rows) - witness[:, None] - witness + c
        within.fill_diagonal_(0.0)
        self._row_sums = torch.cat([self._row_sums + across.sum(0), across.sum(1) + within.sum(1)])
        self._squares = self._squares + 2.0 * across.square().sum() + within.square().sum()
        self._witness = torch.cat([self._witness, witness])
        self._with_some = self._with_some + cubic(rows, self.real.some).sum(0)
        self._rows.append(rows)
        self.samples += len(rows)
        if len(self._rows) == self.block:
            self._closed.append(self.blocks[-1])
            self._before, self._means_before = self._rows.tail(KEPT), self.row_means[-KEPT:].clone()
            self._open()
