"""A watched metric in a report."""

from __future__ import annotations

from pydantic import Field

from optimist_client.metrics import Scale
from optimist_client.models.contrasts import Contrast
from optimist_client.models.standings import Standing
from optimist_client.wire import Answer, Identifier


class WatchedReport(Answer):
    """The standings by a metric that is watched and does not decide. `Report.watched` has them by label."""

    label: Identifier
    metric: str
    title: str
    lower_is_better: bool
    scale: Scale
    offers: list[str] = Field(default_factory=list)
    best: str | None
    """The best generator so far by this metric; None while not every generator has an estimate."""
    confidence: float | None
    sure: bool
    """Whether the stopping rule would name it, with the confidence of the experiment, if this metric decided."""
    standings: list[Standing]
    contrasts: list[Contrast] = Field(default_factory=list)
    """How far the others are behind its best generator."""
    scored: bool
    """Whether every estimate of it that is due has been made."""
