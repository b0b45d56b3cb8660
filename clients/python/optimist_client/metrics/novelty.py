"""Novelty against real data."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from optimist_client.metrics.base import Metric, declare
from optimist_client.metrics.kernel import Kernel


@declare
class KEN(Metric):
    """How many kinds of sample are made much more often than they occur in real data, and how often: novelty."""

    name = "ken"
    title = "KEN"
    arrays = {"features": ""}
    floor = 0.0
    needs = frozenset({"kernel", "reference"})
    reference_rows = True
    kernels = {"kernel": "features"}
    offers = frozenset({"modes"})
    takes_prompts = True
    decides = False

    reference: Any = None
    """The name of an uploaded reference that keeps its rows, or real features in a form that `create_experiment` and
    `Evaluation` accept. A mean and covariance do not suffice."""
    kernel: Kernel | None = None
    """Kernel of the features; required for an experiment."""
    eta: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    """η: only what is made more than η times as often as in real data counts as novel."""
