"""What the store takes and gives. Records, payloads and notes are the callers' JSON: opaque here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimist.store.checking import Measures
from optimist.store.errors import StoreError
from optimist.store.state import ExperimentState, Suspect


@dataclass(frozen=True, slots=True)
class NewPick:
    """A pick to be opened: which generator, by ordinal, and the record that a state gives back.

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
class Opening:
    """Picks to be opened, numbered from `rounds` + 1 in order, if the experiment is as they were chosen for."""

    groups: Sequence[AskGroup]
    lease: float
    """Seconds for which they count as on their way."""
    rounds: int
    last: str = ""
    version: int | None = None
    """`ExperimentState.version` once the batches that go with it are settled; None: whatever was settled since."""
    mark: str = ""
    """`ExperimentState.mark` before they are; not compared where `version` is None.

    `rounds` and `last` are those of the state that the picks were chosen by, too.
    """


@dataclass(frozen=True, slots=True)
class Opened:
    """Pick numbers by request id. `repeated`: nothing was opened now, these asks have had these numbers before."""

    numbers: dict[str, list[int]]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A scorer's right to a generator, until somebody else claims it after `deadline` (Unix seconds of Redis)."""

    token: str
    deadline: float
    taken_over: bool = False
    """Whether it was another's, which ran out."""

    @property
    def instance(self) -> str:
        """The experiment's, as `ExperimentState.instance`."""
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
    """`ExperimentState.version` after it; 0 for a repeat."""
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
    """What `exchange` came to."""

    before: str
    """`ExperimentState.mark` before all of it."""
    after: str
    settled: list[Settled | StoreError]
    """In the order of the batches."""
    opened: Opened | StoreError | None = None
    """None where no picks were to be opened, or the experiment was not as expected; NotFound for a generator that is
    not there."""
    state: ExperimentState | None = None
    """None where it was not asked for, or picks were opened, or others have the turn."""


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
