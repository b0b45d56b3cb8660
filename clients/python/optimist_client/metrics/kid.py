"""The kernel Inception distance."""

from __future__ import annotations

from optimist_client.metrics.base import declare
from optimist_client.metrics.real_rows import AgainstRows


@declare
class KID(AgainstRows):
    """The squared distance of the generator's mean from that of real data, in the features of the kernel (xᵀy/d + 1)³.

    It is unbiased: 0 on average for a perfect generator, so that half of its scores are below 0.
    """

    name = "kid"
    implementation = "optimist.metrics.kid"
    title = "KID"
    lower_is_better = True
