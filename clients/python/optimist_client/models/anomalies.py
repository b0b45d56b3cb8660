"""Batches that were accepted although they are anomalous."""

from __future__ import annotations

from optimist_client.wire import Answer, GeneratorName, optional


class AnomalousBatch(Answer):
    """A batch that was accepted although it is anomalous. It counts until somebody retracts it."""

    generator: GeneratorName
    position: int
    """Its position in the generator's log, counted from 1."""
    pick: int | None
    """None if no pick asked for it."""
    worker: str | None = optional()
    """The worker that its pick was opened for, where one was named."""
    samples: int
    told: float
    """Unix time of the tell."""
    findings: list[str]
    """The anomaly: "repeats the batch at position 3", "is about 255 times larger than its others: pixels
    0–255 instead of 0–1?"."""
    acceptable: bool = False
    """True if it can be accepted as it is: it is on another scale than others. A copy can only be retracted."""
    retracted: bool = False
    """True if it no longer counts."""
