"""The measures of a batch that lua/checking.lua checks when the batch is accepted, and the level that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optimist.records.state import Origin

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


_SPAN = 10_000
"""What separates the levels of two arrays in a sorted set; also in lua/levels.lua."""


class KeptLevel(NamedTuple):
    """The level of a batch in one array."""

    array: int
    """The place of the array among the `Measures.sizes`."""
    position: int
    """In its generator's log."""
    origin: Origin
    value: float

    @property
    def stored(self) -> tuple[str, str]:
        """The score and the member that the scripts store."""
        origin = f"{self.origin.pick} {self.origin.rows} {self.origin.told:.3f}"
        return f"{_SPAN * self.array + self.value:.4f}", f"{self.array} {self.position} {origin}"

    @classmethod
    def of(cls, score: str, member: str) -> KeptLevel:
        """The inverse of `stored`. Raises ValueError on other texts."""
        array, position, pick, rows, told = member.split(" ")
        value = round(float(score) - _SPAN * int(array), 4)
        return cls(int(array), int(position), Origin(int(pick), int(rows), float(told)), value)
