"""Audits: samples that people score, where a judge scores all of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from optimist_client.wire import Answer, GeneratorName, Wire, optional

RaterName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
RatedScore = Annotated[float, Field(ge=-1e150, le=1e150, allow_inf_nan=False)]


class AuditRequest(Wire):
    """Who asks for audits, and for how many."""

    rater: RaterName | None = None
    """Who scores; by default the id of the access key. A key of role `rater` has to name one."""
    count: Annotated[int, Field(ge=1, le=50)] = 10


class AuditPrompt(Answer):
    """The prompt that the samples of an audit answer."""

    kind: Literal["text"] = "text"
    text: str


class AuditSample(Answer):
    """One sample of an audit, as a rater sees it."""

    kind: Literal["text", "image", "audio", "none"]
    """"none" where the service keeps no preview of it."""
    text: str | None = None
    """A text, whole; None of another kind, and of the texts of a reply beyond 1 MiB, which are at `url`."""
    url: str | None = None
    """The path of its bytes, with the same access key; None where the service keeps none."""
    generator: GeneratorName | None = None
    """Whose sample it is; None for a key of role `rater`."""


class Audit(Answer):
    """A sample of each generator in question, of the same prompt, that people are to score."""

    audit: str
    """Its id."""
    expires_in: float
    """Seconds until somebody else is asked. An answer that comes later counts, too."""
    index: int | None
    """The index of the samples; None for a key of role `rater`."""
    prompt: AuditPrompt | None
    samples: list[AuditSample]
    """In the order in which scores are given."""


class Audits(Answer):
    """The audits that somebody has, and how far people are."""

    audits: list[Audit]
    answered: int
    """Audits of which all samples have a score."""
    open: int
    """Audits that somebody has now."""
    unanswered: int
    """Audits that somebody had, and did not answer."""
    wanted: int
    """About how many more have to be answered for a decision."""
    kind: Literal["score", "votes"]
    """"votes" of a win rate: 1 for a win against the baseline, 1/2 for a tie, 0 for a loss."""
    scale: tuple[float, float] | None
    """The least and the largest score; None: any number."""
    done: bool
    """True if no more answers are needed: it is decided, or stopped."""


class AuditAnswer(Wire):
    """Scores that somebody gives to the samples of an audit."""

    rater: RaterName | None = None
    """As of `AuditRequest`."""
    scores: (
        Annotated[list[RatedScore], Field(min_length=1, max_length=1000)]
        | Annotated[dict[GeneratorName, RatedScore], Field(min_length=1, max_length=1000)]
    )
    """In the order in which the samples were shown, or by generator, which a key of role `rater` does not know."""
    comment: Annotated[str, StringConstraints(max_length=2000)] = ""


class AuditReply(Answer):
    """The effect of an answer."""

    answered: int
    """As in `Audits`."""
    counted: bool
    """True if a decision can rest on it: false once there is one, which it does not change."""


class AuditComment(Answer):
    """A comment that a rater wrote beside the scores."""

    audit: str
    index: int
    rater: str
    comment: str
    when: float
    """Unix time."""


class RaterCount(Answer):
    """Counts of a rater's audits."""

    rater: str
    answered: int
    open: int


class AuditCounts(Answer):
    """Counts of audits, by rater, and comments."""

    answered: int
    open: int
    unanswered: int
    """All three as in `Audits`."""
    raters: list[RaterCount]
    comments: list[AuditComment] = optional([])
    """The newest comment of each rater on each audit, the oldest first; none for a key that gives access to no
    samples."""
