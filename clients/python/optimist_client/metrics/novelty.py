"""Novelty against real data."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from optimist_client.metrics.base import Metric, declare
from optimist_client.metrics.kernel import MEDIAN, Gaussian, Kernel


@declare
class KEN(Metric):
    """How many kinds of sample are made much more often than they occur in real data, and how often: novelty."""

    name = "ken"
    title = "KEN"
    arrays = {"features": ""}
    floor = 0.0
    needs = frozenset({"reference"})
    reference_rows = True
    offers = frozenset({"modes"})
    takes_prompts = True
    decides = False

    reference: Any = None
    """The name of an uploaded reference, or real features (n, d) themselves; mean and covariance do not suffice."""
    kernel: Kernel = Gaussian(MEDIAN, features=256)
    """Kernel of the features. The real data fixes what is open: the bandwidth "median" is its median distance,
    landmarks are its rows. An estimate takes three eigenproblems of the width of φ."""
    eta: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    """η: only what is made more than η times as often as it occurs in real data counts as novel."""

    @property
    def directed(self) -> frozenset[str]:
        """The features under the cosine kernel."""
        return frozenset(self.arrays if self.kernel.name == "cosine" else ())
