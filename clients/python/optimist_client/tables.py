"""The standings of a report as a table for a paper, a page or a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from optimist_client import display
from optimist_client.errors import FixError
from optimist_client.layout import Table
from optimist_client.models.standings import Standing

if TYPE_CHECKING:
    from optimist_client.models.reports import Report
    from optimist_client.models.watched import WatchedReport

Format = Literal["markdown", "latex", "csv", "html"]
Cells = list[tuple[str, ...]]
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
"""The commands for characters that LaTeX does not read as text."""


def as_table(report: Report, format: str, *, metrics: bool = False, ranks: bool = False) -> str:
    """The table of `Report.table`. Raises FixError for an unknown format, and where there are no ranks."""
    writers: dict[str, Callable[[Cells], str]] = {
        "markdown": markdown,
        "latex": _latex,
        "csv": _csv,
        "html": lambda cells: display.as_table(Table(cells[0], cells[1:], title=report.title)),
    }
    if format not in writers:
        raise FixError(f"format: expected one of {', '.join(get_args(Format))}; got {format!r}")
    shown: list[Report | WatchedReport] = [report, *(report.watched.values() if metrics else ())]
    if report.asks.has_contexts:  # such scores cannot be compared
        shown = []
    return writers[format](_columns(report, shown, exact=format == "csv", ranks=ranks))


def _columns(report: Report, shown: Sequence[Report | WatchedReport], *, exact: bool, ranks: bool) -> Cells:
    """The header and a row for each generator. exact: numbers as they are, and each end of an interval by itself."""
    names = [row.generator for row in report.in_order]
    columns = [["generator", *names]]
    if ranks:
        ranks_by_name = {rank.generator: rank for rank in report.ranking().ranks}
        chosen = [ranks_by_name.get(name) for name in names]  # paused ones without a score have none
        if exact:
            columns += [
                [f"{end} rank", *("" if rank is None else f"{getattr(rank, end)}" for rank in chosen)]
                for end in ("first", "last")
            ]
        else:
            columns.append(["rank", *("–" if rank is None else rank.text for rank in chosen)])
    for metric in shown:
        rows = {row.generator: row for row in metric.standings}
        chosen = [rows[name] for name in names]
        if exact:
            for what in ("score", "lower", "upper"):
                title = metric.title if what == "score" else f"{metric.title} {what}"
                columns.append([title, *(_exact(getattr(row, what)) for row in chosen)])
        else:
            texts = Standing.columns(chosen)
            columns.append([metric.title, *(score.replace("…", "–") for score, _ in texts)])
            columns.append(["interval", *(interval.replace("…", "–") for _, interval in texts)])
    counts = {row.generator: row.samples for row in report.standings}
    columns.append(["samples", *(f"{counts[name]}" if exact else f"{counts[name]:,}" for name in names)])
    return [*zip(*columns, strict=True)]


def _exact(number: float | None) -> str:
    return "" if number is None else repr(number)


def markdown(cells: Cells) -> str:
    """A table in Markdown, its first column aligned to the left and the others to the right."""
    escaped = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in cells]
    rule = ["---", *["---:"] * (len(cells[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [escaped[0], rule, *escaped[1:]])


def _latex(cells: Cells) -> str:
    return tabular([[in_latex(cell) for cell in line] for line in cells])


_READ = re.compile("|".join(map(re.escape, _LATEX)))


def in_latex(text: str) -> str:
    """A text as LaTeX shows it."""
    return _READ.sub(lambda match: _LATEX[match[0]], text)


def tabular(lines: Sequence[Sequence[str]]) -> str:
    """A table with booktabs. lines: cells in LaTeX, those of the head first."""
    head, *rows = [f"{' & '.join(line)} \\\\" for line in lines]
    begin = f"\\begin{{tabular}}{{l{'r' * (len(lines[0]) - 1)}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"])


def _csv(cells: Cells) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().rstrip("\n")
