"""What an experiment is, as tables of rows: the types of their keys and rows.

Each fact has one place: a field of one row. A row is a NamedTuple of numbers, texts and tuples of these, or a number
or a text alone, and is never changed: so a copy of the tables is a copy of their dicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from optimist.records.state import GeneratorStatus

Place = tuple[int, int]
"""A generator and a number: the position of a batch in its log, an index of its sequence, or another generator."""
Part = tuple[int, int, int]
"""A generator and two numbers."""
K = TypeVar("K")
R = TypeVar("R")


class RootRow(NamedTuple):
    """What an experiment has once."""

    instance: str
    """Tells it from others of its name, and was never used before."""
    config: str
    growth: float
    """Estimates are due at (1 + growth) times the samples they were last due at (rules/estimates.md)."""
    labels: tuple[str, ...]
    """Of all metrics, that of the one that decides first."""
    batch_size: int | None = None
    """Picks begin at multiples of it in the sequence of their generator; None: samples have no indices."""
    keep_log: bool = False
    limited: tuple[str, ...] = ()
    """As of `ExperimentState`."""
    mixture_growth: float | None = None
    model_growth: float | None = None
    rounds: int = 0
    """Picks ever opened, which is also the highest pick number."""
    told: int = 0
    """Batches ever accepted, those retracted since included."""
    max_batches_per_worker: int | None = None
    """How many batches one worker may hand in."""
    retractions: int = 0
    """Batches that were retracted one by one."""
    acceptances: int = 0
    """Batches on another scale that were accepted one by one."""
    decision: str | None = None
    decided: tuple[int, ...] = ()
    """Up to which position of each generator's log batches took part in the decision."""


class GeneratorRow(NamedTuple):
    """The counts of a generator, and the end of its log."""

    name: str
    is_seedless: bool = False
    """Whether it ignores seeds: its samples have no indices."""
    state: GeneratorStatus = "active"
    samples: int = 0
    """Samples that count; so do `batches`."""
    batches: int = 0
    seq: int = 0
    """The position of the last entry in the log; 0 before the first."""
    due_samples: int = 0
    due_seq: int = 0
    """The newest position at which an estimate is due, and the samples there; 0 while none is."""
    handed: int = 0
    """The first index of its sequence that no pick has had."""
    bytes: int = 0
    """Of all bodies of the log."""
    chain: str = ""
    """The chained digest of the log (`records.chained`)."""
    copies: int = 0
    """How many batches repeat earlier ones."""
    retracted: int = 0
    """Samples that were told and retracted."""
    restart: int = 0
    """The position up to which all batches are retracted; 0: none."""
    restarted_by: int = 0
    """The position of the retraction that did so."""
    voids: int = 0
    """The position of the newest retraction: nothing that was made of the log before it may be published."""
    accepted: int = 0
    """The position up to which all batches were accepted, whatever their scale."""
    answered: int = 0
    """The position of the newest batch that was told for a pick; 0: none was."""
    unanswered: int = 0
    """Picks that were given up, or whose lease ran out, and for which no batch came later."""

    @property
    def told(self) -> int:
        """Samples that were ever told."""
        return self.samples + self.retracted


class PickRow(NamedTuple):
    """A pick that may be told: under lease, or expired since."""

    generator: int
    nonce: str
    request: str
    worker: str
    key: str
    """Id of the access key that asked, "" without one."""
    start: int | None
    """The first of its indices; None where samples have none."""
    size: int
    least: int
    most: int
    """The smallest and the largest number of rows of its batch; 0 as the largest means no limit."""
    opened: float
    deadline: float
    """In Unix seconds of Redis's clock, as `opened`."""
    asked: str = ""
    """By which the prompts of two picks are compared; "" for none."""
    prompts: str = ""
    """The indices of its prompts in the experiment's list, with commas between."""
    has_context: bool = False
    """Whether it has a row in `CONTEXTS`."""


class RunsRow(NamedTuple):
    """Indices of a generator to be handed out again, as the first and the length of each of several runs."""

    runs: tuple[int, ...]


class ScaleRow(NamedTuple):
    """The size of a generator's values, from its batches that were not too large; or of key `USUAL` the usual size."""

    rows: int
    """Rows that were measured; of the usual size how many generators are known."""
    measured_at: int = 0
    """`rows` when the usual size was last computed because of this generator."""
    sizes: tuple[float | None, ...] = ()
    """Of each array that is measured: the mean square; of the usual size the size itself, None where it is not known.
    """


USUAL = -1
USUAL_ROWS = 20
"""Rows that a generator must have for its size to be known, as in plausibility.py."""


class RetractionRow(NamedTuple):
    """The fields of `records.RetractionRecord` that are not in its key, in its order."""

    seq: int
    position: int
    until: int
    pick: int
    samples: int
    batches: int
    who: str
    when: float
    reason: str
    told: int
    reopened: bool
    digest: str


class AcceptanceRow(NamedTuple):
    """The fields of `records.AcceptanceRecord` that are not in its key, in its order."""

    until: int
    who: str
    when: float
    reason: str


