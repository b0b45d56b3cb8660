"""`.npz` bodies, without pickles. What an archive says of itself is checked before any of it is unpacked."""

from __future__ import annotations

import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.lib.format as npy
from numpy.typing import NDArray

from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.files import moments_among

MEDIA_TYPE = "application/x-npz"
MOST_ARRAYS = 16
"""Arrays of a body; a batch has three at most."""
LONGEST_DIRECTORY = 2**16
"""Bytes of the archive's table of contents: zipfile makes an object of every entry, however many are announced."""
LONGEST_HEADER = 4096
"""Bytes of the header that describes an array; numpy writes some 100."""
_LONGEST_HEAD = LONGEST_HEADER + 12
"""Bytes of that header and of what stands before it."""
_PIECE = 2**20
"""Bytes that are unpacked at a time."""
LONGEST_SIDE = 2**31
"""Most rows or columns; an array that has none of the one may announce any number of the other."""

_END = struct.Struct("<4s4H2LH")
_END_64 = b"PK\x06\x07"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Format 3.0 is for names of fields that are not in latin-1; arrays here have no fields."""
_FLOATS = {f"{order}f{size}" for order in "<>" for size in (2, 4, 8)}
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError, OSError)


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive whose table of contents has been checked; nothing of it is unpacked yet."""

    body: bytes
    size: int
    """Bytes that its arrays come to, as it says itself; no more are ever unpacked."""
    text_size: int
    """Those of them that are ids."""

    @classmethod
    def of(cls, body: bytes, limit: int) -> Archive:
        """The archive in a body. Raises FixError where it is none, or comes to more than `limit` bytes unpacked."""
        _check_end(body)
        with _opened(body) as archive:
            members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise FixError(f"expected at most {MOST_ARRAYS} arrays, got {len(members)}")
        if len({member.filename for member in members}) < len(members):
            raise FixError("expected arrays of different names")
        for member in members:
            if not member.filename.endswith(".npy"):
                raise FixError(f"expected members called <name>.npy, as numpy.savez does it; got {member.filename!r}")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
                raise FixError(f"{member.filename}: expected it stored or deflated, and not encrypted")
        size = sum(member.file_size for member in members)
        if size > limit:
            raise FixError(f"expected arrays of at most {limit} bytes together, got {size}")
        return cls(body, size, sum(member.file_size for member in members if member.filename == f"{tensors.IDS}.npy"))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes by name, of which no more is unpacked than the heads. Raises FixError saying what is wrong."""
        with _opened(self.body) as archive:
            return {
                name: _described(name, file.read(min(member.file_size, _LONGEST_HEAD)), member.file_size).shape
                for name, member, file in _members(archive)
            }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name: floats, and `ids` as packed bytes or as text. Raises FixError saying what is wrong."""
        with _opened(self.body) as archive:
            return {name: _array(name, _content(name, member, file)) for name, member, file in _members(archive)}


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo, IO[bytes]]]:
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    for name in moments_among(members) or members:
        with archive.open(members[name]) as file:
            yield name, members[name], file


def _check_end(body: bytes) -> None:
    """Raise FixError unless the record at the end is a plain one, and the table of contents a short one."""
    if len(body) < _END.size:
        raise FixError("expected an .npz archive; this is too short for one")
    signature, *_, length, _, comment = _END.unpack(body[-_END.size :])
    if signature != b"PK\x05\x06" or comment or body[-_END.size - 20 : -_END.size].startswith(_END_64):
        raise FixError("expected an .npz archive: a zip without a comment, of less than 2 GiB")
    if length > LONGEST_DIRECTORY:
        raise FixError(f"expected a table of contents of at most {LONGEST_DIRECTORY} bytes, got {length}")


@contextmanager
def _opened(body: bytes) -> Iterator[zipfile.ZipFile]:
    """The archive; raises FixError in place of whatever is raised of one that is damaged, or means harm."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            yield archive
    except _UNREADABLE as error:
        raise FixError(f"expected an .npz archive: {error}") from None


def _content(name: str, member: zipfile.ZipInfo, file: IO[bytes]) -> bytearray:
    """What a member holds; no more than was announced is unpacked, a piece at a time. At its end the sum is checked."""
    content, taken = bytearray(member.file_size), 0
    while piece := file.read(min(_PIECE, member.file_size - taken)):
        content[taken : taken + len(piece)] = piece
        taken += len(piece)
    if taken < member.file_size:
        raise FixError(f"{name}: {member.file_size} bytes are announced, {taken} are there")
    return content


class _Described(NamedTuple):
    """What the head of a member says of its array, and where that begins."""

    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    shape: tuple[int, ...]
    start: int


def _described(name: str, content: bytes | bytearray, size: int) -> _Described:
    """What the array of a member of `size` bytes is, of which `content` are the first. Raises FixError."""
    head = io.BytesIO(content[:_LONGEST_HEAD])
    try:
        shape, is_fortran, dtype = _HEADERS[npy.read_magic(head)](head, max_header_size=LONGEST_HEADER)
    # What is raised depends on how the header is wrong: its text is parsed as a Python literal.
    except Exception as error:
        raise _no_array(name, f"{type(error).__name__}: {error}"[:200]) from None
    if dtype.hasobject or dtype.fields or any(side < 0 for side in shape):
        raise _no_array(name, f"{dtype} of shape {shape}"[:200])
    kind, start = dtype.str, head.tell()
    if name == tensors.IDS:
        if kind != "|u1" and kind[1] != "U":
            raise FixError(f"{name}: expected text (U), or UTF-8 with zeros behind as |u1, got {kind}")
    elif kind not in _FLOATS:
        raise FixError(f"{name}: expected f2, f4 or f8, got {kind}")
    if any(side > LONGEST_SIDE for side in shape) or math.prod(shape) * dtype.itemsize != size - start:
        raise FixError(f"{name}: its shape does not go with the {size - start} bytes that are there")
    return _Described(dtype, "F" if is_fortran else "C", shape, start)


def _array(name: str, content: bytearray) -> NDArray[Any]:
    """The array of a member, whose bytes are as many as its shape says."""
    dtype, order, shape, start = _described(name, content, len(content))
    if dtype.kind == "U" and (np.frombuffer(content, f"{dtype.str[0]}u4", offset=start) > sys.maxunicode).any():
        raise FixError(f"{name}: expected text; found what is no character")
    array = np.frombuffer(content, dtype, offset=start).reshape(shape, order=order)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _no_array(name: str, found: str) -> FixError:
    expected = f"an array in .npy format, of a plain type, with a header of at most {LONGEST_HEADER} bytes"
    return FixError(f"{name}: expected {expected}, as numpy writes it; pickles are not read; found {found}")
