"""Real rows of kinds that a generator has not been seen to make: none of its samples is near them."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist_client.models.decisions import UNSEEN
from optimist_client.references import SOME


def unsampled(real: Tensor, samples: Tensor, count: int) -> tuple[str, ...]:
    """A warning where some real rows (k, d) are far from the last samples (n, d) of `count`; else none.

    None of more than 256 samples, among which kinds of 2 % are missing with a chance of less than 1 %, and whose
    distances would take long.
    """
    # Of fewer than 20 samples distances say little, and no decision is made with them.
    if not 20 <= count <= SOME:
        return ()
    among = torch.cdist(samples, samples).fill_diagonal_(torch.inf)
    gap = float(among.amin(1).amax())
    # Far are rows beyond twice the largest distance of a sample from the nearest other one.
    share = float((torch.cdist(real, samples).amin(1) > 2.0 * gap).double().mean())
    if share <= 0.03:
        return ()
    return (f"no sample is near {share:.0%} of the real rows: {UNSEEN.format(len(samples) // 3)[:-1].lower()}",)
