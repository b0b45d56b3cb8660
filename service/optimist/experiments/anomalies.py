"""Batches that repeat others or are on another scale, and what was done about them, as reports and logs name them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import AcceptanceRecord, GeneratorState, Origin, RetractionRecord
from optimist_client.models import Acceptance, AnomalousBatch, AnomalousBatches, Contrast, RetractedBatch, Retraction


def retracted_batch(stored: RetractionRecord, generator: str) -> RetractedBatch:
    """The retracted batch, or batches, of the generator of this name, as answers show them."""
    return RetractedBatch(
        generator=generator,
        position=stored.position or None,
        until=stored.until if 0 < stored.until < stored.seq else None,
        pick=stored.pick or None,
        samples=stored.samples,
    )


def retractions_of(generators: Sequence[GeneratorState]) -> list[Retraction]:
    """All retractions, the newest last."""
    retractions = [(stored, generator.name) for generator in generators for stored in generator.retractions]
    return [
        Retraction(
            **retracted_batch(stored, name).model_dump(),
            who=stored.who or None,
            when=stored.when,
            reason=stored.reason,
            reopened=stored.reopened,
        )
        for stored, name in sorted(retractions, key=lambda entry: entry[0].when)
    ]


def acceptance(stored: AcceptanceRecord, generator: str) -> Acceptance:
    """The accepted batch, or batches, of the generator of this name, as answers show them."""
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
    acceptances = [acceptance(stored, generator.name) for generator in generators for stored in generator.acceptances]
    return sorted(acceptances, key=lambda each: each.when)


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Anomalies:
    """The batches on another scale in one state of an experiment."""

    groups: tuple[AnomalousBatches, ...] = ()
    """Anomalies of the generators that are not retired, grouped by what is wrong."""
    origins: Mapping[tuple[int, int], Origin] = field(default_factory=dict[tuple[int, int], Origin])
    """The origin of each of these batches, by ordinal and position."""
    findings: Mapping[tuple[int, int], list[str]] = field(default_factory=dict[tuple[int, int], list[str]])
    """The anomalies of each batch, as phrases."""


NOTHING = Anomalies()


def anomalies_among(generators: Sequence[GeneratorState], anomalous: Anomalies = NOTHING) -> list[AnomalousBatch]:
    """The anomalous batches of these generators, newest first: copies, and what is `anomalous`."""
    batches: list[AnomalousBatch] = []
    origins = defaultdict[int, dict[int, Origin]](dict)
    for (ordinal, position), origin in anomalous.origins.items():
        origins[ordinal][position] = origin
    for generator in generators:
        gone, are_notable = _retracted(generator), _are_notable(generator, generator.copies)
        copies = {batch.seq: batch for batch in generator.named_copies if are_notable or batch.seq in gone}
        scales = origins[generator.ordinal]
        for position in copies.keys() | scales.keys():
            copy = copies.get(position)
            findings = [] if copy is None else [repeats(copy.copy_of)]
            findings += anomalous.findings.get((generator.ordinal, position), [])
            origin = scales[position] if copy is None else copy.origin
            batches.append(
                AnomalousBatch(
                    generator=generator.name,
                    position=position,
                    pick=origin.pick or None,
                    worker=origin.worker or None,
                    samples=origin.rows,
                    told=origin.told,
                    findings=findings,
                    acceptable=position in scales,
                    retracted=position in gone,
                )
            )
    return sorted(batches, key=lambda batch: (-batch.told, batch.generator, -batch.position))


def _retracted(generator: GeneratorState) -> set[int]:
    """The positions of its named_copies that no longer count."""
    single = {retraction.position for retraction in generator.retractions}
    return {copy.seq for copy in generator.named_copies if copy.seq <= generator.restart or copy.seq in single}


def repeats(position: int) -> str:
    """The phrase that says that a batch is a copy of the one at this position."""
    return f"repeats the batch at position {position}"


def standing_warnings(generators: Sequence[GeneratorState], anomalous: Anomalies = NOTHING) -> list[list[str]]:
    """The report's warnings about the batches of each of these generators."""
    scaled, identical = defaultdict[str, list[str]](list), defaultdict[int, list[str]](list)
    for group in anomalous.groups:
        scaled[group.generator].append(group.text)
    for first, second, agree in _duplicated_generators(generators):
        for generator, duplicate in ((first, second), (second, first)):
            text = f"identical to {duplicate.name!r} so far ({agree:,} batches agree): stop?"
            identical[generator.ordinal].append(text)
    return [[*scaled[each.name], *_copied(each), *identical[each.ordinal]] for each in generators]


