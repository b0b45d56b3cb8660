"""The state of an experiment in the store at one moment: generators, open picks and decision."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from optimist.records.codec import Count, Moment, Position
from optimist.records.made import LogExtent, StoredArtefact, is_outgrown
from optimist_client.goals import OWN_GROWTH

Unit = tuple[int, str]
"""A generator as one metric scores it: its ordinal, and the label of the metric."""
State = Literal["active", "paused", "retired"]
NAMED_COPIES = 256
"""How many copied batches an experiment names; further ones are only counted. As in checking.lua."""
SLICES = 512
"""Runs of indices to be handed out again that an experiment keeps, as in told.lua: they are read with every state. Each
generator has an equal share; what is beyond that is never handed out."""
FEWEST_SLICES = 8
"""The share of a generator where there are many: a few picks may end while none is asked for."""
COST = "cost:"
"""Before a generator's name: the control that holds its cost."""
LEAST_MODELLED = 3
"""Samples that a generator must have to be part of a model: its scores then have a variance."""
LEAST_MIXED = 4
"""Samples that a generator must have to be part of a mixture: two in each half."""


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
    """When it was opened, by the same clock."""


class Returned(NamedTuple):
    """A run of indices of a generator's sequence that are to be handed out again: of picks that were given up, whose
    lease ran out, or that were told fewer rows than they asked for, and what a pick left that took only a part."""

    start: Count
    size: Position


def joined(runs: Iterable[Returned]) -> list[Returned]:
    """The same indices as runs that do not touch, ascending."""
    found: list[Returned] = []
    for start, size in sorted(runs):
        if found and sum(found[-1]) >= start:
            last = found.pop()
            start, size = last.start, max(last.size, start + size - last.start)
        found.append(Returned(start, size))
    return found


