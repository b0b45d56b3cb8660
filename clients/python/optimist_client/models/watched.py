"""A watched metric in a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, computed_field

from optimist_client import display
from optimist_client.metrics import Scale
from optimist_client.models.contrasts import Contrast
from optimist_client.models.decisions import confidence_text, joined
from optimist_client.models.ranks import Ranking, known_ranks
from optimist_client.models.standings import Standing, ranked
from optimist_client.wire import Answer, Identifier, optional


class WatchedReport(Answer):
    """The standings by a metric that is watched and does not decide. `Report.watched` has them by label."""

    label: Identifier
    metric: str
    title: str
    """The metric's name for display, unlike those of the other metrics."""
    lower_is_better: bool
    scale: Scale
    offers: list[str] = Field(default_factory=list)
    best: str | None
    """The best generator so far by this metric; None while not every generator has an estimate."""
    confidence: float | None
    sure: bool
    """True if the stopping rule would name it, with the confidence of the experiment, if this metric decided."""
    standings: list[Standing]
    contrasts: list[Contrast] = Field(default_factory=list[Contrast])
    """Contrasts of each other generator with its best one."""
    ranks: Ranking | None = optional()
    """As of the report, by this metric."""
    scored: bool
    """True if every estimate of it that is due has been made."""

    @property
    def is_settled(self) -> bool:
        """True if nothing more is to be waited for: all that is due has been made, or cannot be made."""
        return self.scored or any(row.incomplete for row in self.standings)

    @computed_field
    @property
    def confidence_text(self) -> str:
        """The confidence as it is shown everywhere: rounded down, and empty if it is unknown or below 50 %."""
        return confidence_text(self.confidence)

    @property
    def leader(self) -> str | None:
        """The generator that the others are compared with: the best one, or the best so far while not every generator
        has an estimate."""
        return self.contrasts[0].against if self.contrasts else self.best

    def ranking(self) -> Ranking:
        """The ranks of the generators by this metric, as of `Report.ranking`. Raises FixError."""
        return known_ranks(self.ranks)

    @property
    def in_order(self) -> list[Standing]:
        """The standings, best first, those without a score last."""
        return ranked(self.standings, self.leader, lower_is_better=self.lower_is_better)

    def to_pandas(self) -> Any:
        """The standings as a `pandas.DataFrame`, best first, one row per generator. Needs pandas."""
        return display.as_frame(self)


def disagreement(title: str, best: str | None, confidence: float | None, watched: Iterable[WatchedReport]) -> str:
    """A sentence on which metrics name which generator as the best, beside the deciding one; "" if none differs.

    title, best, confidence: of the deciding metric. Metrics without a best generator yet are left out.
    """
    named: dict[str, list[WatchedReport]] = {}
    for metric in watched:
        if metric.best is not None:
            named.setdefault(metric.best, []).append(metric)
    agreeing = named.pop(best, []) if best is not None else []
    if best is None or not named:
        return ""
    said = [f"{_with_confidence(title, confidence)}, which decides, names {best}"]
    for other, metrics in named.items():
        subjects = [_with_confidence(metric.title, metric.confidence) for metric in metrics]
        said.append(f"{joined(subjects)} {'names' if len(metrics) == 1 else 'name'} {other}")
    if agreeing:
        subjects = [_with_confidence(metric.title, metric.confidence) for metric in agreeing]
        said.append(f"{joined(subjects)} {'agrees' if len(agreeing) == 1 else 'agree'} with {title}")
    sure = any(metric.sure for metrics in named.values() for metric in metrics)
    doubt = "" if sure else " No metric that disagrees is sure."
    return f"Metrics disagree on the best: {'; '.join(said)}.{doubt}"


def _with_confidence(title: str, confidence: float | None) -> str:
    sure = confidence_text(confidence)
    return f"{title} ({sure} confidence)" if sure else title
