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

from fastapi import Request

from optimist.api.bodies.arrays import Arrays
from optimist.api.problems import gone_away, invalid
from optimist.numerics.moments import check_shapes
from optimist.numerics.real_data import RealData, check_definite, check_moments, check_shapes
from optimist.process import stay_behind
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.files import moments_among
from optimist_client.references import Moments, moments_from

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


def checked(arrays: Arrays, max_dimension: int, samples: int | None = None) -> RealData:
    """The moments in these arrays, which it empties, with what is known of their rows.

    samples: how many rows there were, if that is said beside the arrays. Raises `ApiError` 422.
    """
    try:
        moments = _moments(arrays, max_dimension).with_samples(samples)
        arrays.clear()
        data = RealData.of_moments(moments)
        check_definite(data.covariance, check_moments(data.mean, data.covariance))
    except ValueError as error:
        raise invalid(str(error)) from None
    return data


def packed(moments: Moments) -> tuple[str, bytes]:
    """Digest and stored form of moments."""
    arrays = moments.arrays
    return tensors.digest(arrays), tensors.encode(arrays)


def _moments(arrays: Arrays, max_dimension: int) -> Moments:
    """The moments that these arrays hold, float64, of at most `max_dimension` columns.

    Raises FixError for other names and shapes; the numbers are not checked.
    """
    names = set(arrays)
    if names == {"features"}:
        rows = arrays["features"]
        _check_width(rows.shape[1] if rows.ndim == 2 else 1, max_dimension)
        return RealData.of_rows("features", rows).moments
    if known := moments_among(names):
        check_shapes(arrays[known[0]], arrays[known[1]])
        _check_width(len(arrays[known[0]]), max_dimension)
    if (moments := moments_from(arrays)) is not None:
        return moments
    found = ", ".join(sorted(names)) or "nothing"
    raise FixError(f"expected mean and covariance, or mu and sigma, perhaps with samples; or features; found {found}")


def _check_width(width: int, most: int) -> None:
    if not 1 <= width <= most:
        raise FixError(f"mean: expected shape (d,) with d from 1 to {most}, got ({width},)")
