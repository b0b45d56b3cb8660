"""Shows a report as text, as HTML, as a data frame or as a plot."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError, NotFoundError
from optimist_client.goals import UNLIKE
from optimist_client.installed import need
from optimist_client.layout import Page, Table
from optimist_client.models.standings import Standing, row_warnings

if TYPE_CHECKING:
    from optimist_client.models.basis import Basis
    from optimist_client.models.reports import Report
    from optimist_client.models.watched import WatchedReport

BY_METRIC = "By metric (↓ lower is better, ↑ higher is better; * the best by each)"
"""The title of the table of generators and metrics."""
_BOLD = ' style="font-weight: bold"'
MAX_LISTED = 12
"""Generators in a table that is updated; the last ones are left out."""
_STYLE = Path(__file__).with_name("page.css")


def as_text(report: Report) -> Page:
    """Title, standings and answer as text."""
    parts = [standings(report), *report.sentences, *as_lines(report.basis), *_batches(report)]
    if report.watched:
        parts += ["", _by_metric(report), *_watched_warnings(report)]
    return Page(parts)


def as_html(report: Report) -> str:
    """Title, standings, answer and warnings as HTML tables for notebooks, with the best generator in bold."""
    tables = as_table(standings(report))
    if report.watched:
        tables += as_table(_by_metric(report))
    notes = [*report.sentences, *as_lines(report.basis), *_batches(report), *_watched_warnings(report)]
    return tables + as_notes([*notes, *([report.how] if report.how else [])])


def as_page(title: str, body: str) -> str:
    """A whole page of HTML that needs no other file. title: plain text, which is the heading, too."""
    shown = html.escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{shown}</title>'
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE.read_text(encoding="utf-8")}</style></head>'
        f"<body><h1>{shown}</h1>{body}</body></html>\n"
    )


def as_lines(basis: Basis | None) -> list[str]:
    """The line that says what an answer rests on; none before the first sample, and for an answer of a service."""
    return [basis.text] if basis is not None and any(basis.rows.values()) else []


def as_frame(report: Report | WatchedReport, watched: Mapping[str, WatchedReport] | None = None) -> Any:
    """The standings as a pandas DataFrame with one row per generator, best first. Raises ModuleNotFoundError.

    If the report has contrasts, `difference`, `difference_lower`, `difference_upper`, `correlation` and `common` come
    first: how much worse than the best it is on the scale on which scores are compared, the interval of that, and what
    it rests on. The best has none.
    watched: metrics by label whose scores, errors and intervals follow as columns.
    """
    pandas = need("pandas", "notebook")
    contrasts = {contrast.generator: contrast for contrast in report.contrasts}
    names = {"difference": "difference", "difference_lower": "lower", "difference_upper": "upper"}
    names |= {"correlation": "correlation", "common": "common"}
    rows = [
        {"generator": row.generator}
        | {column: getattr(contrasts.get(row.generator), name, None) for column, name in names.items() if contrasts}
        | row.model_dump(exclude={"warnings", "change", "generator"})
        for row in report.in_order
    ]
    frame = pandas.DataFrame(rows).set_index("generator")
    for label, metric in (watched or {}).items():
        by_name = {row.generator: row for row in metric.standings}
        for column in ("score", "standard_error", "lower", "upper"):
            frame[f"{label}:{column}"] = [getattr(by_name[name], column) for name in frame.index]
    return frame


def as_plot(report: Report, axes: Any = None, metric: str | None = None) -> Any:
    """Plot the scores and intervals, best on top, on matplotlib axes (None: new ones).

    metric: the label of a watched metric, whose scores are plotted instead. If there are contrasts, a dark line shows
    the interval of each difference, drawn from the best one's score. Raises ModuleNotFoundError, and FixError for a
    router.
    """
    if report.asks.has_contexts:
        raise FixError(f"{UNLIKE} Plot that: `experiment.route_table().plot()`")
    is_own = axes is None
    axes = need("matplotlib.pyplot", "notebook").subplots(layout="constrained")[1] if is_own else axes
    if metric is not None and metric not in report.watched:
        expected = f"expected one of {', '.join(report.watched)}" if report.watched else "no other metric is watched"
        raise NotFoundError(f"unknown metric {metric!r}; {expected}")
    shown = report if metric is None else report.watched[metric]
    best = report.decision.best if metric is None else report.watched[metric].best
    rows = shown.in_order
    contrasts = _drawn_contrasts(shown)
    wide = {"linewidth": 9, "alpha": 0.3, "solid_capstyle": "butt"} if contrasts else {"linewidth": 2}
    thin = {"color": "0.15", "linewidth": 1.5, "markersize": 8, "markeredgewidth": 1.5}
    legend: dict[str, Any] = {}
    for index, row in enumerate(rows):
        color = "C2" if row.generator == best else "C0"
        if row.lower is not None and row.upper is not None:
            legend["interval of the score"] = axes.plot([row.lower, row.upper], [index] * 2, color=color, **wide)[0]
        if row.score is not None:
            axes.plot([row.score], [index], "o", color=color)
        if row.generator in contrasts:
            line = axes.plot(contrasts[row.generator], [index] * 2, "|-", **thin)[0]
            legend["interval of the difference from the best, counted from the best score (dotted)"] = line
    axes.set_yticks(range(len(rows)), [f"{row.generator} ({row.samples:,})" for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{shown.title} ({'lower' if shown.lower_is_better else 'higher'} is better)")
    name, _, rest = _title(report).partition(": ")
    axes.set_title(f"{name}\n{rest}", fontsize="medium")
    if contrasts:
        axes.margins(y=0.12)
        axes.axvline(rows[0].score, color="C2", linewidth=1, linestyle=":", zorder=0)
        location, draw = ("outside lower center", axes.figure.legend) if is_own else ("best", axes.legend)
        draw(legend.values(), legend, loc=location, frameon=False, fontsize="small", borderaxespad=0.8)
    if is_own:
        # So large that neither the labels nor the title are cut off; in inches.
        widest = max((label.get_window_extent().width for label in axes.get_yticklabels()), default=0.0)
        height = 1.5 + 0.35 * max(len(rows), 3) + (0.5 if contrasts else 0.0)
        axes.figure.set_size_inches(7.0 + widest / axes.figure.dpi, height)
    return axes


def _drawn_contrasts(report: Report | WatchedReport) -> dict[str, list[float]]:
    """The ends of the interval of each difference on the axis of the scores, counted from the best one's score."""
    best = next((row.score for row in report.standings if row.generator == report.leader), None)
    if best is None:
        return {}
    sign = 1.0 if report.lower_is_better else -1.0
    drawn: dict[str, list[float]] = {}
    for contrast in report.contrasts:
        if contrast.lower is not None and contrast.upper is not None:
            ends = [sign * contrast.lower, sign * contrast.upper]
            drawn[contrast.generator] = [
                best * math.exp(min(end, 700.0)) if contrast.scale == "log" else best + end for end in ends
            ]
    return drawn


