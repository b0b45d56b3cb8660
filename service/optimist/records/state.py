"""The state of an experiment in the store at one moment: generators, open picks and decision."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import Field

from optimist.records.codec import Count, Moment, Position
from optimist.records.made import LogExtent, StoredArtefact, is_outgrown
from optimist_client.goals import OWN_GROWTH
from optimist_client.models.experiments import GeneratorStatus

Unit = tuple[int, str]
"""A generator as one metric scores it: its ordinal, and the label of the metric."""
NAMED_COPIES = 256
"""Maximum number of copied batches that an experiment names; further ones are only counted. As in checking.lua."""
SLICES = 512
"""Runs of indices to be handed out again that an experiment keeps, as in told.lua: they are read with every state. Each
generator has an equal share; further runs are never handed out."""
COST = "cost:"
"""Before a generator's name: the control that holds its cost."""
MIN_MODELLED = 3
"""Minimum number of samples of a generator in a model: its scores then have a variance."""
MIN_MIXED = 4
"""Minimum number of samples of a generator in a mixture: two in each half."""


@dataclass(frozen=True, slots=True)
class OpenPick:
    """A pick under lease. `deadline` is in Unix seconds of Redis's clock."""

    number: int
    generator: int
    request_id: str
    record: str
    deadline: float
    nonce: str
    """The name that its tell must send back."""
    key: str = ""
    """Id of the access key that asked; "" where none was needed."""
    opened: float = field(default=0.0, compare=False)
    """Time of opening, by the same clock."""


class Returned(NamedTuple):
    """A run of indices of a generator's sequence that are to be handed out again: of picks that were given up, whose
    lease ran out, or that were told fewer rows than they asked for, and what a pick left that took only a part."""

    start: Count
    size: Position


def joined(runs: Iterable[Returned]) -> list[Returned]:
    """The same indices as runs that do not touch, ascending."""
    merged: list[Returned] = []
    for start, size in sorted(runs):
        if merged and sum(merged[-1]) >= start:
            last = merged.pop()
            start, size = last.start, max(last.size, start + size - last.start)
        merged.append(Returned(start, size))
    return merged


