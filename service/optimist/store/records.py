"""What the store takes and gives. Records, payloads and notes are the callers' JSON: opaque here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

State = Literal["active", "paused", "retired"]


@dataclass(frozen=True, slots=True)
class NewPick:
    """A pick to be opened: which generator, by ordinal, and the record that `look` gives back.

    Where an experiment has prompts, every generator goes through one seeded order of them: the pick takes the `size`
    positions from `start` on. `again`: the ended pick whose returned slice these are.
    """

    generator: int
    record: str
    start: int | None = None
    size: int = 0
    again: int | None = None

    def __post_init__(self) -> None:
        if self.start is None and (self.size, self.again) != (0, None):
            raise ValueError("a pick without `start` has no slice")
        if self.start is not None and (self.start < 0 or self.size < 1):
            raise ValueError("a slice starts at 0 or later and has at least one position")


@dataclass(frozen=True, slots=True)
class AskGroup:
    """The picks of one ask. Its request id makes a repeat recognisable, so every ask has one, of no tab."""

    request_id: str
    picks: Sequence[NewPick]


@dataclass(frozen=True, slots=True)
class Opened:
    """Pick numbers by request id. `repeated`: nothing was opened now, these asks have had these numbers before."""

    numbers: dict[str, list[int]]
    repeated: bool
    version: int = 0
    """`Look.version` after it; 0 where nothing was opened."""


@dataclass(frozen=True, slots=True)
class OpenPick:
    """A pick under lease. `deadline` is in Unix seconds of Redis's clock."""

    number: int
    generator: int
    request_id: str
    record: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Returned:
    """The slice of a pick that was given up, or whose lease ran out; a late batch takes it back."""

    pick: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """A batch of the log that cannot be read, and why."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class GeneratorState:
    """Where a generator stands: counts, the position an estimate is due at, and the newest estimate there is."""

    ordinal: int
    name: str
    samples: int
    batches: int
    seq: int
    """Position of the last batch in the log; 0 before the first."""
    due_samples: int
    """Samples at `due_seq`; 0 while no estimate is due (decisions.md §2)."""
    due_seq: int
    """The newest log position at which an estimate is due; 0 while none is."""
    estimate_seq: int = 0
    """The log position `estimate` was made at; 0 while there is none."""
    estimate: str | None = None
    damage: str | None = None
    """Why it cannot be scored; the next estimate mends it."""
    handed: int = 0
    """Positions of the prompt order handed out so far, those returned since included."""
    returned: list[Returned] = field(default_factory=list)
    """Slices to be handed out again, by pick."""
    state: State = "active"
    snapshot_seq: int = 0
    """The log position of the snapshot; 0 while there is none."""
    log_bytes: int = 0
    """Bytes of the bodies that were logged after the snapshot."""
    aside: list[SetAside] = field(default_factory=list)
    """Batches that cannot be read, by position; of an experiment's first `ASIDE_LIMIT`."""
    aside_count: int = 0
    """How many batches cannot be read."""


@dataclass(frozen=True, slots=True)
class Look:
    """One consistent view of an experiment."""

    rounds: int
    """Picks ever opened, which is also the highest pick number."""
    told: int
    """Batches ever accepted."""
    generators: list[GeneratorState]
    open_picks: list[OpenPick] = field(default_factory=list)
    """Leased picks by number; those whose lease ran out no longer pend."""
    decision: str | None = None
    controls: dict[str, str] = field(default_factory=dict)
    """What `control` set."""
    instance: str = ""
    """Tells an experiment from others of its name, before and after it."""
    keep_log: bool = False
    version: int = 0
    """Counts the changes of all that picks are made from."""

    @property
    def active(self) -> list[GeneratorState]:
        """The generators that picks are opened for."""
        return [generator for generator in self.generators if generator.state == "active"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A scorer's right to a generator, until somebody else claims it after `deadline` (Unix seconds of Redis)."""

    token: str
    deadline: float
    taken_over: bool = False
    """Whether it was another's, which ran out."""

    @property
    def instance(self) -> str:
        """The experiment's, as `Look.instance`."""
        return self.token.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """An estimate as charts keep it: `point` is the caller's text."""

    told: int
    """Batches told to the whole experiment when it was published."""
    seq: int
    """The log position it was made at."""
    point: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A generator's statistic after the batch at log position `seq`."""

    seq: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch for a pick. digest: of the decoded arrays, not empty: by it a repeat is recognised."""

    pick: int
    digest: str
    rows: int
    body: bytes

    def __post_init__(self) -> None:
        if not self.digest or "\t" in self.digest or self.rows < 1:
            raise ValueError("a batch has at least one row, and a digest without tabs")


@dataclass(frozen=True, slots=True)
class Settled:
    """What an accepted batch came to. A repeat gets the first answer again, with `duplicate` set."""

    pick: int
    """0 where no pick asked for it."""
    generator: int
    rows: int
    samples: int
    """Samples of the generator, this batch included."""
    batches: int
    seq: int
    """Position of this batch in the generator's log."""
    late: bool
    """The lease had run out; the batch counts all the same."""
    duplicate: bool
    version: int = 0
    """`Look.version` after it; 0 for a repeat."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One batch of a generator's log."""

    seq: int
    pick: int
    """0 where no pick asked for it."""
    rows: int
    digest: str
    body: bytes
    record: str | None = None
    """The pick's record, where the experiment keeps its log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a Redis holds, and may hold; 0 where it does not say, or has no limit. All in bytes."""

    used_bytes: int = 0
    limit_bytes: int = 0
    log_bytes: int = 0
    """Of its append-only file."""
    is_rewriting: bool = False
    """Whether it writes a shorter one in place of that."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a Redis does: seconds that a ping took, bytes it holds, and the most it may hold, where it says so."""

    latency: float
    used_bytes: int | None
    limit_bytes: int | None
