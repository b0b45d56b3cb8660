"""States of generators that have been told batches of 5, and of which estimates are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimist.estimates.estimate import Estimate
from optimist.records import GeneratorState, UnitState, codec


def unit(told: int, made: Estimate | None) -> UnitState:
    """What is known of a generator by one metric: the estimate of so many batches."""
    return UnitState(told, made and codec.encode(made))


def generator(
    place: int, name: str, samples: int, estimates: Mapping[str, Estimate | None], **fields: Any
) -> GeneratorState:
    """One whose estimates, by the labels of metrics, are of all its samples."""
    told = samples // 5
    usual = {
        "samples": samples,
        "batches": told,
        "seq": told,
        "due_samples": samples,
        "due_seq": told,
        "units": {label: unit(told, made) for label, made in estimates.items()},
    }
    return GeneratorState(ordinal=place, name=name, **{**usual, **fields})
