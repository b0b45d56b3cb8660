"""Retractions and acceptances as answers and reports show them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.records import Acceptance as StoredAcceptance
from optimist.records import GeneratorState
from optimist.records import Retraction as Stored
from optimist_client.models import Acceptance, RetractedBatch, Retraction


def retracted_batch(stored: Stored, generator: str) -> RetractedBatch:
    """What was retracted of the generator of this name."""
    return RetractedBatch(
        generator=generator,
        position=stored.position or None,
        until=stored.until if 0 < stored.until < stored.seq else None,
        pick=stored.pick or None,
        samples=stored.samples,
    )


def retractions_of(generators: Sequence[GeneratorState]) -> list[Retraction]:
    """All retractions, the newest last."""
    found = [(stored, generator.name) for generator in generators for stored in generator.retractions]
    return [
        Retraction(
            **retracted_batch(stored, name).model_dump(),
            who=stored.who or None,
            when=stored.when,
            reason=stored.reason,
            reopened=stored.reopened,
        )
        for stored, name in sorted(found, key=lambda entry: entry[0].when)
    ]


def acceptance(stored: StoredAcceptance, generator: str) -> Acceptance:
    """What was accepted of the generator of this name."""
    return Acceptance(
        generator=generator,
        position=stored.position or None,
        until=stored.until,
        who=stored.who or None,
        when=stored.when,
        reason=stored.reason,
    )


def acceptances_of(generators: Sequence[GeneratorState]) -> list[Acceptance]:
    """All acceptances, the newest last."""
    found = [acceptance(stored, generator.name) for generator in generators for stored in generator.acceptances]
    return sorted(found, key=lambda one: one.when)
