"""Real rows of kinds that a generator has not been seen to make: none of its samples is near them."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist_client.models.decisions import UNSEEN
from optimist_client.references import SOME

FEWEST = 20
"""Samples below which their distances from each other say little; no decision is made with fewer."""
_FAR = 2.0
"""Rows are far from all samples beyond this many times the largest distance of a sample from the nearest other one."""
_SHARE = 0.03
"""The largest share of such real rows about which nothing is said."""


def unsampled(real: Tensor, samples: Tensor, count: int) -> tuple[str, ...]:
    """A warning where some real rows (k, d) are far from the last samples (n, d) of `count`; else none.

    None of more than 256 samples, among which kinds of 2 % are missing with a chance of less than 1 %, and whose
    distances would take long.
    """
    if not FEWEST <= count <= SOME:
        return ()
    among = torch.cdist(samples, samples).fill_diagonal_(torch.inf)
    gap = float(among.amin(1).amax())
    share = float((torch.cdist(real, samples).amin(1) > _FAR * gap).double().mean())
    if share <= _SHARE:
        return ()
    return (f"no sample is near {share:.0%} of the real rows: {UNSEEN.format(len(samples) // 3)[:-1].lower()}",)
