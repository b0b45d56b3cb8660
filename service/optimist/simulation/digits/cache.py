"""Fitted tensors on disk: one safetensors file that knows what it was fitted from and whether it is whole."""

import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

logger = logging.getLogger(__name__)

# Raised whenever fitting.py changes what a recipe yields.
_VERSION = "2"


def directory() -> Path:
    """Where fits are kept: `OPTIMIST_CACHE`, else `optimist` in the XDG cache directory."""
    if chosen := os.environ.get("OPTIMIST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "optimist"


def read(path: Path, recipe: str) -> dict[str, np.ndarray] | None:
    """The tensors at `path`, or None where there are none that were fitted by `recipe` (a digest) and are whole.

    A damaged file is warned about; a missing or outdated one is not, since fitting anew is what is expected then.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            origin = file.metadata() or {}
            if (origin.get("version"), origin.get("recipe")) != (_VERSION, recipe):
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        logger.warning("%s cannot be read (%s): fitting again", path, error)
        return None
    if origin.get("content") != _content(tensors):
        logger.warning("%s is damaged (its content is not what was written): fitting again", path)
        return None
    return tensors


def write(path: Path, recipe: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Put `tensors` at `path` in one atomic step, so that no process ever reads half a file.

    Raises OSError where the directory cannot be made or written.
    """
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    body = save(whole, {"version": _VERSION, "recipe": recipe, "content": _content(whole)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _content(tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes: safetensors itself carries no checksum."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
