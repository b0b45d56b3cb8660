"""Picks to open, batches that settle them with their measures, and the store's answers.

lua/checking.lua checks the measures of a batch when it is accepted, and keeps its level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import Field

from optimist.records.codec import Count
from optimist.records.errors import StoreError
from optimist.records.state import Copy, ExperimentState, Origin

_SPAN = 10_000
"""Distance between the levels of two arrays in a sorted set; also in lua/levels.lua."""


class Size(NamedTuple):
    """The size of one tensor of a batch, and the size of the reference, if the experiment has one."""

    name: str
    largest: float
    row: int
    mean_square: float
    reference: float | None = None
    level: float | None = None
    """The level of the batch in this tensor (`anomalies.levels`); None: none is kept."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Properties of a batch that are checked against earlier batches.

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
        parts = [repr(self.limit), str(int(self.refuse_copies)), self.content[:16], self.prompts[:8]]
        for size in self.sizes:
            reference = "" if size.reference is None else repr(size.reference)
            level = "" if size.level is None else repr(size.level)
            parts += size.name, repr(size.largest), str(size.row), repr(size.mean_square), reference, level
        return "\t".join(parts)


class KeptLevel(NamedTuple):
    """The level of a batch in one array."""

    array: Annotated[int, Field(ge=0, lt=1000)]
    """The place of the array among the `Measures.sizes`."""
    position: Count
    """In its generator's log."""
    origin: Origin
    value: Annotated[float, Field(ge=-_SPAN / 2, le=_SPAN / 2)]

    @property
    def stored(self) -> tuple[str, str]:
        """The score and the member that the scripts store."""
        return f"{_SPAN * self.array + self.value:.4f}", f"{self.array} {self.position} {self.origin.stored}"

    @classmethod
    def from_member(cls, score: str, member: str) -> KeptLevel:
        """The inverse of `stored`. Raises ValueError on other texts."""
        array, position, origin = member.split(" ", 2)
        value = round(float(score) - _SPAN * int(array), 4)
        return cls(int(array), int(position), Origin.from_stored(origin), value)


@dataclass(frozen=True, slots=True)
class Slice:
    """The indices of its generator's sequence that a pick takes: `size` from `start` on."""

    start: int
    size: int
    again: bool = False
    """True if the indices were returned by an earlier pick; False if they continue the sequence."""
    left: int = 0
    """Number of the next indices, of the same run, left for later picks."""
    prompts: list[str] | None = None
    prompt_indices: list[int] | None = None
    """The places of the prompts in the experiment's list."""


@dataclass(frozen=True, slots=True)
class NewPick:
    """A pick to be opened."""

    generator: int
    """Its ordinal."""
    record: str
    """The pick as JSON, opaque to scripts."""
    nonce: str
    """A random name, never used before, that the tell must send back."""
    part: Slice | None = None
    """None where samples have no indices."""
    min_rows: int = 1
    max_rows: int = 0
    """The smallest and the largest number of rows of its batch; 0 as the largest means no limit."""
    key: str = ""
    """Id of the access key that asked."""
    context: bytes = b""
    """Bytes that the log keeps beside the pick's batch; may be empty."""
    worker: str = ""
    """The worker that asked, if it is named."""


@dataclass(frozen=True, slots=True)
class AskGroup:
    """The picks of one ask. A repeated ask is recognised by its request id, which must be given and have no tab."""

    request_id: str
    picks: Sequence[NewPick]


@dataclass(frozen=True, slots=True)
class Opening:
    """Picks to be opened, numbered from `rounds` + 1 in order, if the experiment is still as expected here."""

    groups: Sequence[AskGroup]
    lease: float
    """Seconds for which the picks count as open."""
    rounds: int
    last: str = ""
    version: int | None = None
    """`ExperimentState.version` after the batches of the same call are settled; None: not compared."""
    state_token: str = ""
    """`ExperimentState.state_token` before these batches are settled; not compared if `version` is None.

    `rounds` and `last` are also of the state that the picks were chosen from.
    """


@dataclass(frozen=True, slots=True)
class Opened:
    """Pick numbers by request id. `repeated`: nothing was opened now; these asks got these picks before."""

    numbers: dict[str, list[int]]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a batch, as the log stores them.

    digest: of the decoded arrays; a repeated tell is recognised by it. Raises ValueError for what the scripts could not
    store.
    """

    digest: str
    rows: int
    body: bytes
    measures: Measures | None = None
    """The measures for the checks; None: not checked."""
    repeated: int = 0
    """Number of rows of features that repeat earlier rows, where there are many. Not stored."""

    def __post_init__(self) -> None:
        if not self.digest or "\t" in self.digest or self.rows < 1:
            raise ValueError("a batch has at least one row, and a digest without tabs")


@dataclass(frozen=True, slots=True)
class PickBatch:
    """A batch for a pick, whose nonce it names."""

    pick: int
    nonce: str
    contents: Contents


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer for an accepted batch. A repeat gets the first answer again, with `duplicate` set."""

    pick: int
    """0 where no pick asked for it."""
    generator: int
    rows: int
    """Number of rows that count."""
    samples: int
    """Samples of the generator, this batch included."""
    batches: int
    seq: int
    """Position of this batch in the generator's log; 0 where no row counts."""
    late: bool
    """The lease had run out."""
    duplicate: bool
    """True if nothing was stored: the batch, or all of its indices, were told before."""
    uncounted: int = 0
    """Number of rows that do not count, because another batch was told with their indices."""
    version: int = 0
    """`ExperimentState.version` after it; 0 for a repeat."""
    copy: Copy | None = None
    """The batch that it repeats, if any; None for a repeat of the tell."""
    doubtful: bool = False
    """True if the scale might be anomalous and should be examined (`Store.levels`)."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The result of `exchange`."""

    before: str
    """`ExperimentState.state_token` before the call."""
    after: str
    settled: list[Settled | StoreError]
    """In the order of the batches."""
    opened: Opened | StoreError | None = None
    """None if no picks were to be opened, or if the experiment was not as expected; NotFound for an unknown
    generator."""
    state: ExperimentState | None = None
    """None if it was not requested, if picks were opened, or if somebody else has the opening lock."""
    is_foreseen: bool = True
    """True if every batch counts in full and only ends its pick. False where indices of a batch were told before."""

    @property
    def has_opened(self) -> bool:
        """True if picks were opened."""
        return isinstance(self.opened, Opened) and not self.opened.repeated
