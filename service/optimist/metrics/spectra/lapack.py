"""Tridiagonal form of a symmetric matrix, by scipy's LAPACK: torch does not offer it.

Routines are called by their address, which scipy publishes for Cython, through ctypes, so that other threads
run meanwhile. torch's memory is passed without a copy: for a symmetric matrix, rows and columns are the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from importlib import import_module

import torch
from torch import Tensor

_LAPACK = import_module("scipy.linalg.cython_lapack")


class Tridiagonal:
    """A symmetric matrix (m, m), m ≥ 1, float64 on the CPU, as unit · Q T Qᵀ with Q orthogonal and T tridiagonal.

    Q is kept as a product of reflectors. Raises ArithmeticError on entries that are not finite.
    """

    def __init__(self, matrix: Tensor) -> None:
        largest = float(matrix.abs().amax())
        if not math.isfinite(largest):
            raise ArithmeticError("the matrix has entries that are not finite")
        # Scaling by a power of two is exact. Without it, products of very large or small entries over- or underflow.
        self.unit = 2.0 ** math.frexp(largest)[1]
        size = self._size = len(matrix)
        self._reflectors = (matrix / self.unit).contiguous()
        self.diagonal, self.beside = matrix.new_empty(size), matrix.new_empty(max(size - 1, 1))
        """Diagonal (m) and off-diagonal (m − 1) of T."""
        self._factors = matrix.new_empty(max(size - 1, 1))
        parts = (self.diagonal, self.beside, self._factors)
        _with_workspace("dsytrd", b"L", size, self._reflectors, size, *parts)

    def rotated(self, rows: Tensor) -> Tensor:
        """Rows (k, m), k ≥ 1, times Q."""
        found, size = rows.clone(memory_format=torch.contiguous_format), self._size
        reflectors = (self._reflectors, size, self._factors)
        _with_workspace("dormtr", b"L", b"L", b"T", size, len(rows), *reflectors, found, size)
        return found

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (m) of the matrix, ascending, and the eigenvectors of T as columns (m, m)."""
        size = self._size
        values, beside = self.diagonal.clone(), self.beside.clone()
        vectors, work = values.new_empty(size, size), values.new_empty(1 + 4 * size + size * size)
        whole = torch.empty(3 + 5 * size, dtype=torch.int32)
        _call("dstedc", b"I", size, values, beside, vectors, size, work, len(work), whole, len(whole))
        return values * self.unit, vectors.T

    def eigenvectors(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (m) of the matrix, ascending, and its eigenvectors as columns (m, m)."""
        values, vectors = self.eigen()
        found, size = vectors.T.contiguous(), self._size
        _with_workspace("dormtr", b"L", b"L", b"N", size, size, self._reflectors, size, self._factors, found, size)
        return values, found.T


def _with_workspace(name: str, *arguments: bytes | int | Tensor) -> None:
    """Call with as large a workspace as the routine asks for."""
    asked = torch.empty(1, dtype=torch.float64)
    _call(name, *arguments, asked, -1)
    work = torch.empty(int(asked), dtype=torch.float64)
    _call(name, *arguments, work, len(work))


def _call(name: str, *arguments: bytes | int | Tensor) -> None:
    """Call a routine, `info` left out. Raises ArithmeticError where that tells of a failure."""
    info = ctypes.c_int()
    _routine(name)(*map(_place, arguments), ctypes.byref(info))
    if info.value:
        raise ArithmeticError(f"LAPACK's {name} failed: {info.value}")


def _place(argument: bytes | int | Tensor) -> object:
    """As Fortran takes it: by reference."""
    if isinstance(argument, int):
        return ctypes.byref(ctypes.c_int(argument))
    return argument if isinstance(argument, bytes) else ctypes.c_void_p(argument.data_ptr())


@cache
def _routine(name: str) -> Callable[..., None]:
    capsule = _LAPACK.__pyx_capi__[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return ctypes.CFUNCTYPE(None)(address_of(capsule, name_of(capsule)))
