"""Audits: samples that people score where a judge scores all of them, and everything that they have said."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field

from optimist.records.codec import Count, Moment

MOST_AUDITS = 16_384
"""Audits of an experiment, all of which are read to choose the next ones: some two megabytes."""
MOST_SAID = 65_536
"""Records of what was said of an experiment, corrections included, which are kept for as long as it is."""
MOST_COMMENTED = 4 * 2**20
"""Bytes of all its comments."""
MOST_RATERS = 16
"""Raters of an audit: those who let it lie, too."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said of one sample; or took back; or what a retraction has undone."""

    kind: Literal["answer", "void", "comment"]
    """"answer": an entry of the generator's log. "void": the sample was retracted. "comment": the score stays."""
    generator: Count
    seq: Count
    """The position in the generator's log, of the retraction where there was one; 0 of a comment."""
    audit: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    index: Count
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    rater: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
    score: Annotated[str, Field(max_length=32, pattern=r"^(-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?)?$")]
    """A number; "" where it was taken back."""
    due: Annotated[int, Field(ge=0, le=1)]
    """1 where an estimate is due at this entry."""
    when: Moment
    comment: Annotated[str, Field(max_length=2000)] = ""

    @property
    def is_entry(self) -> bool:
        """Whether it stands in the log."""
        return self.kind == "answer"


@dataclass(slots=True)
class Audit:
    """An audit: what each rater was shown, and has said."""

    id: str
    index: int
    """Of the samples."""
    weight: float
    """How much more rarely than at random it was drawn: 1/(N π)."""
    asked: float
    """When somebody had it first, in Unix seconds."""
    raters: dict[str, dict[int, float | None]] = field(default_factory=dict)
    """By rater the score of each generator's sample, in the order in which they were shown; None without one."""
    comments: dict[str, str] = field(default_factory=dict)
    """By rater the digest of the last comment, as the scripts compare them."""

    @classmethod
    def from_stored(cls, id: str, stored: str) -> Self:
        """As audits.lua stores it."""
        head, *lines = stored.split("\n")
        index, weight, asked = head.split(" ")
        found = cls(id, int(index), float(weight), float(asked))
        for line in lines:
            rater, comment, pairs = line.split("\t")
            given = (pair.partition("=") for pair in pairs.split())
            found.raters[rater] = {int(g): float(score) if score else None for g, _, score in given}
            found.comments[rater] = comment
        return found

    @property
    def stored(self) -> str:
        """The inverse of `from_stored`."""
        lines = [f"{self.index} {self.weight!r} {self.asked!r}"]
        for rater, given in self.raters.items():
            pairs = " ".join(f"{g}={'' if score is None else repr(score)}" for g, score in given.items())
            lines.append(f"{rater}\t{self.comments.get(rater, '')}\t{pairs}")
        return "\n".join(lines)

    @property
    def answered_by(self) -> list[str]:
        """Those who have scored all samples that they were shown."""
        return [rater for rater, given in self.raters.items() if given and None not in given.values()]

    def raters_of(self, generators: Collection[int]) -> list[str]:
        """Those who have scored the samples of all these generators."""
        return [rater for rater, given in self.raters.items() if all(given.get(one) is not None for one in generators)]

    @property
    def scored(self) -> set[int]:
        """The generators whose sample has a score."""
        return {g for given in self.raters.values() for g, score in given.items() if score is not None}


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """An audit that may be given to somebody."""

    id: str
    index: int
    weight: float
    raters: int
    """How many raters are to answer it."""
    places: Sequence[int]
    """The generators whose samples are shown, in that order."""


class Lease(NamedTuple):
    """An audit that somebody has."""

    audit: str
    rater: str


@dataclass(frozen=True, slots=True)
class AuditsState:
    """All audits of an experiment as of one moment."""

    audits: Mapping[str, Audit]
    """By id."""
    leases: Mapping[Lease, float]
    """Those that somebody has now, with the seconds that are left."""

    @property
    def answered(self) -> int:
        """Audits of which somebody has scored all samples."""
        return sum(bool(one.answered_by) for one in self.audits.values())

    @property
    def open(self) -> int:
        """Audits that somebody has now."""
        return len({lease.audit for lease in self.leases})

    @property
    def unanswered(self) -> int:
        """Audits that somebody had, nobody has now, and nobody answered."""
        held = {lease.audit for lease in self.leases}
        return sum(not one.answered_by and one.id not in held for one in self.audits.values())


class Rating(NamedTuple):
    """A score that one rater gave to one sample."""

    audit: str
    rater: str
    generator: int
    score: float


def ratings_of(audits: Iterable[Audit]) -> list[Rating]:
    """All scores that count, of all raters, as agreement is computed from."""
    return [
        Rating(one.id, rater, generator, score)
        for one in audits
        for rater, given in one.raters.items()
        for generator, score in given.items()
        if score is not None
    ]


def audits_said(records: Iterable[Said]) -> dict[str, Audit]:
    """The audits with what counts of what was said, by id; what was asked and not answered is not in it."""
    found: dict[str, Audit] = {}
    for one in records:
        audit = found.setdefault(one.audit, Audit(one.audit, one.index, one.weight, one.when))
        given = audit.raters.setdefault(one.rater, {})
        if one.kind == "void":
            given.pop(one.generator, None)
        elif one.kind == "answer":
            given[one.generator] = float(one.score) if one.score else None
        if one.comment:
            audit.comments[one.rater] = hashlib.sha1(one.comment.encode()).hexdigest()  # nosec B324: as audits.lua does
    return found


def scored_of(audits: Iterable[Audit]) -> Counter[int]:
    """How many audits have a score of each generator."""
    return Counter(generator for one in audits for generator in one.scored)


class LoggedAnswer(NamedTuple):
    """What an entry of a log says of a sample: what counts from then on."""

    index: int
    weight: float
    score: float | None
    """The mean of all raters; None where all took it back."""
    is_due: bool

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Of the body of an entry. Raises ValueError, KeyError or TypeError for another body."""
        found = json.loads(body)
        score = found["score"]
        return cls(
            int(found["audit"]), float(found["weight"]), None if score is None else float(score), bool(found["due"])
        )