def _copied(generator: GeneratorState) -> list[str]:
    """A warning about the copies among a generator's batches, if they are notable."""
    if not _are_notable(generator, generator.copies):
        return []
    gone = _retracted(generator)
    at = ", ".join([str(copy.seq) for copy in generator.named_copies if copy.seq not in gone][:3])
    return [f"{_batches(generator.copies, 'repeats', 'repeat')} earlier ones{at and f', as at position {at}'}"]


def decision_warnings(generators: Sequence[GeneratorState]) -> tuple[str, ...]:
    """Reasons not to trust a decision between these generators."""
    if not any(generator.copies or generator.duplicates for generator in generators):
        return ()
    copied = [
        f"{100 * part:.0f} % of the batches of {generator.name!r} repeat earlier ones: the decision may rest on copies"
        for generator in generators
        if _are_notable(generator, generator.copies) and (part := generator.copies / generator.batches) >= 0.01
    ]
    identical = [
        f"{first.name!r} and {second.name!r} are identical so far ({agree:,} of their batches agree): stop?"
        for first, second, agree in _duplicated_generators(generators)
    ]
    return (*copied, *identical)


def identical_so_far(contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """A warning about each generator that scores as the best one does, sample by sample, on common seeds or prompts.

    Where batches are stored, equal ones are found by their digests, of which `decision_warnings` says the same.
    """
    return tuple(
        f"{each.against!r} and {each.generator!r} are identical so far (on {each.common:,} common samples): stop?"
        for each in contrasts
        if abs(each.difference) < 1e-9 and each.correlation > 0.999 and each.common >= FEWEST_SAMPLES
    )


def _duplicated_generators(generators: Sequence[GeneratorState]) -> list[tuple[GeneratorState, GeneratorState, int]]:
    by_ordinal = {generator.ordinal: generator for generator in generators}
    return [
        (one, by_ordinal[other], agree)
        for one in generators
        for other, agree in sorted(one.duplicates.items())
        if other in by_ordinal and agree >= 2 and _are_notable(one, agree)
    ]


def _are_notable(generator: GeneratorState, count: int) -> bool:
    """True if this count of equal batches is hardly chance: 1 batch of several rows, or 3 batches of one row each, as
    single rows of discrete values may repeat."""
    return count >= (3 if generator.samples == generator.batches else 1)


def _batches(count: int, singular: str, plural: str) -> str:
    return f"1 batch {singular}" if count == 1 else f"{count:,} batches {plural}"


class AnomalyLog:
    """Logs every anomalous batch, limited to a few lines a minute because a client may tell any number of them."""

    def __init__(self, lines: int = 10, seconds: float = 60.0) -> None:
        """lines: written at most in so many seconds."""
        self._max_lines, self._seconds = lines, seconds
        self._since = -seconds
        self._lines = 0
        self._more = 0

    def warn(self, experiment: str, generator: str, position: int, findings: Sequence[str]) -> None:
        """Log one batch, or count it for the line that reports how many were left out."""
        now = time.monotonic()
        if now - self._since >= self._seconds:
            if self._more:
                _log.warning(
                    "%d more anomalous batches were accepted in the last %.0f s", self._more, now - self._since
                )
            self._since, self._lines, self._more = now, 0, 0
        if self._lines >= self._max_lines:
            self._more += 1
            return
        self._lines += 1
        _log.warning("batch %d of %s/%s %s", position, experiment, generator, " and ".join(findings))
