"""The kernel Inception distance."""

from __future__ import annotations

from typing import Any

from optimist_client.metrics.base import Metric, declare


@declare
class KID(Metric):
    """The squared distance of the generator's mean from that of real data, in the features of the kernel (xᵀy/d + 1)³.

    It is unbiased: 0 on average for a perfect generator, so that half of its scores are below 0.
    """

    name = "kid"
    title = "KID"
    arrays = {"features": ""}
    lower_is_better = True
    needs = frozenset({"reference"})
    reference_rows = True
    takes_prompts = True

    reference: Any = None
    """The name of an uploaded reference, or real features (n, d) themselves; mean and covariance do not suffice."""
