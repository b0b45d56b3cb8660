"""What an experiment is, as tables of rows: the types of their keys and rows, and the texts that stand for these.

Each fact has one place: a field of one row. `Table` says how a table is kept; nothing else names all tables. A change
is a table, a key and the new row, or None where it is removed. Undoing, catching up with another process, an archive
and a copy are loops over changes, which know no table.

A row is a NamedTuple of numbers, texts and tuples of these, or a number or a text alone. Its text is a JSON list of the
fields in order. Later versions add fields at the end, with a default, so that they read what earlier ones have written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from optimist.records.state import State

Place = tuple[int, int]
"""A generator and a number: the position of a batch in its log, an index of its sequence, or another generator."""
Key = int | str | tuple[int, ...]
K = TypeVar("K", bound=Key)
R = TypeVar("R")
_PLAIN = (int, str, float)
WHOLE = "*"
"""In place of a key: all rows. In place of the last number of a key of a table that is divided: all of a generator."""
REMEMBERED = 65_536
"""How many rows a ring has: the newest."""


class RootRow(NamedTuple):
    """What an experiment has once."""

    instance: str
    """Tells it from others of its name, and was never used before."""
    config: str
    """SHA-1 (hex) of its config."""
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
    route_growth: float | None = None
    rounds: int = 0
    """Picks ever opened, which is also the highest pick number."""
    told: int = 0
    """Batches ever accepted, those retracted since included."""
    lease: float = 0.0
    """The longest lease that was ever given, in seconds."""
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
    state: State = "active"
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
    """The fields of `records.Retraction` that are not in its key, in its order."""

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
    """The fields of `records.Acceptance` that are not in its key, in its order."""

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
    """A table. Its rows are fields of one hash, by the text of the key, or where it is `divided` of a hash for each
    generator, the first number of the key."""

    name: str
    key: type
    row: type[R]
    is_resident: bool = False
    """Whether every process that serves the experiment has it in memory; the others are read when something is decided
    that needs them."""
    is_ring: bool = False
    """Whether only the newest `REMEMBERED` rows are kept."""
    is_kept: bool = False
    """Whether a process may keep rows that it has written or read, as only commits change them."""
    divided: bool = False
    is_followed: bool = False
    """Whether a process that keeps rows of it takes over the changes of others; else it reads them again."""
    beside: tuple[str, ...] = ()
    """Tables whose rows are removed with those of the same key that fall out of this ring."""

    def part(self, key: K) -> str:
        """The name of the hash that has the row of this key."""
        return f"{self.name}:{key[0] if isinstance(key, tuple) else key}" if self.divided else self.name

    def text_of(self, key: K) -> str:
        """The field of the row of this key."""
        if isinstance(key, tuple):
            return ":".join(map(str, key[1:] if self.divided else key))
        return "" if self.divided else str(key)

    def whole_text_of(self, key: K) -> str:
        """The text of a key with the number that is in the name of its hash."""
        return ":".join(map(str, key)) if isinstance(key, tuple) else str(key)

    def key_in(self, text: str, first: int | None = None) -> K:
        """The key of a field; first: its first number, where the table is divided."""
        key: Any = text
        if self.key is int:
            key = int(text)
        elif self.key is tuple:
            key = (*(() if first is None else (first,)), *map(int, text.split(":")))
        return key

    def row_in(self, text: str) -> R:
        """The row of a text that `text_of_row` made."""
        return self.row_of(text if self.row is str else from_json(text))

    def value_in(self, key: Any, stored: Any) -> Any:
        """The row of what is stored at a key, all rows of a generator by key where the key ends in `WHOLE`, or the
        fields of an entry of a log; None for None."""
        if stored is None or self.row in (dict, list):
            return stored
        if key == WHOLE:
            return {self.key_in(text): self.row_in(stored[text]) for text in sorted(stored)}
        if type(key) is tuple and key[-1] == WHOLE:
            return {self.key_in(text, key[0]): self.row_in(stored[text]) for text in sorted(stored)}
        return self.row_in(stored)

    def row_of(self, value: Any) -> R:
        """The row of a decoded text."""
        if self.row in _PLAIN:
            return value
        return self.row(*[tuple(one) if type(one) is list else one for one in value])


def text_of_row(row: Any) -> str:
    """The text of a row."""
    return row if type(row) is str else to_json(row, inf_nan_mode="constants").decode()


ROOT = Table("root", str, RootRow, is_resident=True)
"""One row, of key ""."""
GENERATORS = Table("generators", int, GeneratorRow, is_resident=True)
"""By ordinal."""
PICKS = Table("picks", int, PickRow, is_resident=True)
"""Under lease, by number."""
RETURNED = Table("returned", int, RunsRow, is_resident=True)
"""By generator: at most its share (`returned_limit`)."""
TOLD = Table[Place, int]("told", tuple, int, is_resident=True)
"""The indices that were told, as disjoint intervals that do not touch: (generator, start) → stop."""
CONTROLS = Table("controls", str, str, is_resident=True)
SCALES = Table("scales", int, ScaleRow, is_resident=True)
"""By generator, and `USUAL`."""
RETRACTIONS = Table[Place, RetractionRow]("retractions", tuple, RetractionRow, is_resident=True)
"""By generator and position; that of the retraction itself where it was of several batches."""
ACCEPTANCES = Table[Place, AcceptanceRow]("acceptances", tuple, AcceptanceRow, is_resident=True)
"""By generator and position; 0 where all batches were accepted."""
COPIES = Table[Place, CopyRow]("copies", tuple, CopyRow, is_resident=True)
"""By generator and position."""
SAME = Table[Place, int]("same", tuple, int, is_resident=True)
"""How many batches agree between two generators, the lower ordinal first."""

RECORDS = Table("records", int, str, is_kept=True)
"""Of picks that may be told: what their workers got."""
CONTEXTS = Table("contexts", int, str, is_kept=True)
"""Of these picks: what the log keeps beside the batch, in base64."""
EXPIRED = Table("expired", int, PickRow, is_ring=True, beside=("records", "contexts"))
SETTLED = Table("settled", int, EndRow, is_ring=True)
APPENDED = Table("appended", str, EndRow, is_ring=True)
"""By generator and key, with a tab between."""
CONTENTS = Table("contents", str, ToldRow, is_ring=True)
"""By the digest of samples."""
LEVELS = Table[tuple[int, int, int], LevelRow]("levels", tuple, LevelRow, divided=True, is_followed=True)
"""By generator, array and position."""
BLENDED = Table("blended", int, float)
"""Samples that the mixture owes to each generator."""
BLENDS = Table("blends", str, EndRow, is_ring=True)
"""What was shared out for a request."""
PREVIEWS = Table[tuple[int, int, int], PreviewRow]("previews", tuple, PreviewRow, divided=True)
"""By generator, pick and place in its batch; their bytes are beside them, by the same names."""

TABLES: Mapping[str, Table[Any, Any]] = {
    table.name: table
    for table in (
        *(ROOT, GENERATORS, PICKS, RETURNED, TOLD, CONTROLS, SCALES, RETRACTIONS, ACCEPTANCES, COPIES, SAME),
        *(RECORDS, CONTEXTS, EXPIRED, SETTLED, APPENDED, CONTENTS, LEVELS, BLENDED, BLENDS, PREVIEWS),
    )
}
RESIDENT = tuple(table for table in TABLES.values() if table.is_resident)

LOG = Table[Place, dict[str, str]]("log", tuple, dict, divided=True)
"""The entries of logs by generator and position, without their bodies."""
LOG_START = Table("log", int, int, divided=True)
"""By generator: the position of the first entry that its log still has."""
UNITS = Table("units", str, str)
"""What scorers note of a unit: "<generator>:<label>:<fact>"; commits only remove rows."""
ARTEFACTS = Table("artefacts", str, str)
"""What scorers make of several logs: "<artefact>:<fact>"; commits only remove rows."""
ESTIMATES = Table("estimates", str, str)
CLAIMS = Table("claims", str, str)
"""By unit."""
CURVES = Table[str, list[str]]("curve", str, list, divided=True)
"""The points of charts, lists of "<told> <size> <point>" by unit or artefact; commits only remove points."""
QUARANTINED = Table[Any, Any]("quarantined", tuple, str)
"""Why an entry of a log cannot be read, by generator and position."""
COUNTS = Table("counts", str, str)
"""What the scripts of scorers read of an experiment, and count: commits write it beside the tables."""
SCORED = "counts", "labels", "units", "estimates", "artefacts", "claims", "claimed_until", "quarantined"
"""The parts of an experiment that scorers' scripts work on, beside logs, curves, snapshots and kernels."""


class Change(NamedTuple):
    """A row that was put in a table; None: it was removed."""

    table: Table[Any, Any]
    key: Any
    row: Any


def shown_as(table: Table[Any, Any], key: Any, text: str | None) -> str:
    """A change as others catch up with it, an item of a list that `unpacked` takes. text: of the row, None for None."""
    row = "null" if text is None else to_json(text).decode() if table.row is str else text
    name = table.whole_text_of(key)
    quoted = to_json(name).decode() if table.key is str else f'"{name}"'
    return f'["{table.name}",{quoted},{row}]'


def unpacked(text: str) -> list[Change]:
    """The changes of a list of what `shown_as` makes."""
    found: list[Change] = []
    for name, key, value in from_json(text):
        table = TABLES[name]
        found.append(Change(table, table.key_in(key), None if value is None else table.row_of(value)))
    return found


def rows_in(hashes: Mapping[str, Mapping[str, str]]) -> list[Change]:
    """The resident tables of what is stored of them, in order of their keys: Redis answers fields in any order."""
    found: list[Change] = []
    for table in RESIDENT:
        keys = sorted((table.key_in(text), text) for text in hashes.get(table.name, {}))
        found += (Change(table, key, table.row_in(hashes[table.name][text])) for key, text in keys)
    return found
