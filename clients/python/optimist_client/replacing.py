"""Files that are replaced as a whole, so that no process reads an incomplete one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path) -> Generator[Path]:
    """A temporary file next to a file, which it replaces once it was written without an error."""
    part = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        yield part
        # Otherwise a power cut may leave an empty file under the new name.
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
