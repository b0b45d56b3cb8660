"""Caches fitted tensors on disk in one safetensors file, which records its recipe and a checksum."""

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

# Increase this whenever fitting.py gives different tensors for the same recipe.
_VERSION = "2"


def read(path: Path, recipe: str) -> dict[str, np.ndarray] | None:
    """The tensors at `path`; None if they are missing, damaged, or not fitted with `recipe` (a digest).

    Logs a warning for a damaged file, but not for a missing or outdated one.
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
        logger.warning("%s is damaged (its checksum does not match): fitting again", path)
        return None
    return tensors


def write(path: Path, recipe: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write `tensors` to `path` atomically, so that no process ever reads an incomplete file.

    Raises OSError if the directory cannot be created or written.
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
    """SHA-256 over names, types, shapes and bytes, because safetensors has no checksum."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