def standings(report: Report, max_rows: int | None = None) -> Table:
    """The generators, best first, at most so many; differences from the best, weights and costs if there are any."""
    rows = report.in_order[:max_rows]
    columns = {"generator": [row.generator for row in rows]}
    if apart := report.worse_by:
        columns["worse by"] = [apart[row.generator] for row in rows]
    mixture = report.mixture
    if mixture is not None and (report.decision.weights or not mixture.is_one_alone):
        weights = {share.generator: f"{share.weight:.1%}" for share in mixture.weights}
        columns["weight"] = [weights.get(row.generator, "") for row in rows]
    # Where each pick is for a prompt, a generator's mean is over prompts of its own: such means cannot be compared.
    if not report.asks.has_contexts:
        columns["score"], columns["interval"] = map(list, zip(*Standing.columns(rows), strict=True))
    columns["samples"] = [f"{row.samples:,}" for row in rows]
    columns["share"] = [report.share_text(row) for row in rows]
    if any(row.bracket is not None for row in rows):
        columns["bracket"] = ["" if row.bracket is None else "{:.3f} … {:.3f}".format(*row.bracket) for row in rows]
    if report.cost is not None:
        columns["cost"] = ["" if row.cost is None else f"{row.cost:,g}" for row in rows]
    return Table(
        [*columns],
        [*zip(*columns.values(), strict=True)],
        title=_title(report),
        first_to_go=("share", "bracket", "interval", "samples", "cost"),
        strong=[index for index, row in enumerate(rows) if row.generator == report.decision.best],
    )


