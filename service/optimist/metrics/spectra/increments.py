"""What a batch adds to a scatter, as rows."""

from __future__ import annotations

import torch
from torch import Tensor


def increments(count: int, mean: Tensor, rows: Tensor) -> Tensor:
    """Rows u (b, d) with Σ uuᵀ = what rows x (b, d) add to the scatter of `count` others of that mean (d) (Welford).

    u_j = √(m/(m + 1)) (x_j − mean of the m before it), m = count + j: one row a sample and no negative term, so that
    the Gram matrix of the u only grows. The very first sample adds nothing: then there are b − 1 rows.
    """
    # About a row of their own, so that identical rows add exactly zero.
    origin = rows[0] if count == 0 else mean
    offsets = rows - origin
    before = torch.arange(count, count + len(rows), dtype=rows.dtype, device=rows.device)[:, None]
    means = (offsets.cumsum(0) - offsets) / before.clamp_min(1.0)
    found = (before / (before + 1.0)).sqrt() * (offsets - means)
    return found if count else found[1:]
