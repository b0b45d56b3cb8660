"""What the store takes and gives. Records, payloads and notes are the callers' JSON: opaque here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from optimist.store.checking import Measures
from optimist.store.errors import StoreError

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
    nonce: str = ""
    """What a tell must bring, never used before; "": none, and then rows are not checked either."""
    least: int = 1
    most: int = 0
    """Rows that its batch may have; no more than `most`, 0 for any number."""
    key: str = ""
    """Id of the access key that asked."""

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
    mark: str = ""
    """`Look.version` and `Look.mark` after it; 0 and "" where nothing was opened."""


@dataclass(frozen=True, slots=True)
class OpenPick:
    """A pick under lease. `deadline` is in Unix seconds of Redis's clock."""

    number: int
    generator: int
    request_id: str
    record: str
    deadline: float
    nonce: str = ""
    """What a tell must bring; "": nothing, as the pick is of an older version."""
    key: str = ""
    """Id of the access key that asked; "" where none was needed."""


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
class Suspect:
    """A batch that was accepted though it is odd."""

    seq: int
    copy_of: int | None = None
    """The earlier position at which its samples stand, too."""
    large: str = ""
    """Which values are far above the usual size."""

    @property
    def stored(self) -> str:
        """As the scripts have it."""
        return f"{'' if self.copy_of is None else self.copy_of}\t{self.large}"

    @classmethod
    def of(cls, seq: int, stored: str) -> Suspect:
        """The inverse of `stored`. Raises ValueError on another text."""
        copy, _, large = stored.partition("\t")
        return cls(seq, int(copy) if copy else None, large)


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
    suspects: list[Suspect] = field(default_factory=list)
    """Batches that are odd, by position; of an experiment's first 256."""
    large: int = 0
    """How many batches have values far above the usual size."""
    copies: int = 0
    """How many repeat earlier ones."""
    twins: dict[int, int] = field(default_factory=dict)
    """How many batches agree with one of a generator of a higher ordinal."""


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
    mark: str = ""
    """Another one after each of these changes: versions come again in a Redis that has lost its last writes."""
    last: str = ""
    """Nonce of the pick that was opened last."""

    @property
    def estimates_digest(self) -> str:
        """SHA-1 (hex) of the estimates that stand, by which `latch_decision` knows them."""
        entries = (f"{g.estimate_seq} {g.estimate}" if g.estimate else "" for g in self.generators)
        return hashlib.sha1("\n".join(entries).encode()).hexdigest()

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
        return self.token.rsplit(":", 2)[0]


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
    """A generator's statistic after the batch at log position `seq`. chain: `LogEntry.chain` there, "" if unknown."""

    seq: int
    body: bytes
    chain: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch for a pick. digest: of the decoded arrays, not empty: by it a repeat is recognised.

    nonce: of the pick, "" where the caller has none.
    """

    pick: int
    digest: str
    rows: int
    body: bytes
    nonce: str = ""
    measures: Measures | None = None
    """What it is checked by; None: not checked."""

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
    suspect: Suspect | None = None
    """What is odd about it; None for a repeat."""


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
    chain: str = field(default="", compare=False)
    """`chained` of all entries up to here; "" in a log that an older version has written."""


def chained(chain: str, digest: str) -> str:
    """The chained digest of a log, h_n = SHA-1(h_{n−1} ‖ d_n) in hex, after an entry of digest d_n.

    Two logs that differ anywhere have different ones from there on: a scorer compares only the last one that it knows.
    accept.lua does the same.
    """
    return hashlib.sha1(f"{chain}{digest}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What `exchange` did: what became of each batch, the picks that were opened, and the marks before and after it."""

    settled: list[Settled | StoreError]
    opened: Opened | None
    before: str
    after: str


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
