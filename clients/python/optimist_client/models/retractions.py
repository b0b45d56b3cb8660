"""Retracting batches, and accepting those that are on another scale than others."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from optimist_client.errors import FixError
from optimist_client.wire import Answer, GeneratorName, Wire, optional


def _fits(reason: str) -> str:
    if len(reason.encode("utf-8", "surrogatepass")) > 1024 or not reason.isprintable():
        raise FixError("expected printable text of at most 1,024 bytes")
    return reason


class RetractionRequest(Wire):
    """Why a batch is retracted."""

    reason: Annotated[str, AfterValidator(_fits)] = ""


class RetractedBatch(Answer):
    """A batch that counts no longer, or the batches of a generator until then."""

    generator: GeneratorName
    position: int | None
    """Position of the batch in the generator's log; None where all its batches were retracted, or the first ones."""
    until: int | None = optional()
    """Up to which position all its batches were retracted, where later ones still count."""
    pick: int | None
    """None where no pick asked for the batch, or where several were retracted."""
    samples: int
    """Samples that stay in the budget and the cost, and no longer count in the estimate."""

    @property
    def which(self) -> str:
        """The retracted batches of the generator, in words."""
        if self.position is not None:
            return f"batch {self.position:,}"
        return "all batches" if self.until is None else f"all batches up to {self.until:,}"


class Retraction(RetractedBatch):
    """A retraction as it stands in the report."""

    who: str | None = None
    """Id of the access key; None where the service needs no keys."""
    when: float
    """Unix time."""
    reason: str = ""
    reopened: bool = Field(default=False)
    """True if a decision rested on what was retracted, so that it was dropped."""


class RetractReply(Answer):
    """The retraction. A repeat gets the same answer with `already`."""

    retracted: list[RetractedBatch]
    """Empty if the generator has no batches."""
    already: bool = False
    """True if it was retracted before, so that nothing changed now."""
    decision_reopened: bool = False
    """True if a decision rested on it, which was dropped then."""


class AcceptanceRequest(Wire):
    """Why a batch on another scale is right as it is."""

    reason: Annotated[str, AfterValidator(_fits)] = ""


class NamedBatch(Wire):
    """A batch by its place in its generator's log."""

    generator: GeneratorName
    position: Annotated[int, Field(ge=1, le=2**53)]


class CorrectionRequest(Wire):
    """Batches that are retracted, and batches on another scale that are accepted, for one reason."""

    retract: Annotated[tuple[NamedBatch, ...], Field(max_length=1024)] = ()
    accept: Annotated[tuple[NamedBatch, ...], Field(max_length=1024)] = ()
    reason: Annotated[str, AfterValidator(_fits)] = ""


class Acceptance(Answer):
    """A batch on another scale that somebody accepted as it is, or all batches of a generator until then."""

    generator: GeneratorName
    position: int | None
    """Position of the batch in the generator's log; None where all were accepted."""
    until: int
    """Position of the last batch that was accepted."""
    who: str | None = None
    """Id of the access key; None where the service needs no keys."""
    when: float
    """Unix time."""
    reason: str = ""


class AcceptReply(Answer):
    """The acceptance. A repeat gets the first acceptance again with `already`."""

    accepted: Acceptance
    already: bool = False
    """True if it was accepted before, so that nothing changed now."""
