"""A report as people read it in a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from optimist_client import Report
from optimist_client.models import Standing


def standings(report: Report) -> Table:
    """The generators, best first, as a table."""
    table = Table(title=f"{report.experiment}: {report.samples:,} samples, {report.state}", title_justify="left")
    table.add_column("generator")
    for column in (report.metric.upper(), "± error", "samples", "pick ratio"):
        table.add_column(column, justify="right")
    sign = 1 if report.lower_is_better else -1

    def place(row: Standing) -> float:
        return float("inf") if row.score is None else sign * row.score

    for row in sorted(report.standings, key=place):
        score = "…" if row.score is None else f"{row.score:.3f}"
        error = "…" if row.error is None else f"{row.error:.3f}"
        style = "bold green" if row.generator == report.decision.best else ""
        table.add_row(row.generator, score, error, f"{row.samples:,}", f"{row.pick_ratio:.1%}", style=style)
    return table


def headline(report: Report) -> Text:
    """The answer so far in a sentence."""
    decision = report.decision
    if decision.best is None or decision.confidence is None:
        return Text(decision.reason)
    return Text(f"{decision.best} leads with {decision.confidence:.1%} confidence: {decision.reason}")


def summary(report: Report) -> Group:
    """The final standings, the winner with its interval, and what uniform sampling would have spent."""
    winner = next((row for row in report.standings if row.generator == report.decision.best), None)
    if winner is None or winner.score is None:
        return Group(standings(report), Text("No winner: not every generator has an estimate."))
    interval = ""
    if winner.lower is not None and winner.upper is not None:
        interval = f" (interval {winner.lower:.3f} to {winner.upper:.3f})"
    verdict = "is best" if report.decision.decided else "leads, undecided at the budget,"
    confidence = "" if report.decision.confidence is None else f" with {report.decision.confidence:.1%} confidence"
    lines = [
        f"{winner.generator} {verdict}{confidence} after {report.samples:,} samples: "
        f"{report.metric.upper()} {winner.score:.3f}{interval}."
    ]
    if report.uniform_samples is not None:
        ratio = report.uniform_samples / report.samples
        lines.append(f"Uniform sampling would have spent about {report.uniform_samples:,} samples ({ratio:.1f} times).")
    return Group(standings(report), *(Text(line) for line in lines))
