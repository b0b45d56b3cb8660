"""The prompt of a pick whose ask brought one, as it is kept with the pick and its batch."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError

_HEAD = struct.Struct("<dI")


def checked_context(context: NDArray[Any], dimension: int) -> NDArray[np.float32]:
    """A context (d,) as it is kept, in memory of its own. Raises FixError unless it has d finite numbers."""
    kept = np.array(context, dtype=np.float32)
    if kept.shape != (dimension,) or not np.isfinite(kept).all():
        raise FixError(f"context: expected {dimension} finite numbers, got shape {kept.shape}")
    return kept


@dataclass(frozen=True, eq=False)
class AskedPrompt:
    """The prompt of a pick as it is stored with the pick, and copied into the log entry of its batch."""

    context: NDArray[np.float32]
    """The embedding (d,) of the prompt."""
    probability: float | None = None
    """With which its generator was drawn, above 0; None where no chance was involved."""
    prompt: str = ""
    """The prompt's text, cut to 2,000 bytes; "" without one."""
    position: int = 0
    """The position of the pick's batch in the generator's log, if it was read there; this and `pick` are not packed."""
    pick: int = 0
    """The number of the pick."""

    def pack(self) -> bytes:
        """The record as bytes: probability (0 for None), number of columns, context in float32, text in UTF-8."""
        text = self.prompt.encode()[:2000].decode(errors="ignore").encode()
        context = np.ascontiguousarray(self.context, dtype="<f4")
        return _HEAD.pack(self.probability or 0.0, len(context)) + context.tobytes() + text

    @classmethod
    def unpack(cls, packed: bytes) -> AskedPrompt:
        """The inverse of `pack`. Raises FixError for other bytes."""
        try:
            probability, columns = _HEAD.unpack_from(packed)
            context = np.frombuffer(packed, dtype="<f4", count=columns, offset=_HEAD.size)
            text = packed[_HEAD.size + 4 * columns :].decode()
        except struct.error as error:
            raise FixError(f"not the prompt of a pick: {error}") from None
        if not np.isfinite(context).all() or not 0.0 <= probability <= 1.0:
            raise FixError("not the prompt of a pick: expected finite numbers, and a probability")
        return cls(context, probability or None, text)
