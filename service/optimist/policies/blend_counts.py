"""How many samples of each generator to take next, so that all that were handed out make a blend."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimist_client.errors import FixError


def blended(weights: Sequence[float], credits: Sequence[float], size: int) -> tuple[list[int], list[float]]:
    """The counts (G,), which sum to `size`, and the credits (G,) to go on with.

    A credit is by how many samples a generator is behind its share of all that were handed out; at first 0. It grows
    by weight · size, and falls by the count. The whole parts are handed out, and the rest to those whose next sample
    is due first: the one whose credit would be 1 first. Credits then stay between −1 and 1 for as long as the weights
    are the same (the earliest deadline first keeps every quota: Tijdeman 1980). By the largest remainder they may leave
    it: 1.08 was seen.

    Raises FixError unless weights are at least 0 with a positive sum, and `size` is at least 0.
    """
    total = math.fsum(weights)
    if size < 0 or not 0.0 < total < math.inf or min(weights) < 0.0:
        raise FixError(f"expected weights of at least 0 and a size of at least 0, got {list(weights)} and {size}")
    shares = [weight / total for weight in weights]
    owed = [credit + share * size for credit, share in zip(credits, shares, strict=True)]
    counts = [max(0, math.floor(credit)) for credit in owed]
    able = [place for place, share in enumerate(shares) if share > 0.0]

    def due(place: int) -> tuple[bool, float]:
        # Nothing is due of a generator that is ahead, while another one is behind.
        left = owed[place] - counts[place]
        return left <= 0.0, (1.0 - left) / shares[place]

    # Where the weights have changed, whole parts may be too many.
    while sum(counts) > size:
        counts[min((i for i, count in enumerate(counts) if count), key=lambda i: owed[i] - counts[i])] -= 1
    while sum(counts) < size:
        counts[min(able, key=due)] += 1
    return counts, [credit - count for credit, count in zip(owed, counts, strict=True)]
