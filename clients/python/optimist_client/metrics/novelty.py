"""Novelty against real data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optimist_client.metrics.base import declare
from optimist_client.metrics.kernel import MEDIAN, Gaussian, Kernel
from optimist_client.metrics.real_rows import AgainstRows


@declare
class KEN(AgainstRows):
    """Number and frequency of kinds of sample that are made much more often than they occur in real data: novelty."""

    name = "ken"
    implementation = "optimist.metrics.novelty"
    title = "KEN"
    floor = 0.0
    offers = frozenset({"modes"})
    decides = False

    kernel: Kernel = Gaussian(MEDIAN, features=256)
    """Kernel of the features. The real data fixes open settings: the bandwidth "median" is its median distance,
    landmarks are its rows. An estimate takes three eigenproblems of the width of φ."""
    eta: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    """η: only kinds of samples more than η times as frequent as in real data count as novel."""

    @property
    def directed(self) -> frozenset[str]:
        """The features under the cosine kernel."""
        return frozenset(self.arrays if self.kernel.name == "cosine" else ())
