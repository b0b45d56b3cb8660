"""Shows a run in a notebook: the standings and a chart of the scores, both kept up to date."""

from __future__ import annotations

import html
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist_client.models.decisions import DecisionInfo
    from optimist_client.models.reports import Report


class NotebookView:
    """A cell's output: how far the run is, the standings, and the scores with their intervals over the samples.

    The chart needs matplotlib; without it there is none.
    """

    shows_reports = True

    def __init__(self, title: str, total: int | None) -> None:
        self._display = import_module("IPython.display")
        self._title = title
        self._total = total
        self._samples = 0
        self._leader = ""
        self._reports: list[Report] = []
        self._shown = ""
        """Standings and chart of the newest report."""
        self._handle: Any = self._display.display(self._page(), display_id=True)

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples, once there is a report, and if given the newest decision."""
        self._samples = samples
        self._leader = self._leader if decision is None else decision.leader

    def show(self, report: Report) -> None:
        """Show a new report."""
        if len(self._reports) >= 200:
            self._reports = self._reports[::2]
        self._reports.append(report)
        self._shown = report._repr_html_() + chart(self._reports)  # pyright: ignore[reportPrivateUsage]
        self._handle.update(self._page())

    def close(self) -> None:
        """Show how many samples there were in the end."""
        self._handle.update(self._page())

    def _page(self) -> Any:
        of = "" if self._total is None else f" of {self._total:,}"
        line = f"{self._title}: {self._samples:,}{of} samples made by this run. {self._leader}".rstrip()
        return self._display.HTML(f"<p>{html.escape(line)}</p>{self._shown}")


def chart(reports: list[Report], max_rows: int = 12) -> str:
    """The scores of the best generators, at most so many, over the samples, with bands for their intervals, as SVG.

    "" without matplotlib, and before two reports have scores.
    """
    if find_spec("matplotlib") is None:
        return ""
    newest = reports[-1]
    names = [row.generator for row in newest.in_order if row.score is not None][:max_rows]
    if not names or sum(any(row.score is not None for row in report.standings) for report in reports) < 2:
        return ""
    figure = import_module("matplotlib.figure").Figure(figsize=(7.0, 3.2), layout="constrained")
    axes = figure.subplots()
    for index, name in enumerate(names):
        standings = [(report.samples, row) for report in reports for row in report.standings if row.generator == name]
        scored = [(samples, row) for samples, row in standings if row.score is not None]
        axes.plot([samples for samples, _ in scored], [row.score for _, row in scored], color=f"C{index}", label=name)
        bands = [(at, row.lower, row.upper) for at, row in scored if None not in (row.lower, row.upper)]
        if bands:
            axes.fill_between(*zip(*bands, strict=True), color=f"C{index}", alpha=0.15, linewidth=0)
    # Early intervals are so wide that nothing else could be read.
    ends = [end for row in newest.in_order[: len(names)] for end in (row.lower, row.upper) if end is not None]
    if ends and max(ends) > min(ends):
        room = 0.5 * (max(ends) - min(ends))
        axes.set_ylim(min(ends) - room, max(ends) + room)
    axes.set_xlabel("samples of all generators")
    axes.set_ylabel(f"{newest.title} ({'lower' if newest.lower_is_better else 'higher'} is better)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    drawn = StringIO()
    figure.savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