def returned_limit(generators: int) -> int:
    """How many returned runs are kept of each of so many generators."""
    return max(FEWEST_SLICES, SLICES // generators)


class Quarantined(NamedTuple):
    """A batch of the log that cannot be read, and why."""

    seq: Position
    reason: Annotated[str, Field(max_length=2**14)]


class Origin(NamedTuple):
    """Where a batch came from."""

    pick: Count
    """0 where no pick asked for it."""
    rows: Count
    told: Moment
    """When it was accepted."""
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
Reason = Annotated[str, Field(max_length=1024)]


@dataclass(frozen=True, slots=True)
class Retraction:
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
    reason: Reason
    told: Count
    """Batches told to the experiment until then."""
    reopened: bool
    """Whether a decision rested on it, which was dropped."""
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
class Acceptance:
    """A batch on another scale that somebody accepted as it is, or all batches of a generator until then."""

    generator: Count
    position: Count
    """Position of the batch; 0 where all were accepted."""
    until: Position
    """Position of the last batch that was accepted."""
    who: KeyId
    when: Moment
    reason: Reason


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
    """Why the generator cannot be scored; the next estimate removes this note."""
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
    """Samples that count; so do `batches`."""
    batches: int
    seq: int
    """Position of the last entry in the log; 0 before the first."""
    due_samples: int
    """Samples at `due_seq`; 0 while no estimate is due (rules/estimates.md)."""
    due_seq: int
    """The newest log position at which an estimate is due; 0 while none is."""
    units: dict[str, UnitState] = field(default_factory=dict)
    """By the labels of the metrics that were read, that of the one that decides first."""
    handed: int = 0
    """The first index of its sequence that no pick has had; below it only those `returned` will be handed out."""
    returned: list[Returned] = field(default_factory=list)
    """What is to be handed out again, as `joined`, at most `returned_limit`."""
    state: State = "active"
    quarantined: list[Quarantined] = field(default_factory=list)
    """Batches that cannot be read, by position; of an experiment's first `QUARANTINE_LIMIT`."""
    quarantined_count: int = 0
    """How many batches cannot be read."""
    named_copies: list[Copy] = field(default_factory=list)
    """Batches that repeat earlier ones, by position; of an experiment's first `NAMED_COPIES`."""
    copies: int = 0
    """How many repeat earlier ones."""
    duplicates: dict[int, int] = field(default_factory=dict)
    """How many batches agree with one of a generator of a higher ordinal."""
    retracted: int = 0
    """Samples that were told and retracted, which `samples` does not include."""
    restart: int = 0
    """The position up to which all its batches are retracted; 0: none."""
    retractions: list[Retraction] = field(default_factory=list)
    """By time."""
    is_seedless: bool = False
    """Whether it ignores seeds: its samples have no indices."""
    told: list[tuple[int, int]] = field(default_factory=list)
    """The indices of its sequence that were told, as disjoint intervals, start and stop, ascending; empty where a state
    was read without them."""
    acceptances: list[Acceptance] = field(default_factory=list)
    """By time."""
    answered: int = 0
    """Position of the newest batch that was told for a pick; 0: none was."""
    unanswered: int = 0
    """Picks that were given up, or whose lease ran out, and for which no batch came later."""

    @property
    def primary(self) -> UnitState:
        """The state by the metric that decides."""
        for unit in self.units.values():
            return unit
        return NEVER_SCORED

    def scored_until(self, also: Collection[str] = ()) -> int:
        """The log position up to which it is scored by the metric that decides, and by those with these labels."""
        until = self.primary.estimate_seq
        return min([until, *(self.units.get(label, NEVER_SCORED).estimate_seq for label in also)]) if also else until

    @property
    def accepted_until(self) -> int:
        """The position up to which all batches of the generator were accepted, and with them its scale; 0: they were
        not."""
        until = max((one.until for one in self.acceptances if not one.position), default=0)
        return until if until > self.restart else 0

    @property
    def accepted(self) -> frozenset[int]:
        """The positions of batches that were accepted one by one."""
        return frozenset(one.position for one in self.acceptances if one.position)


class Instant(NamedTuple):
    """What tells a state of an experiment from all others."""

    version: int
    state_token: str
    rounds: int


@dataclass(slots=True)
class ExperimentState:
    """One consistent view of an experiment."""

    rounds: int
    """Picks ever opened, which is also the highest pick number."""
    told: int
    """Batches ever accepted, those retracted since included."""
    generators: list[GeneratorState]
    open_picks: list[OpenPick] = field(default_factory=list)
    """Leased picks by number; those whose lease ran out no longer pend."""
    decision: str | None = None
    controls: dict[str, str] = field(default_factory=dict)
    """What `control` set."""
    instance: str = ""
    """Distinguishes an experiment from earlier and later ones of the same name."""
    keep_log: bool = False
    version: int = 0
    """Counts all changes of the state that picks are chosen from."""
    state_token: str = ""
    """A new text after each of these changes: a Redis that lost writes repeats versions, but never tokens."""
    last: str = ""
    """Nonce of the pick that was opened last."""
    labels: tuple[str, ...] = ()
    """Labels of all metrics, that of the one that decides first."""
    limited: tuple[str, ...] = ()
    """Labels of the others that decide, too, because there are limits on them."""
    of_workers: dict[str, int] = field(default_factory=dict)
    """Where batches are limited by worker: how many each has handed in, and has open picks for."""
    mixture_growth: float | None = None
    """By which part the samples of all generators grow until the mixture is due again; None: the goal is another."""
    mixture: StoredArtefact | None = None
    """The mixture that picks are made from, where it is the goal."""
    model_growth: float | None = None
    """By which part the samples of all generators grow until the model is due again; None: the goal has none."""
    model: StoredArtefact | None = None
    """The model that picks are made from, where the goal has one."""
    model_error: str | None = None
    """Why neither it nor the table can be made; the next one removes this note."""
    mixture_error: str | None = None
    """Why it cannot be made by the metric that decides, whatever the goal; the next one removes this note."""
    read_at: float | None = field(default=None, compare=False)
    """When it was read, in Unix seconds of Redis's clock; None: it is kept in memory, and is as of now."""

    @property
    def instant(self) -> Instant:
        """When it was so."""
        return Instant(self.version, self.state_token, self.rounds)

    @property
    def breadth(self) -> int:
        """The number of its generators and open picks."""
        return len(self.generators) + len(self.open_picks)

    @property
    def has_all_metrics(self) -> bool:
        """Whether the units of all metrics were read."""
        return all(len(generator.units) == len(self.labels) for generator in self.generators)

    @property
    def has_estimates(self) -> bool:
        """Whether all estimates were read that there are."""
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
        """The number of batches that count: those told without those retracted."""
        return sum(generator.batches for generator in self.generators)

    @property
    def active(self) -> list[GeneratorState]:
        """The generators that picks are opened for."""
        return [generator for generator in self.generators if generator.state == "active"]

    @property
    def mixable(self) -> list[GeneratorState]:
        """The generators that a mixture is made of: not retired, with `LEAST_MIXED` samples."""
        return [g for g in self.generators if g.state != "retired" and g.samples >= LEAST_MIXED]

    @property
    def modelled(self) -> list[GeneratorState]:
        """The generators that a model is made of: not retired, with `LEAST_MODELLED` samples, and scored.

        One that cannot be scored must not keep the model of the others due for ever.
        """
        able = (g for g in self.generators if g.state != "retired" and g.primary.scoring_error is None)
        return [g for g in able if g.samples >= LEAST_MODELLED]

    @property
    def is_mixture_due(self) -> bool:
        """Whether the mixture that picks are made from is due, once kernels are fixed: it is the goal, every active
        generator can be part of it, and there is none, or it has been outgrown."""
        if self.mixture_growth is None or any(generator.samples < LEAST_MIXED for generator in self.active):
            return False
        return self.mixture is None or is_outgrown(self.mixture.parts, extents(self.mixable), self.mixture_growth)

    @property
    def is_mixture_ready(self) -> bool:
        """Whether the mixture is due, and kernels are fixed: the first estimate of any generator needs these, too."""
        return self.is_mixture_due and any(generator.primary.estimate_seq for generator in self.generators)

    @property
    def is_model_due(self) -> bool:
        """Whether the model that picks are made from is due, once what samples fix is fixed: the goal has one, and
        there is none while every active generator can be part of it, or it has been outgrown."""
        if self.model_growth is None or not self.modelled:
            return False
        if self.model is None:
            return all(generator.samples >= LEAST_MODELLED for generator in self.active)
        return is_outgrown(self.model.parts, extents(self.modelled), self.model_growth, OWN_GROWTH)

    @property
    def is_model_ready(self) -> bool:
        """Whether the model is due, and what samples fix is fixed, which shows as for `is_mixture_ready`."""
        return self.is_model_due and any(generator.primary.estimate_seq for generator in self.generators)


def extents(generators: Iterable[GeneratorState]) -> dict[int, LogExtent]:
    """All of the logs of these generators, by ordinal."""
    return {one.ordinal: LogExtent(one.seq, one.samples) for one in generators}
