"""Archives with other contents than the service wrote, whose digest is right."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

Edit = Callable[[Any], object]


def changed(whole: bytes, edits: dict[str, Edit], added: dict[str, bytes] | None = None, without: str = "") -> bytes:
    """The archive with other members, without one of its own, and with a digest that is right."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(whole)) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.namelist():
            if member == without:
                continue
            body = old.read(member)
            if member in edits:
                parsed = json.loads(body)
                edits[member](parsed)
                body = json.dumps(parsed, separators=(",", ":")).encode()
            new.writestr(zipfile.ZipInfo(member), body)
        for member, body in (added or {}).items():
            new.writestr(zipfile.ZipInfo(member), body)
        new.comment = bytes(64)
    return _signed(made.getvalue()[:-64])


def with_directory_of(whole: bytes, size: int) -> bytes:
    """The archive with a second record of its directory, by which `zipfile` takes it to be so large."""
    members, end = whole[: -64 - 22], whole[-64 - 22 : -64]
    larger = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
    return _signed(members + larger + struct.pack("<4sLQL", b"PK\x06\x07", 0, len(members), 1) + end)


def _signed(content: bytes) -> bytes:
    return content + hashlib.sha256(content).hexdigest().encode()


def setting(**fields: Any) -> Edit:
    return lambda found: found.update(fields)


def slices(count: int, first: int = 1) -> list[list[int]]:
    return [[2 * n, 1] for n in range(first, first + count)]
