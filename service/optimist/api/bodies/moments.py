"""Moments of real data, checked in a thread of their own, so that a large upload does not delay other requests.

An upload takes the memory of its arrays and of two matrices of float64.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from optimist.api.bodies.arrays import Arrays
from optimist.api.problems import gone_away, invalid
from optimist.numerics.moments import check_definite, check_moments, check_shapes, moments_of_features
from optimist.numerics.plausibility import reference_scale
from optimist.priority import stay_behind
from optimist_client import tensors
from optimist_client.files import MOMENTS

Matrix = NDArray[np.float64]
Result = TypeVar("Result")


class Queue:
    """One thread that runs functions one after the other. The process ends without waiting for it."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run a function when all before it are done; it is left out if its future is cancelled before."""
        future: Future[Any] = Future()
        self._work.put((future, work, args))
        return future

    async def run(self, request: Request, work: Callable[..., Result], *args: Any) -> Result:
        """Run a function for a request, and return its result.

        If the client disconnects before its turn has come, it is left out; raises `ApiError` then.
        """
        future = self.submit(work, *args)
        answer = asyncio.wrap_future(future)
        leaving = asyncio.ensure_future(_until_left(request))
        try:
            await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and future.cancel():
                raise gone_away()
            return await answer
        finally:
            leaving.cancel()
            future.cancel()

    def _run(self) -> None:
        stay_behind()
        while True:
            _do(*self._work.get())


async def _until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _do(future: Future[Any], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work(*args))
    except Exception as error:
        future.set_exception(error)


def memory_of(arrays: Arrays) -> int:
    """The most bytes that `checked` takes beside the arrays: features and two matrices as float64."""
    rows = arrays.get("features")
    if rows is not None:
        width = rows.shape[1] if rows.ndim == 2 else 0
        return 16 * rows.size + 18 * width**2
    return 18 * sum(array.size for array in arrays.values())


def checked(arrays: Arrays, max_dimension: int) -> tuple[Arrays, float]:
    """The moments in these arrays, which it empties, as they are stored, and their scale. Raises `ApiError` 422."""
    try:
        mean, covariance = _moments(arrays, max_dimension)
        arrays.clear()
        check_definite(covariance, check_moments(mean, covariance))
    except ValueError as error:
        raise invalid(str(error)) from None
    return {"mean": mean, "covariance": covariance}, reference_scale(mean, covariance)


def packed(kept: Arrays) -> tuple[str, bytes]:
    """Digest and stored form of moments."""
    return tensors.digest(kept), tensors.encode(kept)


def _moments(arrays: Arrays, max_dimension: int) -> tuple[Matrix, Matrix]:
    """Mean (d,) and covariance (d, d) of these arrays, float64, of at most `max_dimension` columns.

    Raises ValueError for other names and shapes; the numbers are not checked.
    """
    names = set(arrays)
    if names == {"features"}:
        rows = arrays["features"]
        _check_width(rows.shape[1] if rows.ndim == 2 else 1, max_dimension)
        return moments_of_features("features", rows)
    for mean, covariance in MOMENTS:
        if names == {mean, covariance}:
            check_shapes(arrays[mean], arrays[covariance])
            _check_width(len(arrays[mean]), max_dimension)
            return arrays[mean].astype(np.float64), arrays[covariance].astype(np.float64, order="C")
    found = ", ".join(sorted(names)) or "nothing"
    raise ValueError(f"expected mean and covariance, mu and sigma, or features; found {found}")


def _check_width(width: int, most: int) -> None:
    if not 1 <= width <= most:
        raise ValueError(f"mean: expected shape (d,) with d from 1 to {most}, got ({width},)")
