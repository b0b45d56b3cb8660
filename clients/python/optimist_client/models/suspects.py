"""Batches that were accepted although they are odd."""

from __future__ import annotations

from optimist_client.wire import Answer, GeneratorName


class SuspectBatch(Answer):
    """A batch that was accepted although it is odd. It counts until somebody retracts it."""

    generator: GeneratorName
    position: int
    """Its position in the generator's log, counted from 1."""
    pick: int | None
    """None if no pick asked for it."""
    samples: int
    told: float
    """When it was told, in Unix time."""
    findings: list[str]
    """What is odd about it: "repeats the batch at position 3", "is about 255 times larger than its others: pixels 0–255
    instead of 0–1?"."""
    anomalous: bool = False
    """Whether it is on another scale than others, and can be accepted as it is."""
    retracted: bool = False
    """Whether it no longer counts."""
