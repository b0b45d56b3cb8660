"""What is made of the logs of all generators and stored by its parts: mixtures, and models of contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Part(NamedTuple):
    """What a mixture was made of by one generator: its log up to `seq`, with so many samples that count."""

    seq: int
    samples: int


@dataclass(frozen=True, slots=True)
class StoredMixture:
    """The newest mixture by one metric. Equal if made of the same batches."""

    made: str = field(compare=False)
    """A name that no other mixture has."""
    parts: Mapping[int, Part]
    """By the ordinals of the generators in it."""
    payload: str

    @property
    def samples(self) -> int:
        """Samples of all generators in it."""
        return sum(part.samples for part in self.parts.values())


@dataclass(frozen=True, slots=True)
class StoredRoutes:
    """The newest model of contexts; its bytes are read by `Store.route_model`. Equal if made of the same batches."""

    made: str = field(compare=False)
    """A name that no other model has: "<samples>:<Unix seconds of Redis>"."""
    parts: Mapping[int, Part]
    """By the ordinals of the generators in it."""

    @property
    def samples(self) -> int:
        """Samples of all generators in it."""
        return sum(part.samples for part in self.parts.values())


def is_outgrown(
    parts: Mapping[int, Part], able: Mapping[int, Part], growth: float, own_growth: float = math.inf
) -> bool:
    """Whether what was made of `parts` is of other generators than now, or samples have grown by `growth` since, or
    those of one generator by `own_growth`.

    able: of what it would be made now.
    """
    if parts.keys() != able.keys():
        return True
    # Samples of batches that cannot be read are not in it: it may have fewer than were told, and still all.
    if all(part.seq <= parts[generator].seq for generator, part in able.items()):
        return False
    for generator, (seq, own) in able.items():
        known = parts[generator]
        if seq > known.seq and own > known.samples and own >= (1.0 + own_growth) * known.samples:
            return True
    samples, before = (sum(part.samples for part in those.values()) for those in (able, parts))
    return samples > before and samples >= (1.0 + growth) * before