def _by_metric(report: Report) -> Table:
    """The table of generators and metrics: scores with their intervals."""
    names = [row.generator for row in report.in_order]
    columns = [["generator", *names]]
    watched = [(metric, metric.best, "") for metric in report.watched.values()]
    for shown, best, more in [(report, report.leader, ", decides"), *watched]:
        rows = dict(zip((row.generator for row in shown.standings), Standing.columns(shown.standings), strict=True))
        title = f"{shown.title} {'↓' if shown.lower_is_better else '↑'}{more}"
        columns.append([title, *(_with_interval(*rows[name], name == best) for name in names)])
    head, *rows = zip(*columns, strict=True)
    strong = [index for index, name in enumerate(names) if name == report.decision.best]
    return Table(head, rows, title=BY_METRIC, strong=strong)


def _watched_warnings(report: Report) -> list[str]:
    return [f"{metric.title}: {text}." for metric in report.watched.values() for text in row_warnings(metric.standings)]


def _with_interval(score: str, interval: str, is_best: bool) -> str:
    return "…  " if score == "…" else f"{score} ({interval}) {'*' if is_best else ' '}"


def as_table(table: Table) -> str:
    """An HTML table with its title, with the strong rows in bold and the column of sentences broken into lines."""
    opened = ['<td class="said">' if column == table.sentences else "<td>" for column in table.head]
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.head)
    body = "".join(
        f"<tr{_BOLD if index in table.strong else ''}>"
        + "".join(f"{start}{html.escape(cell)}</td>" for start, cell in zip(opened, row, strict=True))
        + "</tr>"
        for index, row in enumerate(table.rows)
    )
    title = html.escape(table.title)
    return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_notes(lines: Sequence[str]) -> str:
    """Lines as HTML paragraphs."""
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _batches(report: Report, newest: int = 5) -> list[str]:
    """One line about the anomalous batches that count, and one for each of the newest retractions and acceptances."""
    lines: list[str] = []
    if anomalous := sum(not anomaly.retracted for anomaly in report.anomalies):
        batches = "1 anomalous batch counts" if anomalous == 1 else f"{anomalous:,} anomalous batches count"
        lines.append(f"{batches}: see `anomalies`, `retract` and `accept`.")
    if earlier := len(report.retractions[:-newest]):
        lines.append(f"Retracted: {earlier:,} earlier.")
    for row in report.retractions[-newest:]:
        pick = "" if row.pick is None else f"pick {row.pick:,}, "
        reason = row.reason or "no reason given"
        lines.append(f"Retracted: {row.which} of {row.generator} ({pick}{row.samples:,} samples): {reason}.")
    for row in report.acceptances[-newest:]:
        which = f"all batches up to {row.until:,}" if row.position is None else f"batch {row.position:,}"
        lines.append(f"Accepted: {which} of {row.generator}: {row.reason or 'no reason given'}.")
    return lines


def _title(report: Report) -> str:
    limit = "" if report.max_cost is None else f" of {report.max_cost:,g}"
    cost = "" if report.cost is None else f", cost {report.cost:,g}{limit}"
    if report.decision_cost is not None and report.decision_cost != report.cost:
        cost += f" ({report.decision_cost:,g} at the decision)"
    return f"{report.experiment}: {report.title}, {report.samples:,} samples{cost}, {report.state_text}"