def returned_limit(generators: int) -> int:
    """Maximum number of returned runs kept of each of so many generators."""
    return max(8, SLICES // generators)  # a few picks may end while none is asked for


class Quarantined(NamedTuple):
    """A batch of the log that cannot be read, and why."""

    seq: Position
    reason: Annotated[str, Field(max_length=2**14)]


class Origin(NamedTuple):
    """Origin of a batch."""

    pick: Count
    """0 where no pick asked for it."""
    rows: Count
    told: Moment
    """Time of acceptance."""
    worker: Annotated[str, Field(pattern=r"^[^\x00-\x1f]{0,200}$")] = ""
    """The worker that its pick was opened for; "" where none was named."""

    @property
    def stored(self) -> str:
        """The text that the scripts store."""
        return f"{self.pick} {self.rows} {self.told:.3f} {self.worker}".rstrip(" ")

    @classmethod
    def from_stored(cls, stored: str) -> Origin:
        """The inverse of `stored`. Raises ValueError on another text."""
        pick, rows, told, *worker = stored.split(" ", 3)
        return cls(int(pick), int(rows), float(told), "".join(worker))


KeyId = Annotated[str, Field(max_length=200)]
"""Id of an access key, "" without one."""
ReasonText = Annotated[str, Field(max_length=1024)]


@dataclass(frozen=True, slots=True)
class RetractionRecord:
    """A batch that counts no longer, or the first batches of a generator, and who retracted them, when and why."""

    generator: Count
    seq: Position
    """Position of the retraction itself in the generator's log."""
    position: Count
    """Position of the batch; 0 where everything up to `until` was retracted."""
    until: Count
    """0 where one batch was; `seq` where everything was, and the generator starts anew."""
    pick: Count
    """0 where no pick asked for the batch, or for several batches."""
    samples: Count
    batches: Position
    who: KeyId
    when: Moment
    reason: ReasonText
    told: Count
    """Batches told to the experiment until then."""
    reopened: bool
    """True if a decision that rested on the batch was dropped."""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    """SHA-1 of the fields before, which its entry in the log has, too."""


class Copy(NamedTuple):
    """A batch that was accepted though it has the same samples as an earlier one of its generator."""

    seq: Position
    origin: Origin
    copy_of: Count
    """The position of the earlier batch."""

    @property
    def stored(self) -> str:
        """The text that the scripts store."""
        return f"{self.copy_of}\t{self.origin.stored}"

    @classmethod
    def from_stored(cls, seq: int, stored: str) -> Copy:
        """The inverse of `stored`. Raises ValueError on another text."""
        copy, origin = stored.split("\t")
        return cls(seq, Origin.from_stored(origin), int(copy))


@dataclass(frozen=True, slots=True)
class AcceptanceRecord:
    """A batch on another scale that somebody accepted as it is, or all batches of a generator until then."""

    generator: Count
    position: Count
    """Position of the batch; 0 where all were accepted."""
    until: Position
    """Position of the last batch that was accepted."""
    who: KeyId
    when: Moment
    reason: ReasonText


@dataclass(frozen=True, slots=True)
class UnitState:
    """The state of one generator by one metric."""

    estimate_seq: int = 0
    """The log position `estimate` was made at; 0 while there is none."""
    estimate: str | None = None
    """None, too, where it was not requested."""
    made: str = field(default="", compare=False)
    """A name that no other estimate has; "" without an estimate."""
    scoring_error: str | None = None
    """The note why the generator cannot be scored; the next estimate removes it."""
    snapshot_seq: int = 0
    """The log position of the snapshot; 0 while there is none."""
    log_bytes: int = 0
    """Bytes of the bodies that were logged after the snapshot."""


NEVER_SCORED = UnitState()


@dataclass(slots=True)
class GeneratorState:
    """The state of one generator: counts, the position at which estimates are due, and its state by each metric."""

    ordinal: int
    name: str
    samples: int
    """Number of samples that count; `batches` likewise."""
    batches: int
    seq: int
    """Position of the last entry in the log; 0 before the first."""
    due_samples: int
    """Samples at `due_seq`; 0 while no estimate is due (rules/estimates.md)."""
    due_seq: int
    """The newest log position at which an estimate is due; 0 while none is."""
    units: dict[str, UnitState] = field(default_factory=dict)
    """Units by the labels of the metrics that were read, the deciding metric's first."""
    handed: int = 0
    """First index of the sequence that no pick has had; of the indices below it only the `returned` are handed out."""
    returned: list[Returned] = field(default_factory=list)
    """Runs of indices to be handed out again, as `joined`, at most `returned_limit`."""
    state: GeneratorStatus = "active"
    quarantined: list[Quarantined] = field(default_factory=list)
    """Unreadable batches by position, among the experiment's first `QUARANTINE_LIMIT`."""
    quarantined_count: int = 0
    """Number of unreadable batches."""
    named_copies: list[Copy] = field(default_factory=list)
    """Batches that repeat earlier ones, by position, among the experiment's first `NAMED_COPIES`."""
    copies: int = 0
    """Number of batches that repeat earlier ones."""
    duplicates: dict[int, int] = field(default_factory=dict)
    """Number of batches that agree with a batch of a generator of a higher ordinal, by this ordinal."""
    retracted: int = 0
    """Samples that were told and retracted; not in `samples`."""
    restart: int = 0
    """The position up to which all its batches are retracted; 0: none."""
    retractions: list[RetractionRecord] = field(default_factory=list)
    """Retractions by time."""
    is_seedless: bool = False
    """True if the generator ignores seeds: its samples have no indices."""
    told: list[tuple[int, int]] = field(default_factory=list)
    """The indices of its sequence that were told, as disjoint intervals, start and stop, ascending; empty where a state
    was read without them."""
    acceptances: list[AcceptanceRecord] = field(default_factory=list)
    """Acceptances by time."""
    answered: int = 0
    """Position of the newest batch that was told for a pick; 0: none was."""
    unanswered: int = 0
    """Picks that were given up or expired and got no batch later."""

    @property
    def primary(self) -> UnitState:
        """The state by the metric that decides."""
        for unit in self.units.values():
            return unit
        return NEVER_SCORED

    def scored_until(self, also: Collection[str] = ()) -> int:
        """Log position up to which the generator is scored by the deciding metric and the metrics with these labels."""
        until = self.primary.estimate_seq
        return min([until, *(self.units.get(label, NEVER_SCORED).estimate_seq for label in also)]) if also else until

    @property
    def accepted_until(self) -> int:
        """Position up to which all batches, and thereby the generator's scale, were accepted; 0 if never."""
        until = max((acceptance.until for acceptance in self.acceptances if not acceptance.position), default=0)
        return until if until > self.restart else 0

    @property
    def accepted(self) -> frozenset[int]:
        """Positions of batches that were accepted singly."""
        return frozenset(acceptance.position for acceptance in self.acceptances if acceptance.position)


class Instant(NamedTuple):
    """Identity of one state of an experiment."""

    version: int
    state_token: str
    rounds: int


@dataclass(slots=True)
class ExperimentState:
    """One consistent view of an experiment."""

    rounds: int
    """Picks ever opened, which is also the highest pick number."""
    told: int
    """Number of batches ever accepted, retracted batches included."""
    generators: list[GeneratorState]
    open_picks: list[OpenPick] = field(default_factory=list)
    """Leased picks by number. An expired pick is no longer pending."""
    decision: str | None = None
    controls: dict[str, str] = field(default_factory=dict)
    """Values set by `control`."""
    instance: str = ""
    """Identifier of the experiment among earlier and later ones of the same name."""
    keep_log: bool = False
    version: int = 0
    """Counts all changes of the state that picks are chosen from."""
    state_token: str = ""
    """A new text after each of these changes: a Redis that lost writes repeats versions, but never tokens."""
    last: str = ""
    """Nonce of the pick that was opened last."""
    labels: tuple[str, ...] = ()
    """Labels of all metrics, the deciding metric's first."""
    limited: tuple[str, ...] = ()
    """Labels of further metrics that decide because they have limits."""
    of_workers: dict[str, int] = field(default_factory=dict)
    """Number of batches and open picks of each worker, where batches are limited by worker."""
    mixture_growth: float | None = None
    """Growth of all generators' samples after which the mixture is due again; None with another goal."""
    mixture: StoredArtefact | None = None
    """The mixture that picks are made from, where it is the goal."""
    model_growth: float | None = None
    """Growth of all generators' samples after which the model is due again; None where the goal has none."""
    model: StoredArtefact | None = None
    """The model that picks are made from, where the goal has one."""
    model_error: str | None = None
    """The note why neither model nor table can be made; the next one removes it."""
    mixture_error: str | None = None
    """The note why no mixture can be made by the deciding metric, whatever the goal; the next mixture removes it."""
    read_at: float | None = field(default=None, compare=False)
    """Time of reading, in Unix seconds of Redis's clock; None for a state in memory, which is current."""

    @property
    def instant(self) -> Instant:
        """Identity of this state."""
        return Instant(self.version, self.state_token, self.rounds)

    @property
    def breadth(self) -> int:
        """The number of its generators and open picks."""
        return len(self.generators) + len(self.open_picks)

    @property
    def has_all_metrics(self) -> bool:
        """True if the units of all metrics were read."""
        return all(len(generator.units) == len(self.labels) for generator in self.generators)

    @property
    def has_estimates(self) -> bool:
        """True if all existing estimates were read."""
        return all(
            unit.estimate is not None or not unit.made
            for generator in self.generators
            for unit in generator.units.values()
        )

    @property
    def changed_at(self) -> float | None:
        """The time of the change of `state_token`; None before the first one."""
        return float(self.state_token.split()[0]) if self.state_token else None

    @property
    def basis_digest(self) -> str:
        """SHA-1 (hex) of what `latch_decision` compares: the names of the estimates, or where it is the goal, the
        mixture's."""
        names = [
            generator.units.get(label, NEVER_SCORED).made
            for generator in self.generators
            for label in (*list(generator.units)[:1], *self.limited)
        ]
        if self.mixture_growth is not None:
            names = ["" if self.mixture is None else self.mixture.made]
        return hashlib.sha1("\n".join(names).encode()).hexdigest()

    @property
    def counted(self) -> int:
        """Number of batches that count: told and not retracted."""
        return sum(generator.batches for generator in self.generators)

    @property
    def active(self) -> list[GeneratorState]:
        """The generators that picks are opened for."""
        return [generator for generator in self.generators if generator.state == "active"]

    @property
    def mixable(self) -> list[GeneratorState]:
        """The generators that a mixture is made of: not retired, with `MIN_MIXED` samples."""
        return [g for g in self.generators if g.state != "retired" and g.samples >= MIN_MIXED]

    @property
    def modelled(self) -> list[GeneratorState]:
        """Generators of a model: not retired, scored, with `MIN_MODELLED` samples.

        A generator that cannot be scored must not keep the model due for ever.
        """
        able = (g for g in self.generators if g.state != "retired" and g.primary.scoring_error is None)
        return [g for g in able if g.samples >= MIN_MODELLED]

    @property
    def is_mixture_due(self) -> bool:
        """True if the mixture that picks are made from is due once kernels are fixed: the mixture is the goal, every
        active generator can be part of it, and it does not exist or has been outgrown."""
        if self.mixture_growth is None or any(generator.samples < MIN_MIXED for generator in self.active):
            return False
        return self.mixture is None or is_outgrown(self.mixture.parts, extents(self.mixable), self.mixture_growth)

    @property
    def is_mixture_ready(self) -> bool:
        """True if the mixture is due and kernels are fixed: the first estimate of any generator needs these, too."""
        return self.is_mixture_due and any(generator.primary.estimate_seq for generator in self.generators)

    @property
    def is_model_due(self) -> bool:
        """True if the model that picks are made from is due once what samples fix is fixed: the goal has a model, which
        has been outgrown, or does not exist while every active generator can be part of it."""
        if self.model_growth is None or not self.modelled:
            return False
        if self.model is None:
            return all(generator.samples >= MIN_MODELLED for generator in self.active)
        return is_outgrown(self.model.parts, extents(self.modelled), self.model_growth, OWN_GROWTH)

    @property
    def is_model_ready(self) -> bool:
        """True if the model is due and what samples fix is fixed, shown as for `is_mixture_ready`."""
        return self.is_model_due and any(generator.primary.estimate_seq for generator in self.generators)


def extents(generators: Iterable[GeneratorState]) -> dict[int, LogExtent]:
    """Extents of the whole logs of these generators, by ordinal."""
    return {generator.ordinal: LogExtent(generator.seq, generator.samples) for generator in generators}
