"""Routines of scipy's BLAS and LAPACK, on tensors of float64 on the CPU.

They are called by their address, which scipy publishes for Cython, through ctypes, so that other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module

import torch
from torch import Tensor

from optimist.metrics.threads import blas_on_one_thread

BlasArgument = bytes | int | float | Tensor


def call_with_workspace(name: str, *arguments: BlasArgument) -> None:
    """Call a routine of LAPACK with as large a workspace as it asks for. Raises as `call_lapack` does."""
    asked = torch.empty(1, dtype=torch.float64)
    call_lapack(name, *arguments, asked, -1)
    work = torch.empty(int(asked), dtype=torch.float64)
    call_lapack(name, *arguments, work, len(work))


def call_lapack(name: str, *arguments: BlasArgument) -> None:
    """Call a routine of LAPACK, `info` left out. Raises ArithmeticError where that tells of a failure."""
    info = ctypes.c_int()
    with blas_on_one_thread:
        _routine("lapack", name)(*map(_by_reference, arguments), ctypes.byref(info))
    if info.value:
        raise ArithmeticError(f"LAPACK's {name} failed: {info.value}")


def add_product(whole: Tensor, left: Tensor, right: Tensor) -> None:
    """Add leftᵀ right (m, k) of rows (b, m) and (b, k) to a matrix; the entries of each row are contiguous."""
    (count, columns), across = left.shape, right.shape[1]
    arguments = right, right.stride(0), left, left.stride(0), 1.0, whole, whole.stride(0)
    # BLAS has rows and columns the other way round.
    _call_blas("dgemm", b"N", b"T", across, columns, count, 1.0, *arguments)


def add_square(whole: Tensor, rows: Tensor) -> None:
    """Add rowsᵀ rows (m, m) of rows (b, m) to a symmetric matrix: half the arithmetic of `add_product`."""
    count, columns = rows.shape
    _call_blas("dsyrk", b"U", b"N", columns, count, 1.0, rows, rows.stride(0), 1.0, whole, whole.stride(0))
    whole.copy_(whole.tril() + whole.tril(-1).T)


def _call_blas(name: str, *arguments: BlasArgument) -> None:
    with blas_on_one_thread:
        _routine("blas", name)(*map(_by_reference, arguments))


def _by_reference(argument: BlasArgument) -> object:
    """The argument by reference, as Fortran takes it."""
    if isinstance(argument, int):
        return ctypes.byref(ctypes.c_int(argument))
    if isinstance(argument, float):
        return ctypes.byref(ctypes.c_double(argument))
    return argument if isinstance(argument, bytes) else ctypes.c_void_p(argument.data_ptr())


@cache
def _routine(library: str, name: str) -> Callable[..., None]:
    capsule = import_module(f"scipy.linalg.cython_{library}").__pyx_capi__[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return ctypes.CFUNCTYPE(None)(address_of(capsule, name_of(capsule)))
