"""What scorers make of logs: artefacts by their parts, snapshots, and the points of charts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast


class LogExtent(NamedTuple):
    """How much of a generator's log something was made of: up to `seq`, with so many samples that count."""

    seq: int
    samples: int


class Artefact(NamedTuple):
    """What a scorer makes of logs: the mixture of all generators; the model that the picks of a goal are made from, and
    the table that a report shows of it; the modes of one generator, or the estimate of all its batches, where none is
    due."""

    kind: Literal["mixture", "model", "table", "modes", "estimate"]
    label: str
    """Of the metric that it is made by."""
    generator: int | None = None
    """The one that modes, or the estimate, are of."""

    @property
    def name(self) -> str:
        """As in Redis: "mixture:kid", "modes:0:kid"."""
        kind = self.kind if self.generator is None else f"{self.kind}:{self.generator}"
        return f"{kind}:{self.label}"

    @classmethod
    def from_name(cls, name: str) -> Artefact:
        """The one of this `name`."""
        kind, _, rest = name.partition(":")
        generator, _, label = rest.partition(":") if kind in ("modes", "estimate") else ("", "", rest)
        return cls(cast(Any, kind), label, int(generator) if generator else None)


@dataclass(frozen=True, slots=True)
class StoredArtefact:
    """The newest of an artefact. Equal if made of the same batches."""

    made: str = field(compare=False)
    """A name that no other one has."""
    parts: Mapping[int, LogExtent]
    """By the ordinals of the generators in it."""
    payload: bytes = b""
    """Empty where it was not read: the state of an experiment has no model."""

    @property
    def samples(self) -> int:
        """Samples of all generators that it was made of."""
        return sum(part.samples for part in self.parts.values())


def is_outgrown(
    parts: Mapping[int, LogExtent], able: Mapping[int, LogExtent], growth: float, own_growth: float = math.inf
) -> bool:
    """Whether what was made of `parts` is of other generators than now, or samples have grown by `growth` since, or
    those of one generator by `own_growth`.

    able: what it would be made of now.
    """
    if parts.keys() != able.keys():
        return True
    # Samples of batches that cannot be read are not in it: it may have fewer than were told, and still all.
    if all(part.seq <= parts[generator].seq for generator, part in able.items()):
        return False
    for generator, (seq, own) in able.items():
        known = parts[generator]
        if seq > known.seq and own > known.samples and own >= (1.0 + own_growth) * known.samples:
            return True
    samples, before = (sum(part.samples for part in those.values()) for those in (able, parts))
    return samples > before and samples >= (1.0 + growth) * before


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
class ChainedExtent:
    """How much of a generator's log an artefact to be stored was made of: up to `seq`.

    samples: those that count up to there. chain: `LogEntry.chain` there, "" where it is not known.
    """

    generator: int
    seq: int
    samples: int
    chain: str = ""


@dataclass(frozen=True, slots=True)
class ArtefactPoint:
    """An artefact as charts keep it: `point` is the caller's text."""

    told: int
    """Batches told to the whole experiment when it was published."""
    samples: int
    """Samples of all generators that it was made from."""
    parts: Mapping[int, LogExtent]
    point: str
