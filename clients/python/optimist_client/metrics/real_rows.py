"""The base class of the metrics that compare samples with the rows of real features."""

from __future__ import annotations

from typing import Any

from optimist_client.metrics.base import Metric


class AgainstRows(Metric):
    """A metric that needs real features themselves, of which moments do not say enough."""

    arrays = {"features": ""}
    needs = frozenset({"reference"})
    reference_rows = True

    reference: Any = None
    """The name of an uploaded reference, or real features (n, d) themselves; mean and covariance do not suffice."""
