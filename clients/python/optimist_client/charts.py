"""Draws how an experiment went: regret and shares of picks over its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError
from optimist_client.installed import need

if TYPE_CHECKING:
    from optimist_client.models.progress import Progress
    from optimist_client.models.reports import Report


def plot_regret(report: Report, axes: Any = None) -> Any:
    """Regret over batches told: the sum of the gaps between each picked generator's score and the best one's.

    By the newest scores. Raises FixError without the data, and while not every generator has a score.
    """
    progress = _progress(report)
    scores = {row.generator: row.score for row in report.standings}
    best = scores.get(report.decision.best or "")
    if best is None or any(score is None for score in scores.values()):
        raise FixError("regret: not every generator has a score yet")
    # Generators that were retired have no score; what they were picked for is left out, as in `Report.regret`.
    gaps = {name: abs(score - best) for name, score in scores.items() if score is not None}
    curves = [(curve.batches, gaps[curve.generator]) for curve in progress.generators if curve.generator in gaps]
    regret = [sum(batches[index] * gap for batches, gap in curves) for index in range(len(progress.rounds))]
    axes = _axes(axes)
    axes.plot(progress.rounds, regret, color="C0")
    axes.set_ylabel(f"regret in {report.title}")
    return _labelled(axes, report)


def plot_picks(report: Report, axes: Any = None) -> Any:
    """The share of all batches that each generator was picked for, over batches told.

    Raises FixError without the data.
    """
    progress = _progress(report)
    axes = _axes(axes)
    for curve in progress.generators:
        shares = [batches / told for batches, told in zip(curve.batches, progress.rounds, strict=True)]
        is_best = curve.generator == report.decision.best
        axes.plot(progress.rounds, shares, label=curve.generator, linewidth=2.5 if is_best else 1.2)
    axes.set_ylabel("share of batches")
    axes.set_ylim(0.0, 1.0)
    axes.legend(frameon=False, fontsize="small")
    return _labelled(axes, report)


def _progress(report: Report) -> Progress:
    if report.progress is None or not report.progress.rounds:
        raise FixError("this report has no data for charts: expected one of `experiment.report(charts=True)`")
    return report.progress


def _axes(axes: Any) -> Any:
    return need("matplotlib.pyplot", "notebook").subplots(layout="constrained")[1] if axes is None else axes


def _labelled(axes: Any, report: Report) -> Any:
    axes.set_xlabel("batches received")
    axes.set_title(report.experiment, fontsize="medium")
    axes.set_xlim(left=0)
    return axes
