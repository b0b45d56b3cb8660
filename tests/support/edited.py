"""Archives with other contents than the service wrote, whose digest is right."""

from __future__ import annotations

import hashlib
import json
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
    content = made.getvalue()[:-64]
    return content + hashlib.sha256(content).hexdigest().encode()


def setting(**fields: Any) -> Edit:
    return lambda found: found.update(fields)


def slices(count: int, first: int = 1) -> list[list[int]]:
    return [[2 * n, 1] for n in range(first, first + count)]
