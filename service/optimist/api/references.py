"""References as requests bring them: moments that are checked in a thread of their own, so that a large upload does not
delay others; rows in files, which may be larger than memory; and what stands under a name already.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
from fastapi import Request

from optimist.anomalies.batches import check_rows
from optimist.anomalies.plausibility import reference_scale
from optimist.api.app_state import AppState
from optimist.api.bodies.arrays import Arrays
from optimist.api.pages import STEP
from optimist.api.problems import ApiError, gone_away, invalid
from optimist.api.temporary import TemporaryFile
from optimist.process import stay_behind
from optimist.records import Conflict
from optimist.references.real_data import RealData, RunningMoments, check_definite, check_moments, check_shapes
from optimist.store import Store
from optimist.store.references import CHUNK_BYTES
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.files import moments_among
from optimist_client.metrics import Metric
from optimist_client.models import Experiment, ReferenceInfo
from optimist_client.references import Moments, moments_from

BLOCK = 2**23
"""Bytes of rows whose moments are computed together: each time takes a matrix (d, d) besides."""
FEATURES = "features"
_Result = TypeVar("_Result")


class UploadedRows:
    """The rows (n, d) of a reference in a file of safetensors, which are read a block at a time.

    Raises FixError where the file, of `size` bytes, holds anything else, or more than `max_dimension` columns.
    """

    def __init__(self, file: TemporaryFile, size: int, max_dimension: int) -> None:
        file.seek(0)
        head = file.read(8 + tensors.LONGEST_HEADER)
        entries = tensors.entries(head)
        if set(entries) != {FEATURES} or entries[FEATURES][0] == "BF16" or len(entries[FEATURES][1]) != 2:
            raise FixError("expected features (n, d) of F16, F32 or F64, and nothing else")
        self._file = file
        self._kind, (self.count, self.dimension), start, _ = entries[FEATURES]
        self._type = tensors.READ[self._kind]
        self._start = 8 + int.from_bytes(head[:8], "little")
        self._row = self.dimension * self._type.itemsize
        _check_width(self.dimension, max_dimension)
        if self.count < 2:
            raise FixError(f"{FEATURES}: expected shape (n, d) with n at least 2, got {entries[FEATURES][1]}")
        if start or self._start + self.count * self._row != size:
            raise FixError(f"expected {self._start + self.count * self._row} bytes by the header, got {size}")
        self.blocks = range(0, self.count, max(1, BLOCK // self._row))
        """The first row of each block."""
        self._moments = RunningMoments(self.dimension)
        self._digest = tensors.RowsDigest(FEATURES, (self.count, self.dimension))

    @property
    def memory(self) -> int:
        """The most bytes that `add` and `finish` take."""
        return 2 * 8 * min(self.blocks.step, self.count) * self.dimension + 5 * 8 * self.dimension**2

    def add(self, block: int) -> None:
        """Read the block that begins with this row. Raises FixError for numbers that no batch may have."""
        self._file.seek(self._start + block * self._row)
        content = self._file.read(min(self.blocks.step, self.count - block) * self._row)
        rows = np.frombuffer(content, self._type).reshape(-1, self.dimension)
        try:
            check_rows(FEATURES, rows, self.dimension)
        except FixError as error:
            raise FixError(f"of the rows from {block} on: {error}") from None
        self._digest.add(rows)
        self._moments.add(rows)

    def finish(self) -> tuple[str, float]:
        """The digest of all rows, and their scale."""
        check_moments(self._moments.mean, covariance := self._moments.covariance)
        self._rest = covariance.astype("<f8").tobytes() + self._moments.mean.astype("<f8").tobytes()
        return self._digest.hexdigest(), reference_scale(self._moments.mean, covariance)

    @property
    def _head(self) -> bytes:
        n, d = self.count, self.dimension
        return tensors.head_of({FEATURES: (self._kind, (n, d)), "covariance": ("F64", (d, d)), "mean": ("F64", (d,))})

    @property
    def size(self) -> int:
        """The bytes of all `parts`."""
        return len(self._head) + self.count * self._row + 8 * (self.dimension**2 + self.dimension)

    def parts(self) -> Iterator[bytes]:
        """The reference as it is stored, of at most `CHUNK_BYTES` each, once `finish` was called."""
        yield self._head
        self._file.seek(self._start)
        while part := self._file.read(CHUNK_BYTES):
            yield part
        for at in range(0, len(self._rest), CHUNK_BYTES):
            yield self._rest[at : at + CHUNK_BYTES]


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

    async def run(self, request: Request, work: Callable[..., _Result], *args: Any) -> _Result:
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
    if moment_names := moments_among(names):
        check_shapes(arrays[moment_names[0]], arrays[moment_names[1]])
        _check_width(len(arrays[moment_names[0]]), max_dimension)
    if (moments := moments_from(arrays)) is not None:
        return moments
    given = ", ".join(sorted(names)) or "nothing"
    raise FixError(f"expected mean and covariance, or mu and sigma, perhaps with samples; or features; found {given}")


def _check_width(width: int, max_width: int) -> None:
    if not 1 <= width <= max_width:
        raise FixError(f"mean: expected shape (d,) with d from 1 to {max_width}, got ({width},)")


async def standing_reference(store: Store, name: str) -> ReferenceInfo | None:
    """The reference called `name`; None if there is none."""
    meta = await store.references.meta(name)
    return None if meta is None else ReferenceInfo.model_validate_json(meta)


async def stored_reference(store: Store, name: str) -> ReferenceInfo:
    """The reference called `name`. Raises `ApiError` 404."""
    reference = await standing_reference(store, name)
    if reference is None:
        raise ApiError(404, "not-found", "Not found", f"no reference is called {name!r}: upload it first")
    return reference


async def users_of_references(app: AppState) -> dict[str, str]:
    """The reasons for keeping references of the namespace, by name: an experiment, or a trial, uses them."""
    store, copies = app.store, app.store.copies
    used: dict[str, str] = {}
    for place in await copies.newest():
        if (text := await copies.config(place.name)) is not None:
            used |= dict.fromkeys(Experiment.model_validate_json(text).references, "a trial uses it")
    names = [place.name for place in await store.newest()]
    for start in range(0, len(names), STEP):
        for outline in await app.outlines(names[start : start + STEP]):
            if outline is not None:
                uses = f"experiment {outline.experiment.config.name!r} uses it"
                used |= dict.fromkeys(outline.experiment.references, uses)
    return used


async def delete_unused(app: AppState, name: str) -> None:
    """Delete a reference. Raises Conflict, which names one that uses it; `ApiError` 404 if there is no such reference.

    An experiment in creation counts as one that uses it.
    """
    store = app.store

    async def user() -> str | None:
        # First those in creation: one that is created meanwhile is found afterwards.
        making = [*await store.in_creation(), *await store.copies.in_creation()]
        uses = (await users_of_references(app)).get(name)
        if uses is None and making:
            return f"an experiment is being created, which may use it: {making[0]!r}. Try again in a minute"
        return None if uses is None else f"{uses}: delete that first"

    await stored_reference(store, name)
    if not await store.references.delete(name, user):
        await stored_reference(store, name)


def check_embeddings(reference: ReferenceInfo, embedding: str | None) -> None:
    """Raise `ApiError` 409 if the reference is known to have another embedding than the given one."""
    if embedding is not None and reference.embedding not in (None, embedding):
        raise ApiError(
            409,
            "conflict",
            "Features of two embeddings cannot be compared",
            f"reference {reference.name!r} is of embedding {reference.embedding!r}, not of {embedding!r}",
        )


def check_same(standing: ReferenceInfo, digest: str, embedding: str | None) -> None:
    """Raise Conflict, or `ApiError` 409, if a reference is another one than the one that is uploaded."""
    if standing.digest != digest:
        raise Conflict(f"a reference named {standing.name!r} exists with other contents: choose another name")
    check_embeddings(standing, embedding)


def check_rows_kept(reference: ReferenceInfo, metric: Metric) -> None:
    """Raise `ApiError` 422 if a metric compares with the rows of a reference that holds none."""
    if metric.reference_rows and reference.rows is None:
        raise invalid(
            f"reference: {metric.shown_label!r} compares with rows, and {reference.name!r} holds only moments: "
            "upload the features with their rows kept, under another name"
        )
