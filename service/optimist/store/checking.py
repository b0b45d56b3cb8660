"""The measures of a batch that lua/checking.lua checks when the batch is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_CONTENT = 16
_PROMPTS = 8


class Size(NamedTuple):
    """The size of one tensor of a batch, and the size of the reference, if the experiment has one."""

    name: str
    largest: float
    row: int
    mean_square: float
    reference: float | None = None
    level: float | None = None
    """The level of the batch in this tensor (`numerics.anomalies`); None: none is kept."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What a batch is checked by, beside those that were accepted before it.

    content, prompts: digests in hex of its samples and of its prompts' embeddings, "" where it has none, and a content
    of "" also where equal samples are no sign of copies. limit: times the usual size above which a value is refused.
    sizes: of every tensor whose size is checked, always in one order.
    """

    content: str
    prompts: str = ""
    limit: float = 1e6
    refuse_copies: bool = False
    sizes: Sequence[Size] = field(default_factory=tuple)

    def __str__(self) -> str:
        """The text that the scripts read."""
        parts = [repr(self.limit), str(int(self.refuse_copies)), self.content[:_CONTENT], self.prompts[:_PROMPTS]]
        for size in self.sizes:
            reference = "" if size.reference is None else repr(size.reference)
            level = "" if size.level is None else repr(size.level)
            parts += size.name, repr(size.largest), str(size.row), repr(size.mean_square), reference, level
        return "\t".join(parts)