class CopyRow(NamedTuple):
    """Which batch another one repeats, and where that one came from, as `records.Copy`."""

    copy_of: int
    pick: int
    rows: int
    told: float
    worker: str


class EndRow(NamedTuple):
    """How a pick ended, or what a key of a batch without a pick was used for: what a repeat is answered from."""

    nonce: str
    digest: str
    """Of the batch; "" where the pick was given up."""
    answer: tuple[int, ...] = ()
    """The numbers of the first `Settled`: pick, generator, rows, samples, batches, position, late, uncounted; then the
    runs of the rows that count, where not all do."""
    reason: str = ""
    """Why it was given up."""


class ToldRow(NamedTuple):
    """Where some contents were told: generator, position and prompts of the newest such batch of each generator."""

    places: tuple[int | str, ...]


class LevelRow(NamedTuple):
    """The level of a batch in one array, and where it came from, as `records.KeptLevel`."""

    value: float
    pick: int
    rows: int
    told: float
    worker: str


class PreviewRow(NamedTuple):
    """A preview that is kept, without its bytes."""

    position: int
    """Of its batch."""
    rank: float
    sample: int | None
    """The index of the sample in the generator's sequence; None where it has none."""
    about: str
    """A text of the caller."""


@dataclass(frozen=True, eq=False)
class Table(Generic[K, R]):
    """A table, by the types of its keys and rows."""

    name: str
    is_ring: bool = False
    """Whether only the newest rows are kept, as many as an oracle says."""


ROOT = Table[str, RootRow]("root")
"""One row, of key ""."""
GENERATORS = Table[int, GeneratorRow]("generators")
"""By ordinal."""
PICKS = Table[int, PickRow]("picks")
"""Under lease, by number."""
RETURNED = Table[int, RunsRow]("returned")
"""By generator: at most its share (`returned_limit`)."""
TOLD = Table[Place, int]("told")
"""The indices that were told, as disjoint intervals that do not touch: (generator, start) → stop."""
CONTROLS = Table[str, str]("controls")
WORKERS = Table[str, int]("workers")
"""Where batches are limited by worker: how many each has handed in, and has open picks for."""
SCALES = Table[int, ScaleRow]("scales")
"""By generator, and `USUAL`."""
RETRACTIONS = Table[Place, RetractionRow]("retractions")
"""By generator and position; that of the retraction itself where it was of several batches."""
ACCEPTANCES = Table[Place, AcceptanceRow]("acceptances")
"""By generator and position; 0 where all batches were accepted."""
COPIES = Table[Place, CopyRow]("copies")
"""By generator and position."""
SAME = Table[Place, int]("same")
"""How many batches agree between two generators, the lower ordinal first."""
RECORDS = Table[int, str]("records")
"""Of picks that may be told: what their workers got."""
CONTEXTS = Table[int, str]("contexts")
"""Of these picks: what the log keeps beside the batch, in base64."""
EXPIRED = Table[int, PickRow]("expired", is_ring=True)
SETTLED = Table[int, EndRow]("settled", is_ring=True)
APPENDED = Table[str, EndRow]("appended", is_ring=True)
"""By generator and key, with a tab between."""
CONTENTS = Table[str, ToldRow]("contents", is_ring=True)
"""By the digest of samples."""
LEVELS = Table[Part, LevelRow]("levels")
"""By generator, array and position."""
BLENDED = Table[int, float]("blended")
"""Samples that the mixture owes to each generator."""
BLENDS = Table[str, EndRow]("blends", is_ring=True)
"""What was shared out for a request."""
PREVIEWS = Table[Part, PreviewRow]("previews")
"""By generator, pick and place in its batch."""
LOG = Table[Place, dict[str, Any]]("log")
"""The entries of logs by generator and position."""
UNITS = Table[str, str]("units")
"""What scorers note of a unit: "<generator>:<label>:<fact>"."""
ARTEFACTS = Table[str, str]("artefacts")
"""What scorers make of several logs: "<artefact>:<fact>"."""
ESTIMATES = Table[str, str]("estimates")
"""By unit, as `CLAIMS`."""
CLAIMS = Table[str, str]("claims")
CURVES = Table[str, tuple[str, ...]]("curves")
"""The points of charts, "<told> <size> <point>", by unit or artefact."""
QUARANTINED = Table[Place, str]("quarantined")
"""Why an entry of a log cannot be read, by generator and position."""

TABLES: tuple[Table[Any, Any], ...] = (
    *(ROOT, GENERATORS, PICKS, RETURNED, TOLD, CONTROLS, SCALES, RETRACTIONS, ACCEPTANCES, COPIES, SAME, RECORDS),
    *(CONTEXTS, EXPIRED, SETTLED, APPENDED, CONTENTS, LEVELS, BLENDED, BLENDS, PREVIEWS, LOG, UNITS, ARTEFACTS),
    *(ESTIMATES, CLAIMS, CURVES, QUARANTINED, WORKERS),
)
