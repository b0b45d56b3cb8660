"""Routed prompts: what is kept of a pick beside its scores, and the rows of all generators together."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError

_HEAD = struct.Struct("<dI")
PROMPT_BYTES = 2000
"""Bytes of a prompt's text that are kept."""


@dataclass(frozen=True, eq=False)
class RoutedPrompt:
    """The prompt of a pick as it is stored with the pick, and copied into the log entry of its batch."""

    context: NDArray[np.float32]
    """The embedding (d,) of the prompt."""
    probability: float | None = None
    """With which its generator was drawn, above 0; None where no chance was involved."""
    prompt: str = ""
    """The prompt's text, cut to `PROMPT_BYTES`; "" without one."""
    position: int = 0
    """The position of the pick's batch in the generator's log, if it was read there; this and `pick` are not packed."""
    pick: int = 0
    """The number of the pick."""

    def pack(self) -> bytes:
        """The record as bytes: probability (0 for None), number of columns, context in float32, text in UTF-8."""
        text = self.prompt.encode()[:PROMPT_BYTES].decode(errors="ignore").encode()
        context = np.ascontiguousarray(self.context, dtype="<f4")
        return _HEAD.pack(self.probability or 0.0, len(context)) + context.tobytes() + text

    @classmethod
    def unpack(cls, packed: bytes) -> RoutedPrompt:
        """The inverse of `pack`. Raises FixError for other bytes."""
        try:
            probability, columns = _HEAD.unpack_from(packed)
            context = np.frombuffer(packed, dtype="<f4", count=columns, offset=_HEAD.size)
            text = packed[_HEAD.size + 4 * columns :].decode()
        except struct.error as error:
            raise FixError(f"not the prompt of a routed pick: {error}") from None
        if not np.isfinite(context).all() or not 0.0 <= probability <= 1.0:
            raise FixError("not the prompt of a routed pick: expected finite numbers, and a probability")
        return cls(context, probability or None, text)


@dataclass(frozen=True, eq=False)
class RoutedRows:
    """A uniform sample of the batches of an experiment, and how many samples it has in all. Generators are places 0 … G
    − 1 in the experiment's list.
    """

    contexts: NDArray[np.float32]
    """(n, d), one row for each recorded sample."""
    generator: NDArray[np.int64]
    """(n,)."""
    score: NDArray[np.float64]
    """(n,), on the metric's scale."""
    probability: NDArray[np.float64]
    """With which the generator was drawn (n,); NaN where no probability is known."""
    pick: NDArray[np.int64]
    """(n,): the same number for the rows of one batch, which follow each other as in the batch, and are all there."""
    prompts: list[str]
    """Texts (n,); "" without one."""
    samples: NDArray[np.int64]
    """Samples of each generator in all (G,)."""
    sums: NDArray[np.float64]
    """The sum of all their scores (G,)."""
