"""Formats a report for a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from optimist_client import Report


def standings(report: Report) -> Table:
    """A table of the generators, best first."""
    table = Table(title=f"{report.experiment}: {report.samples:,} samples, {report.state}", title_justify="left")
    table.add_column("generator", overflow="fold")
    behind = report.behind
    # Broken where a line may end, so that the table is narrow; nothing is cut off in a narrower terminal.
    heads = (["behind\nthe best"] if behind else []) + [report.metric.upper(), "± error", "samples", "pick\nratio"]
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    for row in report.ranking:
        score = "…" if row.score is None else f"{row.score:.3f}"
        error = "…" if row.error is None else f"{row.error:.3f}"
        apart = [behind[row.generator]] if behind else []
        style = "bold green" if row.generator == report.decision.best else ""
        table.add_row(row.generator, *apart, score, error, f"{row.samples:,}", f"{row.pick_ratio:.1%}", style=style)
    return table


def headline(report: Report) -> Text:
    """The current answer in one sentence."""
    decision = report.decision
    if decision.best is None:
        return Text(report.why)
    sure = f" with {decision.confidence_text} confidence" if decision.confidence_text else ""
    return Text(f"{decision.best} leads{sure}. {report.why}")


def summary(report: Report) -> Group:
    """The final standings, the winner with its interval, and what uniform sampling would have spent."""
    return Group(standings(report), *map(Text, report.sentences))
