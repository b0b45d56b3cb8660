"""`.npz` archives for the tests, sound ones and others."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np


def saved(compressed: bool = False, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def member(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A file of the .npy format, of parts that need not go together."""
    text = header.encode()
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\x01\x00" else "<I", len(text)) + text + data


def described(kind: str = "<f8", shape: str = "(1, 4)", order: str = "False") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n"


def zipped(compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def changed(body: bytes, name: str, offset: int, value: int) -> bytes:
    """The archive with four other bytes in an entry of its table of contents, and in the member's own header."""
    central = body.index(b"PK\x01\x02")
    while body[central + 46 : central + 46 + len(name)] != name.encode():
        central = body.index(b"PK\x01\x02", central + 4)
    out = bytearray(body)
    out[central + offset : central + offset + 4] = struct.pack("<I", value)
    return bytes(out)
