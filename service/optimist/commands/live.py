"""Shows a comparison while it runs: live standings in a terminal, else a line whenever the samples have doubled."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from optimist_client.models import Report
from optimist_client.progress import Line

_MOST = 12
"""Generators in the live table; the last ones are left out."""


class Standings:
    """A display for `optimist.compare`. It is a context: the live table disappears with it."""

    def __init__(self, console: Console, what: str) -> None:
        """what: what the samples are, such as "images"."""
        self._console, self._what = console, what
        self._bars = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            console=console,
        )
        self._live = Live(Group(), console=console, transient=True, refresh_per_second=4)
        self._real = self._used = None
        self._line: Line | None = None

    def real(self, done: int, total: int) -> None:
        """So many real samples have been embedded."""
        if not self._console.is_terminal:
            if done == 0:
                self._console.print(f"compare: embedding {total:,} real {self._what}", highlight=False)
            return
        if self._real is None:
            self._real = self._bars.add_task(f"real {self._what}", total=total)
        self._bars.update(self._real, completed=done)
        self._live.update(self._bars)

    def report(self, report: Report, effort: str) -> None:
        """The standings now, and what they took."""
        if not self._console.is_terminal:
            self._line = self._line or Line("compare", report.budget)
            self._line.update(report.samples, report.decision)
            return
        if self._used is None:
            self._used = self._bars.add_task(f"{self._what} used", total=report.budget)
        self._bars.update(self._used, completed=report.samples)
        below = Text(f"{report.decision.leader}  {report.why}".strip())
        self._live.update(Group(self._bars, _table(report), below, Text(effort, "dim")))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("generator", overflow="fold")
    behind = report.behind
    for column in (*(["behind the best"] if behind else []), report.title, "± error", "samples"):
        table.add_column(column, justify="right")
    for row in report.ranking[:_MOST]:
        numbers = ("…" if number is None else f"{number:.3f}" for number in (row.score, row.error))
        apart = [behind[row.generator]] if behind else []
        style = "bold" if row.generator == report.decision.best else ""
        table.add_row(Text(row.generator), *apart, *numbers, f"{row.samples:,}", style=style)
    return table
