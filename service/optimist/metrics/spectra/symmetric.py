"""Symmetric matrices by one triangle of panels: growing sums of outer products, products, the largest eigenvalue."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from optimist.metrics.spectra.routines import add_product, add_square
from optimist.metrics.state import Kept
from optimist_client.errors import FixError

PANEL = 256
"""Rows of a panel. Measured at width 4000: panels of 256 to 1000 run at 0.75 to 0.96 of the rate of one whole GEMM. At
2000 rows a symmetric product takes 0.67, 0.70, 0.81 of a whole product's time with panels of 128, 256, 512."""
MANY_ROWS = 512
"""Rows from which on, on one thread, a sum is made by scipy's BLAS."""


class SymmetricSum(Kept):
    """Σ xxᵀ (width, width) of rows x, float64, as the lower triangle of blocks: half the arithmetic and the memory.

    Panel k holds rows k·256 … of the matrix up to its own diagonal block. All panels lie one after the other in one
    tensor, so that sums are added and stored as vectors. Up to a width of 256 that is the whole matrix.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu", packed: Tensor | None = None) -> None:
        self.width = width
        self._edges = edges(width)
        self._sizes = [(stop - start) * stop for start, stop in self._edges]
        if packed is None:
            packed = torch.zeros(sum(self._sizes), dtype=torch.float64, device=device)
        self.take(packed)

    @property
    def tensor(self) -> Tensor:
        return self.packed

    def take(self, tensor: Tensor) -> None:
        size = sum(self._sizes)
        if tensor.shape != (size,):
            raise FixError(f"expected {size} packed entries for a width of {self.width}, not {tuple(tensor.shape)}")
        self.packed = tensor
        """The panels (m,), m between width²/2 and width². A view of the state: do not write to it."""
        parts = tensor.split(self._sizes)
        self._panels = [part.view(-1, stop) for part, (_, stop) in zip(parts, self._edges, strict=True)]

    @classmethod
    def pack(cls, matrix: Tensor) -> SymmetricSum:
        """A symmetric matrix (width, width) in packed form."""
        packed = cls(len(matrix), matrix.device)
        for panel, (start, stop) in zip(packed._panels, packed._edges, strict=True):
            panel[:] = matrix[start:stop, :stop]
        return packed

    def add(self, rows: Tensor) -> None:
        """Add the outer products of rows (b, width)."""
        is_own = len(rows) >= MANY_ROWS and rows.device.type == "cpu" and torch.get_num_threads() == 1
        for panel, (start, stop) in zip(self._panels, self._edges, strict=True):
            if is_own:
                if start:
                    add_product(panel[:, :start], rows[:, start:stop], rows[:, :start])
                add_square(panel[:, start:], rows[:, start:stop])
            else:
                panel.addmm_(rows[:, start:stop].T, rows[:, :stop])

    def dense(self) -> Tensor:
        """The whole matrix (width, width), newly made."""
        matrix = self.packed.new_empty(self.width, self.width)
        for panel, (start, stop) in zip(self._panels, self._edges, strict=True):
            matrix[start:stop, :stop] = panel
            matrix[:start, start:stop] = panel[:, :start].T
        return matrix

    def times(self, rows: Tensor) -> Tensor:
        """Rows (b, width) times the matrix, without building the whole matrix."""
        product = torch.zeros_like(rows)
        for panel, (start, stop) in zip(self._panels, self._edges, strict=True):
            product[:, :stop] += rows[:, start:stop] @ panel
            product[:, start:stop] += rows[:, :start] @ panel[:, :start].T
        return product

    def last_row(self) -> Tensor:
        """The last row (width,) of the matrix, a view."""
        return self._panels[-1][-1]

    def panel(self, index: int) -> Tensor:
        """The panel (rows, stop) at this index of `edges`, a view."""
        return self._panels[index]

    def diagonal(self) -> Tensor:
        """A copy of the diagonal (width,)."""
        return torch.cat([panel.diagonal(start) for panel, (start, _) in zip(self._panels, self._edges, strict=True)])

    def parts(self) -> Iterator[tuple[Tensor, slice, slice, int]]:
        """Blocks (views), their rows and columns, and 2 for blocks that also stand above the diagonal."""
        for panel, (start, stop) in zip(self._panels, self._edges, strict=True):
            rows = slice(start, stop)
            yield panel[:, start:], rows, rows, 1
            if start:
                yield panel[:, :start], rows, slice(0, start), 2

    def inner(self, other: Tensor) -> float:
        """Sum of the products of the entries with a symmetric matrix's (width, width)."""
        parts = (
            (times, part.flatten() @ other[rows, columns].flatten()) for part, rows, columns, times in self.parts()
        )
        return sum(times * float(product) for times, product in parts)

    def square_sum(self) -> float:
        # Entries below the diagonal count twice. A dot product does not store the squares: 3 ms, not 9 ms, at 2000.
        corners = [panel[:, start:].square().sum() for panel, (start, _) in zip(self._panels, self._edges, strict=True)]
        return float(2.0 * (self.packed @ self.packed) - torch.stack(corners).sum())


def edges(width: int) -> list[tuple[int, int]]:
    """First and last (excluded) row of each panel."""
    return [(start, min(start + PANEL, width)) for start in range(0, width, PANEL)]


