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

MAX_AUDITS = 16_384
"""Maximum number of audits of an experiment, all of which are read to choose the next ones: some two megabytes."""
MAX_SAID = 65_536
"""Records of what was said of an experiment, corrections included, which are kept for as long as it is."""
MAX_COMMENTED = 4 * 2**20
"""Bytes of all its comments."""
MAX_RATERS = 16
"""Maximum number of raters of an audit, including raters who do not answer."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Said:
    """Score of one sample by somebody, its withdrawal, or its loss by a retraction."""

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
        """True if it stands in the log."""
        return self.kind == "answer"


@dataclass(slots=True)
class Audit:
    """An audit: what each rater was shown, and has said."""

    id: str
    index: int
    """Index of the samples."""
    weight: float
    """Inverse of the draw's probability relative to uniform drawing: 1/(N π)."""
    asked: float
    """Time of the first lease, in Unix seconds."""
    raters: dict[str, dict[int, float | None]] = field(default_factory=dict)
    """Score of each generator's sample by rater, in the order of display; None without one."""
    comments: dict[str, str] = field(default_factory=dict)
    """Digest of the last comment by rater, as the scripts compare them."""

    @classmethod
    def from_stored(cls, id: str, stored: str) -> Self:
        """The audit as audits.lua stores it."""
        head, *lines = stored.split("\n")
        index, weight, asked = head.split(" ")
        audit = cls(id, int(index), float(weight), float(asked))
        for line in lines:
            rater, comment, pairs = line.split("\t")
            items = (pair.partition("=") for pair in pairs.split())
            audit.raters[rater] = {int(g): float(score) if score else None for g, _, score in items}
            audit.comments[rater] = comment
        return audit

    @property
    def stored(self) -> str:
        """The inverse of `from_stored`."""
        lines = [f"{self.index} {self.weight!r} {self.asked!r}"]
        for rater, scores in self.raters.items():
            pairs = " ".join(f"{g}={'' if score is None else repr(score)}" for g, score in scores.items())
            lines.append(f"{rater}\t{self.comments.get(rater, '')}\t{pairs}")
        return "\n".join(lines)

    @property
    def answered_by(self) -> list[str]:
        """Raters who have scored all samples that they were shown."""
        return [rater for rater, scores in self.raters.items() if scores and None not in scores.values()]

    def raters_of(self, generators: Collection[int]) -> list[str]:
        """Raters who have scored the samples of all these generators."""
        return [rater for rater, own in self.raters.items() if all(own.get(g) is not None for g in generators)]

    @property
    def scored(self) -> set[int]:
        """The generators whose sample has a score."""
        return {g for scores in self.raters.values() for g, score in scores.items() if score is not None}


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """An audit that may be given to somebody."""

    id: str
    index: int
    weight: float
    raters: int
    """Number of raters who are to answer it."""
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
    """Audits by id."""
    leases: Mapping[Lease, float]
    """Remaining seconds of current leases."""

    @property
    def answered(self) -> int:
        """Audits of which somebody has scored all samples."""
        return sum(bool(audit.answered_by) for audit in self.audits.values())

    @property
    def open(self) -> int:
        """Audits that somebody has now."""
        return len({lease.audit for lease in self.leases})

    @property
    def unanswered(self) -> int:
        """Audits that somebody had, nobody has now, and nobody answered."""
        held = {lease.audit for lease in self.leases}
        return sum(not audit.answered_by and audit.id not in held for audit in self.audits.values())


class Rating(NamedTuple):
    """A score that one rater gave to one sample."""

    audit: str
    rater: str
    generator: int
    score: float


def ratings_of(audits: Iterable[Audit]) -> list[Rating]:
    """All scores that count, of all raters, as agreement is computed from."""
    return [
        Rating(audit.id, rater, generator, score)
        for audit in audits
        for rater, scores in audit.raters.items()
        for generator, score in scores.items()
        if score is not None
    ]


def audits_said(records: Iterable[Said]) -> dict[str, Audit]:
    """Audits by id, with the scores that count; audits without answers are left out."""
    audits: dict[str, Audit] = {}
    for record in records:
        audit = audits.setdefault(record.audit, Audit(record.audit, record.index, record.weight, record.when))
        scores = audit.raters.setdefault(record.rater, {})
        if record.kind == "void":
            scores.pop(record.generator, None)
        elif record.kind == "answer":
            scores[record.generator] = float(record.score) if record.score else None
        if record.comment:
            audit.comments[record.rater] = hashlib.sha1(record.comment.encode()).hexdigest()  # nosec B324: as audits.lua does
    return audits


def scored_of(audits: Iterable[Audit]) -> Counter[int]:
    """Number of audits with a score of each generator."""
    return Counter(generator for audit in audits for generator in audit.scored)


class LoggedAnswer(NamedTuple):
    """Score of a sample in an entry of a log, which counts from then on."""

    sample: int
    """Its index."""
    weight: float
    score: float | None
    """The mean of all raters; None where all took it back."""
    is_due: bool

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """The answer in the body of an entry. Raises ValueError, KeyError or TypeError for another body."""
        fields = json.loads(body)
        score = fields["score"]
        return cls(
            int(fields["audit"]), float(fields["weight"]), None if score is None else float(score), bool(fields["due"])
        )
