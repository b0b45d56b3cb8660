"""Suspicious batches, and generators that look identical: listed, and named in reports, decisions and the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from optimist.numerics.plausibility import WARNED
from optimist.store import GeneratorState, Suspect
from optimist_client.models import SuspectBatch

_NAMED = 3
"""How many log positions a warning names."""
_FEW = 3
"""How many equal batches of one row each lead to a warning: single rows of discrete values may repeat by chance."""
_PART = 0.01
"""Fraction of a generator's batches from which on copies lead to a warning about the decision."""
_LINES, _SECONDS = 10, 60.0
"""At most `_LINES` log lines are written in `_SECONDS` seconds."""

_log = logging.getLogger(__name__)


def suspects_among(generators: Sequence[GeneratorState]) -> list[SuspectBatch]:
    """The odd batches of these generators, newest first."""
    found = []
    for generator in generators:
        gone, are_notable = _retracted(generator), _are_notable(generator, generator.copies)
        for suspect in generator.suspects:
            is_retracted = suspect.seq in gone
            if odd := findings(suspect, are_copies_notable=are_notable or is_retracted):
                found.append(_described(generator, suspect, odd, is_retracted))
    return sorted(found, key=lambda suspect: -suspect.told)


def _described(generator: GeneratorState, suspect: Suspect, odd: list[str], is_retracted: bool) -> SuspectBatch:
    return SuspectBatch(
        generator=generator.name,
        position=suspect.seq,
        pick=suspect.origin.pick or None,
        samples=suspect.origin.rows,
        told=suspect.origin.told,
        findings=odd,
        retracted=is_retracted,
    )


def _retracted(generator: GeneratorState) -> set[int]:
    """The positions of its suspects that no longer count."""
    single = {retraction.position for retraction in generator.retractions}
    return {suspect.seq for suspect in generator.suspects if suspect.seq <= generator.restart or suspect.seq in single}


def findings(suspect: Suspect, *, are_copies_notable: bool = True) -> list[str]:
    """What is odd about a batch, each as a phrase; empty for a copy if copies are not notable."""
    found = []
    if suspect.copy_of is not None and are_copies_notable:
        found.append(f"repeats the batch at position {suspect.copy_of}")
    if suspect.large:
        found.append(f"has values over {WARNED:,.0f} times the usual size ({suspect.large})")
    return found


def standing_warnings(generator: GeneratorState, generators: Sequence[GeneratorState]) -> list[str]:
    """The report's warnings about a generator's batches."""
    warnings = []
    gone = _retracted(generator)
    suspects = [suspect for suspect in generator.suspects if suspect.seq not in gone]
    if generator.large:
        at = _positions([suspect for suspect in suspects if suspect.large])
        warnings.append(
            f"{_batches(generator.large, 'has', 'have')} values over {WARNED:,.0f} times the usual size{at}"
        )
    if _are_notable(generator, generator.copies):
        at = _positions([suspect for suspect in suspects if suspect.copy_of is not None])
        warnings.append(f"{_batches(generator.copies, 'repeats', 'repeat')} earlier ones{at}")
    for one, other, agree in _twins(generators):
        if generator in (one, other):
            twin = other if generator is one else one
            warnings.append(f"looks identical to {twin.name!r}: {agree:,} batches agree")
    return warnings


def decision_warnings(generators: Sequence[GeneratorState]) -> tuple[str, ...]:
    """Reasons not to trust a decision between these generators."""
    if not any(generator.copies or generator.twins for generator in generators):
        return ()
    copied = [
        f"{100 * part:.0f} % of the batches of {generator.name!r} repeat earlier ones: the decision may rest on copies"
        for generator in generators
        if _are_notable(generator, generator.copies) and (part := generator.copies / generator.batches) >= _PART
    ]
    identical = [
        f"{one.name!r} and {other.name!r} look identical: {agree:,} of their batches agree"
        for one, other, agree in _twins(generators)
    ]
    return (*copied, *identical)


def _twins(generators: Sequence[GeneratorState]) -> list[tuple[GeneratorState, GeneratorState, int]]:
    by_ordinal = {generator.ordinal: generator for generator in generators}
    return [
        (one, by_ordinal[other], agree)
        for one in generators
        for other, agree in sorted(one.twins.items())
        if other in by_ordinal and agree >= 2 and _are_notable(one, agree)
    ]


def _are_notable(generator: GeneratorState, count: int) -> bool:
    """Whether this count of equal batches is hardly chance: 1 batch of several rows, or `_FEW` batches of one row."""
    return count >= (_FEW if generator.samples == generator.batches else 1)


def _batches(count: int, one: str, many: str) -> str:
    return f"1 batch {one}" if count == 1 else f"{count:,} batches {many}"


def _positions(suspects: Sequence[Suspect]) -> str:
    if not suspects:
        return ""
    return f", as at position {', '.join(str(suspect.seq) for suspect in suspects[:_NAMED])}"


class SuspectLog:
    """Logs every suspicious batch, limited to a few lines a minute because a client may tell any number of them."""

    def __init__(self) -> None:
        self._since = -_SECONDS
        self._lines = 0
        self._more = 0

    def warn(self, experiment: str, generator: str, suspect: Suspect) -> None:
        """Log one batch, or count it for the line that reports how many were left out."""
        now = time.monotonic()
        if now - self._since >= _SECONDS:
            if self._more:
                _log.warning("%d more odd batches were accepted in the last %.0f s", self._more, now - self._since)
            self._since, self._lines, self._more = now, 0, 0
        if self._lines >= _LINES:
            self._more += 1
            return
        self._lines += 1
        _log.warning("batch %d of %s/%s %s", suspect.seq, experiment, generator, " and ".join(findings(suspect)))