def increments(count: int, mean: Tensor, rows: Tensor) -> Tensor:
    """Rows u (b, d) with Σ uuᵀ = the addition of rows x (b, d) to the scatter of `count` others of mean (d) (Welford).

    u_j = √(m/(m + 1)) (x_j − mean of the m before it), m = count + j: one row a sample and no negative term, so that
    the Gram matrix of the u only grows. The very first sample adds nothing: then there are b − 1 rows.
    """
    # About a row of their own, so that identical rows add exactly zero.
    origin = rows[0] if count == 0 else mean
    offsets = rows - origin
    before = torch.arange(count, count + len(rows), dtype=rows.dtype, device=rows.device)[:, None]
    means = (offsets.cumsum(0) - offsets) / before.clamp_min(1.0)
    scaled = (before / (before + 1.0)).sqrt() * (offsets - means)
    return scaled if count else scaled[1:]


def symmetric_product(left: Tensor, right: Tensor) -> Tensor:
    """left (m, k) times right (k, m) where the product is a symmetric matrix (m, m)."""
    product = left.new_empty(len(left), len(left))
    for start, stop in edges(len(left)):
        panel = symmetric_panel(left, right, start, stop, product[start:stop, :stop])
        product[:start, start:stop] = panel[:, :start].T
    return product


def symmetric_panel(left: Tensor, right: Tensor, start: int, stop: int, out: Tensor | None = None) -> Tensor:
    """The rows from `start` to `stop` of `symmetric_product`, up to their diagonal block (stop − start, stop)."""
    panel = torch.mm(left[start:stop], right[:, :stop], out=out)
    # Only on some machines is the product of BLAS symmetric to the last bit.
    square = panel[:, start:]
    panel[:, start:] = square.tril() + square.tril(-1).T
    return panel


def congruence(factor: Tensor, matrix: Tensor) -> Tensor:
    """F A Fᵀ (k, k) of an upper trapezoidal F (k, m), k ≤ m, and a symmetric A (m, m): k³ flops where k = m.

    Two products, one of them symmetric, take three times as many. Neither zeros of F nor the lower triangle of F A are
    multiplied.
    """
    count, columns = factor.shape
    half, product = factor.new_zeros(count, columns), factor.new_empty(count, count)
    for start in range(0, count, PANEL):
        stop = min(start + PANEL, count)
        panel = factor[start:stop, start:]
        torch.mm(panel, matrix[start:, start:], out=half[start:stop, start:])
        above = half[:stop, start:] @ panel.T
        product[:stop, start:stop] = above
        product[start:stop, :start] = above[:start].T
        square = above[start:]
        product[start:stop, start:stop] = square.triu() + square.triu(1).T
    return product


def times_upper(rows: Tensor, factor: Tensor) -> Tensor:
    """Rows (b, k) times an upper trapezoidal F (k, m), k ≤ m: (b, m). Zeros of F are not multiplied."""
    product = rows.new_empty(len(rows), factor.shape[1])
    for start in range(0, factor.shape[1], PANEL):
        stop = start + PANEL
        product[:, start:stop] = rows[:, :stop] @ factor[:stop, start:stop]
    return product


def times_lower(rows: Tensor, factor: Tensor) -> Tensor:
    """Rows (b, m) times Fᵀ of an upper trapezoidal F (k, m), k ≤ m: (b, k). Zeros of F are not multiplied."""
    product = rows.new_empty(len(rows), len(factor))
    for start in range(0, len(factor), PANEL):
        product[:, start : start + PANEL] = rows[:, start:] @ factor[start : start + PANEL, start:].T
    return product


def largest_eigenvalue(
    matrix: SymmetricSum, start: Tensor | None = None, steps: int = 60, precision: float = 1e-10
) -> tuple[float, Tensor]:
    """λ_max of a symmetric matrix (m, m), m ≥ 1, to `precision` of its size, and a start (m) for one close to this.

    With the start that a close matrix gave some 10 products with the matrix are enough. Without one, or where `steps`
    are not, all eigenvalues are computed. With residual ρ and distance γ to the next Ritz value, a Ritz value is off by
    ρ²/γ (Kato–Temple), and by no more than ρ.
    """
    if start is None or matrix.width <= steps:
        return _direct(matrix.dense())
    basis = start[None] / start.norm()
    projected = start.new_zeros(steps, steps)
    for step in range(steps):
        product = matrix.times(basis[step : step + 1])[0]
        # Against all earlier vectors, twice: three-term recurrences lose orthogonality.
        for _ in range(2):
            inner = basis @ product
            projected[: step + 1, step] += inner
            product = product - inner @ basis
        rest = product.norm()
        small = projected[: step + 1, : step + 1]
        values, vectors = torch.linalg.eigh(small.triu() + small.triu(1).T)
        scale = float(values.abs().amax())
        residual = float((rest * vectors[-1, -1]).abs())
        gap = float(values[-1] - values[-2]) - residual if step else 0.0
        error = min(residual, residual**2 / gap) if gap > 0.0 else residual
        is_invariant = float(rest) <= precision * scale
        if is_invariant or (step + 1 >= 6 and error <= precision * scale):
            return float(values[-1]), _mixed(vectors) @ basis
        basis = torch.cat([basis, (product / rest)[None]])
    return _direct(matrix.dense())


def _direct(matrix: Tensor) -> tuple[float, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    return float(values[-1]), _mixed(vectors)


def _mixed(vectors: Tensor) -> Tensor:
    """The sum of the columns (m, k), with weights that decrease from the last to the first."""
    # Of four: their order may change by the next start.
    last = vectors[:, -4:].flip(-1)
    return last @ (1.0 / 3.0) ** torch.arange(last.shape[1], dtype=last.dtype, device=last.device)
