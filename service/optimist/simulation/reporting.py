"""Formats the result of a simulation as text, HTML, JSON or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from optimist.simulation.judges.judge import Column
    from optimist.simulation.result import Result
    from optimist_client.models import Report

WIDE = 200
"""Width in columns of text that is not written to a terminal."""
GAP = 2
"""Columns of text between two columns of a table."""
Rows = list[list[str]]
"""The rows of a table, the first one its headers."""


@dataclass(frozen=True)
class Shown:
    """The tables and notes of a result for a terminal, as wide as it is."""

    result: Result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(title(self.result))
        for rows in tables(self.result):
            yield from as_tables(rows, options.max_width)
        for note in notes(self.result):
            yield Text(note)


def plain(shown: Shown, width: int | None = None) -> str:
    """The text of a report without colours, up to `width` columns, by default `WIDE`."""
    out = StringIO()
    Console(file=out, width=width or WIDE, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def as_html(result: Result) -> str:
    """The title, tables and notes as HTML for a notebook."""
    shown = "".join(f"<table>{''.join(map(_html_row, table))}</table>" for table in tables(result))
    below = "".join(f"<p>{escape(note)}</p>" for note in notes(result))
    return f"<p><b>{escape(title(result))}</b></p>{shown}{below}"


def to_json(result: Result) -> str:
    """The result as a JSON list with one object per policy."""
    judge, plan = result.judge, result.plan
    common: dict[str, Any] = {
        "goal": judge.goal,
        "rounds": plan.rounds,
        "batch_size": plan.batch_size,
        "seed": plan.seed,
        "paired": bool(plan.paired),
        **judge.document(),
    }
    for label, other in result.watched.items():
        by_policy = {one["policy"]: one for one in other.summaries}
        common.setdefault("watched", {})[label] = {**other.judge.document(), "policies": by_policy}
    rows = [{**summary, "shares": shares(result, summary["policy"]), **common} for summary in result.summaries]
    return json.dumps(rows, indent=2, allow_nan=False)


def shares(result: Result, policy: str) -> dict[str, float]:
    """The part of all samples of a policy that each generator made."""
    drawn = result[policy].samples.sum(axis=0)
    return dict(zip(result.generators, (drawn / max(drawn.sum(), 1)).tolist(), strict=True))


def write_csv(result: Result, path: Path) -> None:
    """Write one row per policy and known round: mean and standard error of every curve."""
    names = list(next(iter(result.runs.values())).curves)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = [column for name in names for column in (name, f"{name}_se")]
        writer.writerow(["policy", "round", "samples", "trials", *columns])
        for policy, run in result.runs.items():
            curves = [run.curve(name) for name in names]
            for place, mark in enumerate(run.marks.tolist()):
                if trials := int(curves[0].trials[place]):
                    ends = [number for curve in curves for number in (curve.mean[place], curve.error[place])]
                    cells = (f"{number:.10g}" if math.isfinite(number) else "" for number in ends)
                    writer.writerow([policy, mark, mark * run.batch_size, trials, *cells])


def write_picks(result: Result, path: Path) -> None:
    """Write one row per policy, trial and round: the picked generator, and the one then named best, where one is."""
    names = [*result.generators, ""]  # the last name is for the index −1
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        for number, (policy, run) in enumerate(result.runs.items()):
            told = [run.picks, *([run["named"]] if "named" in run.arrays else [])]
            if not number:
                writer.writerow(["policy", "trial", "round", "generator", "named"][: 3 + len(told)])
            for trial, length in enumerate(run.lengths.tolist()):
                for place in range(length):
                    writer.writerow([policy, trial, place + 1, *(names[each[trial, place]] for each in told)])


def title(result: Result) -> str:
    """A title: what is compared, trials, batches and seed."""
    plan = result.plan
    played = f"{plan.trials} trial{'s' * (plan.trials > 1)} of {plan.rounds:,} batches of {plan.batch_size}"
    return f"{result.judge.subject}, {played}, seed {plan.seed}"


def notes(result: Result) -> Iterator[str]:
    """Notes on the numbers: the truth, and trials that ended early because a generator ran out of samples."""
    yield from result.judge.notes()
    for summary in result.summaries:
        if summary["exhausted"]:
            names = sorted({name for name in result[summary["policy"]].exhausted if name is not None})
            yield (
                f"{summary['policy']}: {summary['exhausted']} of {summary['trials']} trials ended early, the first "
                f"after {summary['first_exhausted']:,} batches, because no samples of {', '.join(names)} were left."
            )


def tables(result: Result) -> Iterator[Rows]:
    """What each policy costs, by further metrics, too; the shares of the generators; with stopping, the stops."""
    yield _costs(result, "policy")
    for label, other in result.watched.items():
        yield _costs(other, f"by {label}")
    if result.judge.shows_shares:
        drawn = {policy: shares(result, policy) for policy in result.policies}
        if result.judge.best_shares:
            drawn["best shares"] = result.judge.best_shares
        parts = ([policy, *(f"{share:.2f}" for share in own.values())] for policy, own in drawn.items())
        yield [["samples drawn", *result.generators], *parts]
    if result.plan.stop:
        yield [
            ["policy", "stopped", "samples to stop", "wrong stops"],
            *(
                [
                    one["policy"],
                    f"{one['decided']} of {one['trials']}",
                    measured(one["stop_samples"], one["stop_samples_se"]),
                    f"{one['wrong_stops']}",
                ]
                for one in result.summaries
            ),
        ]


def _costs(result: Result, heading: str) -> Rows:
    columns = [column for column in result.judge.columns if column.number in result.summaries[0]]
    return [
        [heading, *(column.header for column in columns)],
        *([one["policy"], *(_cell(one, column) for column in columns)] for one in result.summaries),
    ]


def _cell(summary: dict[str, Any], column: Column) -> str:
    value, error = summary[column.number], summary.get(f"{column.number}_se")
    if not column.is_percent or value is None:
        return measured(value, error)
    return f"{measured(100.0 * value, None if error is None else 100.0 * error)} %"


def measured(value: float | None, error: float | None) -> str:
    """A mean with its standard error, rounded to the error's significant digits."""
    if value is None:
        return "—"
    if max(abs(value), error or 0.0) < 1e-12:
        return "0"
    if error is None or error <= 1e-9 * abs(value):  # zero up to rounding
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def as_tables(rows: Rows, width: int) -> Iterator[Table]:
    """Tables that are at most so wide, each with the first column and as many of the others as there is room for."""
    head, *body = rows

    def room(column: int) -> int:
        words = head[column].split() + [row[column] for row in body]
        return max(map(cell_len, words)) + GAP

    first = min(room(0), max(width // 4, len(max(head[0].split(), key=len)) + GAP))
    parts, left = [list[int]()], width - first
    for column in range(1, len(head)):
        if parts[-1] and room(column) > left:
            parts.append([])
            left = width - first
        parts[-1].append(column)
        left -= room(column)
    for part in parts:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column(head[0], overflow="fold", max_width=width - sum(map(room, part)) - GAP)
        for column in part:
            table.add_column(head[column], justify="right", overflow="fold", min_width=room(column) - GAP)
        for row in body:
            table.add_row(*(Text(row[column]) for column in (0, *part)))
        yield table


MOST = 12
"""Generators in a live table of standings; the last ones are left out."""


def standings(report: Report, most: int | None = None) -> Table:
    """A table of the generators, best first, at most so many."""
    table = Table(title=f"{report.experiment}: {report.samples:,} samples, {report.state_text}", title_justify="left")
    table.add_column("generator", overflow="fold")
    differences = report.worse_by
    # Broken where a line may end, so that the table is narrow; nothing is cut off in a narrower terminal.
    heads = (["worse than\nthe best by"] if differences else []) + [report.title, "interval", "samples", "share"]
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    for row in report.in_order[:most]:
        apart = [differences[row.generator]] if differences else []
        style = "bold green" if row.generator == report.decision.best else ""
        shown = row.score_text, row.interval_text, f"{row.samples:,}", report.share_text(row)
        table.add_row(Text(row.generator), *apart, *shown, style=style)
    return table


def _html_row(cells: list[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
