"""The arguments and results of the store. Records, payloads and notes are JSON of the callers, opaque here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimist.store.checking import Measures
from optimist.store.errors import StoreError
from optimist.store.state import ExperimentState, Suspect

Runs = tuple[int, ...]
"""Whole numbers, ascending: the first and the length of each run of them, one after the other."""


@dataclass(frozen=True, slots=True)
class NewPick:
    """A pick to be opened: which generator, by ordinal, and the record that a state gives back.

    The pick takes the `size` indices of its generator's sequence from `start` on, and leaves the `left` next ones for
    later picks. `again`: `Returned.pick` of the returned slice that these are; without it the sequence goes on.
    """

    generator: int
    record: str
    start: int | None = None
    size: int = 0
    again: int | None = None
    left: int = 0
    least: int = 1
    most: int = 0
    """The smallest and the largest number of rows of its batch; 0 as the largest means no limit."""
    key: str = ""
    """Id of the access key that asked."""
    context: bytes = b""
    """What the log keeps beside the batch that is told for it; empty for nothing."""
    nonce: str = field(kw_only=True)
    """A random name, never used before, that the tell must send back."""

    def __post_init__(self) -> None:
        if self.start is None and (self.size, self.again, self.left) != (0, None, 0):
            raise ValueError("a pick without `start` has no slice")
        if self.start is not None and (self.start < 0 or self.size < 1 or self.left < 0):
            raise ValueError("a slice starts at 0 or later and has at least one position")


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
    mark: str = ""
    """`ExperimentState.mark` before these batches are settled; not compared if `version` is None.

    `rounds` and `last` are also those of the state that the picks were chosen from.
    """


@dataclass(frozen=True, slots=True)
class Opened:
    """Pick numbers by request id. `repeated`: nothing was opened now; these asks got these picks before."""

    numbers: dict[str, list[int]]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A scorer's claim on a generator. After `deadline` (Unix seconds of Redis) others can take it over."""

    token: str
    deadline: float
    taken_over: bool = False
    """Whether the expired claim of another owner was taken over."""

    @property
    def instance(self) -> str:
        """`ExperimentState.instance`, which the token contains."""
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
    """A batch for a pick, whose nonce it names. digest: of the decoded arrays, not empty; a repeated tell is recognised
    by it."""

    pick: int
    digest: str
    rows: int
    body: bytes
    nonce: str
    measures: Measures | None = None
    """The measures for the checks; None: not checked."""

    def __post_init__(self) -> None:
        check_batch(self.digest, self.rows)


def check_batch(digest: str, rows: int) -> None:
    """Raise ValueError for a batch that the scripts could not store."""
    if not digest or "\t" in digest or rows < 1:
        raise ValueError("a batch has at least one row, and a digest without tabs")


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer for an accepted batch. A repeat gets the first answer again, with `duplicate` set."""

    pick: int
    """0 where no pick asked for it."""
    generator: int
    rows: int
    """How many of its rows count."""
    samples: int
    """Samples of the generator, this batch included."""
    batches: int
    seq: int
    """Position of this batch in the generator's log; 0 where no row counts."""
    late: bool
    """The lease had run out."""
    duplicate: bool
    """Whether nothing was stored now: it was told before, or all of its indices were."""
    uncounted: int = 0
    """How many of its rows do not count, because another batch was told with their indices."""
    counted: str = ""
    """The runs of its rows that count, as the log has them; "" for all, or none."""
    version: int = 0
    """`ExperimentState.version` after it; 0 for a repeat."""
    suspect: Suspect | None = None
    """Which batch it repeats, if any; None for a repeat of the tell."""
    doubtful: bool = False
    """Whether its scale might be anomalous, so that it is worth finding out (`Store.levels`)."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One batch of a generator's log, or a retraction."""

    seq: int
    pick: int
    """0 where no pick asked for it."""
    rows: int
    """How many rows count."""
    digest: str
    body: bytes
    record: str | None = None
    """The pick's record, where the experiment keeps its log."""
    chain: str = field(default="", compare=False)
    """`chained` of all entries up to this one."""
    retracts: str | None = None
    """The record of a retraction, as retract.lua writes it; such an entry has no rows and no body."""
    prompts: str = ""
    """The index of each row's prompt in a fixed list, with commas between; "" where they are not known."""
    indices: Runs = ()
    """The indices in the generator's sequence of the first rows that count; the others have none."""
    counted: Runs = ()
    """Which rows of the body count; empty: all."""
    context: bytes = b""
    """`NewPick.context` of its pick."""

    @property
    def size(self) -> int:
        """Bytes that it adds to the log."""
        return len(self.body) + len(self.context)


def chained(chain: str, digest: str) -> str:
    """The chained digest of a log, h_n = SHA-1(h_{n−1} ‖ d_n) in hex, after an entry of digest d_n.

    Logs that differ in one entry differ in all later chained digests, so a scorer compares only the last one it knows.
    accept.lua computes the same.
    """
    return hashlib.sha1(f"{chain}{digest}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The result of `exchange`."""

    before: str
    """`ExperimentState.mark` before the call."""
    after: str
    settled: list[Settled | StoreError]
    """In the order of the batches."""
    opened: Opened | StoreError | None = None
    """None if no picks were to be opened, or if the experiment was not as expected; NotFound for an unknown
    generator."""
    state: ExperimentState | None = None
    """None if it was not requested, if picks were opened, or if somebody else has the turn."""
    is_foreseen: bool = True
    """Whether the batches changed no more than that each counts whole, and its pick ends; False, too, where one counts
    in part, or not at all, because its indices were told before."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory and disk use of a Redis, and their limits, in bytes; 0 if unknown or unlimited."""

    used_bytes: int = 0
    limit_bytes: int = 0
    log_bytes: int = 0
    """Size of its append-only file."""
    is_rewriting: bool = False
    """Whether it is rewriting this file."""


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a Redis: seconds of a ping, bytes in use, and the limit of bytes, if known."""

    latency: float
    used_bytes: int | None
    limit_bytes: int | None
