"""In which order the samples of several sources are used."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """The samples of every source, in a random order that depends on their names and the seed alone."""

    names: Mapping[str, Sequence[str]]
    """The names of the samples by source: first those that all sources have, in the same order, then the others."""
    common: int
    """How many samples all sources have by name. They are compared by index."""

    @property
    def total(self) -> int:
        """Samples of all sources."""
        return sum(map(len, self.names.values()))


def order_of(names: Mapping[str, Sequence[str]], seed: int) -> Order:
    """The order of these names by source.

    It is random because files are often sorted by class or prompt, and estimates assume a random sample. Samples of one
    name stand in the same place in every source, so that generators are compared on the same seed or prompt.
    """
    shared = set[str].intersection(*map(set, names.values()))

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{seed}/{name}".encode()).digest()

    ordered = {source: sorted(own, key=lambda name: (name not in shared, place(name))) for source, own in names.items()}
    return Order(ordered, len(shared))
