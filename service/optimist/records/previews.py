"""Previews of samples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewPreview:
    """A preview of the sample at `place` of a batch. about: text of the caller, which is stored with it."""

    place: int
    index: int | None
    """Index of the sample in the generator's sequence."""
    about: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredPreview:
    """A preview that is kept, without its bytes."""

    generator: int
    pick: int
    place: int
    position: int
    """Position of its batch in the generator's log."""
    index: int | None
    about: str
