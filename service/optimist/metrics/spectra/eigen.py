"""Symmetric eigenproblems, batched over leading dimensions where a shape says …, and derivatives of traces.

torch's memory is passed to LAPACK without a copy: for a symmetric matrix, rows and columns are the same.

For f(C) = tr g(C) of a symmetric C with eigenvalues λ, in its eigenbasis, D²f[E, F] = Σ_kl g′[λ_k, λ_l] E_kl F_kl with
g′[a, b] = (g′(a) − g′(b))/(a − b), g″(a) where a = b.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from optimist.metrics.spectra.routines import call_lapack, call_with_workspace


class Tridiagonal:
    """A symmetric matrix (m, m), m ≥ 1, float64 on the CPU, as unit · Q T Qᵀ with Q orthogonal and T tridiagonal.

    Q is kept as a product of reflectors. Raises ArithmeticError on entries that are not finite.
    """

    def __init__(self, matrix: Tensor, *, overwrite: bool = False) -> None:
        """overwrite: whether the matrix, which is contiguous, is not needed any more."""
        low, high = map(float, torch.aminmax(matrix))  # without a copy of the matrix
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ArithmeticError("the matrix has entries that are not finite")
        largest = max(-low, high)
        # Scaling by a power of two is exact. Without it, products of very large or small entries over- or underflow.
        self.unit = 2.0 ** math.frexp(largest)[1]
        size = self._size = len(matrix)
        self._reflectors = matrix.div_(self.unit) if overwrite else (matrix / self.unit).contiguous()
        self.diagonal, self.beside = matrix.new_empty(size), matrix.new_empty(max(size - 1, 1))
        """Diagonal (m) and off-diagonal (m − 1) of T."""
        self._factors = matrix.new_empty(max(size - 1, 1))
        parts = (self.diagonal, self.beside, self._factors)
        call_with_workspace("dsytrd", b"L", size, self._reflectors, size, *parts)

    def rotated(self, rows: Tensor) -> Tensor:
        """Rows (k, m), k ≥ 1, times Q."""
        product, size = rows.clone(memory_format=torch.contiguous_format), self._size
        reflectors = (self._reflectors, size, self._factors)
        call_with_workspace("dormtr", b"L", b"L", b"T", size, len(rows), *reflectors, product, size)
        return product

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (m) of the matrix, ascending, and the eigenvectors of T as columns (m, m)."""
        size = self._size
        values, beside = self.diagonal.clone(), self.beside.clone()
        vectors, work = values.new_empty(size, size), values.new_empty(1 + 4 * size + size * size)
        whole = torch.empty(3 + 5 * size, dtype=torch.int32)
        call_lapack("dstedc", b"I", size, values, beside, vectors, size, work, len(work), whole, len(whole))
        return values * self.unit, vectors.T

    def eigenvalues(self) -> Tensor:
        """Eigenvalues (m) of the matrix, ascending."""
        values, beside = self.diagonal.clone(), self.beside.clone()
        call_lapack("dsterf", self._size, values, beside)
        return values * self.unit

    def eigenvectors(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (m) of the matrix, ascending, and its eigenvectors as columns (m, m)."""
        values, vectors = self.eigen()
        basis, size = vectors.T.contiguous(), self._size
        call_with_workspace("dormtr", b"L", b"L", b"N", size, size, self._reflectors, size, self._factors, basis, size)
        return values, basis.T


def differences(values: Tensor, power: float = 0.0) -> Tensor:
    """(a^p − b^p)/(a − b) of all pairs (k, k) of values > 0 (k), of the logarithm for p = 0; p a^{p−1} where a = b.

    With u = ½ |log(a/b)| it is √(ab)^{p−1} sinh(pu)/sinh(u), which loses no digits where values are close or tiny.
    """
    logs = values.log()
    apart = 0.5 * (logs[:, None] - logs).abs()
    middle = 0.5 * (logs[:, None] + logs)
    equal = apart == 0.0
    apart = torch.where(equal, 1.0, apart)
    upper, limit = (apart, 1.0) if power == 0.0 else ((power * apart).sinh(), power)
    return ((power - 1.0) * middle).exp() * torch.where(equal, limit, upper / apart.sinh())


TRIDIAGONAL_SIZE = 512
"""Smallest matrix whose tridiagonal form is taken by scipy's LAPACK. torch decomposes smaller ones as fast."""


def centre(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (…, d) of rows (…, n, d), and the rows minus it; these are exactly zero if all rows are equal."""
    offset = rows - rows[..., :1, :]
    mean = offset.mean(-2, keepdim=True)
    return rows[..., 0, :] + mean[..., 0, :], offset - mean


def double_centre(gram: Tensor) -> Tensor:
    """The Gram matrix (…, n, n) of the same vectors minus their mean."""
    column = gram.mean(-2, keepdim=True)
    centred = gram - column
    centred -= column.mT
    centred += column.mean(-1, keepdim=True)
    return centred


def square_norms(rows: Tensor) -> Tensor:
    """‖x‖² (n) of rows x (n, d), whose squares are not stored."""
    return torch.einsum("nd,nd->n", rows, rows)


def pair_sum(values: Tensor) -> float:
    """Σ_ij (s_i s_j / (s_i + s_j))² over values s > 0 (k)."""
    # By parts that fit into a core's cache.
    parts = (part[:, None] for part in values.split(64))
    return sum(float((part * values / (part + values)).square().sum()) for part in parts)


def eigen_basis(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (…, m), ascending, and eigenvectors as columns (…, m, m) of symmetric matrices (…, m, m).

    Where torch has MKL, large matrices cost it more than scipy's LAPACK, on AMD processors twice as much.
    """
    return Tridiagonal(matrix).eigenvectors() if _is_large(matrix) else torch.linalg.eigh(matrix)


def eigenvalues_of(matrix: Tensor) -> Tensor:
    """Eigenvalues (…, m), ascending, of symmetric matrices (…, m, m), as by `eigen_basis`."""
    return Tridiagonal(matrix).eigenvalues() if _is_large(matrix) else torch.linalg.eigvalsh(matrix)


def eigen_coordinates(matrix: Tensor, rows: Tensor, *others: Tensor, overwrite: bool = False) -> tuple[Tensor, ...]:
    """Eigenvalues (…, m), ascending, of symmetric matrices (…, m, m), and rows (…, k, m) in their eigenbases.

    `others`: more such rows, which change no bit of the first result. overwrite: whether the matrices, which are
    contiguous, are not needed any more.
    A few rows need no eigenvectors: at m = 2048 the tridiagonal form, and 512 rows by its eigenvectors, take 2.1 s of
    processor time, `eigh` 3.0 s (one thread).
    """
    if 2 * len(rows) > len(matrix) or not _is_large(matrix):
        eigenvalues, eigenvectors = eigen_basis(matrix)
        return eigenvalues, *(vectors @ eigenvectors for vectors in (rows, *others))
    reduced = Tridiagonal(matrix, overwrite=overwrite)
    eigenvalues, eigenvectors = reduced.eigen()
    return eigenvalues, *(reduced.rotated(vectors) @ eigenvectors for vectors in (rows, *others))


def eigen_entries(matrix: Tensor, rows: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (m), ascending, of a symmetric matrix (m, m), and its eigenvectors at these places (k,), (k, m).

    `others`: more such places. The numbers equal `eigen_coordinates` of unit rows.
    """
    if 2 * len(rows) > len(matrix) or not _is_large(matrix):
        eigenvalues, eigenvectors = eigen_basis(matrix)
        return eigenvalues, *(eigenvectors[each] for each in (rows, *others))
    each = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return eigen_coordinates(matrix, each[rows], *(each[other] for other in others))


def _is_large(matrix: Tensor) -> bool:
    return matrix.ndim == 2 and len(matrix) >= TRIDIAGONAL_SIZE and matrix.device.type == "cpu"


def root_trace(eigenvalues: Tensor, factor: Callable[[], Tensor]) -> float:
    """Tr √(FᵀF) from the computed eigenvalues (k) of FᵀF or FFᵀ; if their noise is too large, from F's singular values.

    An eigenvalue is known to ε·λ_max, so the root of one that should be zero to √ε: 1e-8 each, which is more than a
    Fréchet distance of a set to itself may show. `factor` is asked for F only where these add up to k² ε of the trace.
    """
    if eigenvalues.numel() == 0:
        return 0.0
    epsilon = torch.finfo(eigenvalues.dtype).eps
    noise = epsilon * eigenvalues.max()
    if noise <= 0.0:
        return 0.0
    roots = eigenvalues.clamp_min(0.0).sqrt()
    error = (noise / eigenvalues.clamp_min(noise).sqrt()).sum()
    if error <= epsilon * len(roots) ** 2 * roots.sum():
        return float(roots.sum())
    return float(torch.linalg.svdvals(factor()).sum())
