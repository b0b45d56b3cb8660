"""Temporary files of the API, for whose next bytes there is room on the disk, or they are not written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from io import FileIO
from typing import TYPE_CHECKING

from fastapi import Request

from optimist.api.problems import ApiError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PIECE = 2**20
"""Bytes that are written after one look at the disk."""


class TemporaryFile(FileIO):
    """A file without a name, as of `tempfile.TemporaryFile`, without a buffer.

    check: called with the directory and the bytes that are written next; it raises `ApiError` where there is no room.
    Raises `ApiError` 507 where the file cannot be made or written.
    """

    def __init__(self, check: Callable[[str, int], None]) -> None:
        self._check = check
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                super().__init__(os.dup(file.fileno()), "r+")
        except OSError as error:
            raise _full(error) from None

    def expect(self, size: int) -> None:
        """Raise as `write` does where there is no room for so many bytes more."""
        try:
            self._check(tempfile.gettempdir(), size)
        except OSError as error:
            raise _full(error) from None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it, a piece at a time."""
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            piece = view[written : written + PIECE]
            self.expect(len(piece))
            try:
                written += super().write(piece)
            except OSError as error:
                raise _full(error) from None
        return written


async def spooled(request: Request, file: TemporaryFile) -> int:
    """The bytes of the body of a request, once it is written to a file. Raises `ApiError` 507 if it does not fit."""
    announced, size = request.headers.get("content-length", ""), 0
    try:
        file.expect(int(announced) if announced.isdecimal() else 0)
        async for piece in request.stream():
            size += file.write(piece)
    except ApiError as error:
        error.headers = {"connection": "close"}  # the rest of the body is not read
        raise
    return size


def _full(error: OSError) -> ApiError:
    detail = f"{error.strerror}: try again later"
    return ApiError(507, "disk-full", "The temporary file cannot be written", detail, "retry")
