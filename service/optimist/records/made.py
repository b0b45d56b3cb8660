"""Results that scorers derive from logs: artefacts with their parts, snapshots, and the points of charts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast


class LogExtent(NamedTuple):
    """Part of a generator's log: entries up to `seq`, with `samples` samples that count."""

    seq: int
    samples: int


class Artefact(NamedTuple):
    """Result that a scorer derives from logs: the mixture of all generators, the model that a goal's picks are made
    from, the table that a report shows of this model, the modes of one generator, or the estimate of all its batches
    where none is due."""

    kind: Literal["mixture", "model", "table", "modes", "estimate"]
    label: str
    """Metric label."""
    generator: int | None = None
    """Ordinal of the generator of modes or of an estimate."""

    @property
    def name(self) -> str:
        """Name in Redis: "mixture:kid", "modes:0:kid"."""
        kind = self.kind if self.generator is None else f"{self.kind}:{self.generator}"
        return f"{kind}:{self.label}"

    @classmethod
    def from_name(cls, name: str) -> Artefact:
        """The artefact with this `name`."""
        kind, _, rest = name.partition(":")
        generator, _, label = rest.partition(":") if kind in ("modes", "estimate") else ("", "", rest)
        return cls(cast(Any, kind), label, int(generator) if generator else None)


@dataclass(frozen=True, slots=True)
class StoredArtefact:
    """The newest of an artefact. Equal if made of the same batches."""

    made: str = field(compare=False)
    """A name that no other one has."""
    parts: Mapping[int, LogExtent]
    """Extents by the ordinals of the generators."""
    payload: bytes = b""
    """Empty where it was not read: the state of an experiment has no model."""

    @property
    def samples(self) -> int:
        """Samples of all generators that it was made of."""
        return sum(part.samples for part in self.parts.values())


def is_outgrown(
    parts: Mapping[int, LogExtent], able: Mapping[int, LogExtent], growth: float, own_growth: float = math.inf
) -> bool:
    """True if the generators have changed since `parts`, their samples have grown by `growth`, or one generator's
    samples by `own_growth`.

    able: the extents that a new artefact would cover.
    """
    if parts.keys() != able.keys():
        return True
    # Samples of batches that cannot be read are not in it: it may have fewer than were told, and still all.
    if all(part.seq <= parts[generator].seq for generator, part in able.items()):
        return False
    for generator, (seq, count) in able.items():
        before = parts[generator]
        if seq > before.seq and count > before.samples and count >= (1.0 + own_growth) * before.samples:
            return True
    samples, samples_before = (sum(part.samples for part in extents.values()) for extents in (able, parts))
    return samples > samples_before and samples >= (1.0 + growth) * samples_before


@dataclass(frozen=True, slots=True)
class Claim:
    """A scorer's claim on a generator. After `deadline` (Unix seconds of Redis) another scorer can take it over."""

    token: str
    deadline: float
    taken_over: bool = False
    """True if the expired claim of another owner was taken over."""

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
    """Part of a generator's log, up to `seq`, that an artefact to be stored covers.

    samples: number that count up to there. chain: `LogEntry.chain` there, "" if unknown.
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
