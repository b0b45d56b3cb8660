"""Formats the result of a simulation as text, HTML, JSON or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.layout import Page, Table

if TYPE_CHECKING:
    from optimist.simulation.judges.judge import ReportColumn
    from optimist.simulation.result import SimulationResult

TextRows = list[list[str]]
"""The rows of a table, the first one its headers."""


def shown(result: SimulationResult) -> Page:
    """The title, tables and notes of a result."""
    parts = [part for rows in tables(result) for part in ("", Table(rows[0], rows[1:]))]
    return Page([title(result), *parts, "", *notes(result)])


def as_html(result: SimulationResult) -> str:
    """The title, tables and notes as HTML for a notebook."""
    shown = "".join(f"<table>{''.join(map(_html_row, table))}</table>" for table in tables(result))
    below = "".join(f"<p>{escape(note)}</p>" for note in notes(result))
    return f"<p><b>{escape(title(result))}</b></p>{shown}{below}"


def to_json(result: SimulationResult) -> str:
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
        by_policy = {summary["policy"]: summary for summary in other.summaries}
        common.setdefault("watched", {})[label] = {**other.judge.document(), "policies": by_policy}
    rows = [{**summary, "shares": shares(result, summary["policy"]), **common} for summary in result.summaries]
    return json.dumps(rows, indent=2, allow_nan=False)


def shares(result: SimulationResult, policy: str) -> dict[str, float]:
    """The part of all samples of a policy that each generator made."""
    drawn = result[policy].samples.sum(axis=0)
    return dict(zip(result.generators, (drawn / max(drawn.sum(), 1)).tolist(), strict=True))


def write_csv(result: SimulationResult, path: Path) -> None:
    """Write one row per policy and known round: mean and standard error of every curve."""
    names = list(next(iter(result.runs.values())).curves)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = [column for name in names for column in (name, f"{name}_se")]
        writer.writerow(["policy", "round", "samples", "trials", *columns])
        for policy, run in result.runs.items():
            curves = [run.curve(name) for name in names]
            for i, mark in enumerate(run.marks.tolist()):
                if trials := int(curves[0].trials[i]):
                    ends = [number for curve in curves for number in (curve.mean[i], curve.error[i])]
                    cells = (f"{number:.10g}" if math.isfinite(number) else "" for number in ends)
                    writer.writerow([policy, mark, mark * run.batch_size, trials, *cells])


def write_picks(result: SimulationResult, path: Path) -> None:
    """Write one row per policy, trial and round: the picked generator, and the generator then named best, if any."""
    names = [*result.generators, ""]  # the last name is for the index −1
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        for number, (policy, run) in enumerate(result.runs.items()):
            told = [run.picks, *([run["named"]] if "named" in run.arrays else [])]
            if not number:
                writer.writerow(["policy", "trial", "round", "generator", "named"][: 3 + len(told)])
            for trial, length in enumerate(run.lengths.tolist()):
                for i in range(length):
                    writer.writerow([policy, trial, i + 1, *(names[ordinals[trial, i]] for ordinals in told)])


def title(result: SimulationResult) -> str:
    """A title: subject, trials, batches and seed."""
    plan = result.plan
    played = f"{plan.trials} trial{'s' * (plan.trials > 1)} of {plan.rounds:,} batches of {plan.batch_size}"
    return f"{result.judge.subject}, {played}, seed {plan.seed}"


def notes(result: SimulationResult) -> Iterator[str]:
    """Notes on the numbers: the truth, and trials that ended early because a generator ran out of samples."""
    yield from result.judge.notes()
    for summary in result.summaries:
        if summary["exhausted"]:
            names = sorted({name for name in result[summary["policy"]].exhausted if name is not None})
            yield (
                f"{summary['policy']}: {summary['exhausted']} of {summary['trials']} trials ended early, the first "
                f"after {summary['first_exhausted']:,} batches, because no samples of {', '.join(names)} were left."
            )


def tables(result: SimulationResult) -> Iterator[TextRows]:
    """Each policy's cost, also by further metrics; the generators' shares; with stopping, the stops."""
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
                    summary["policy"],
                    f"{summary['decided']} of {summary['trials']}",
                    measured(summary["stop_samples"], summary["stop_samples_se"]),
                    f"{summary['wrong_stops']}",
                ]
                for summary in result.summaries
            ),
        ]


def _costs(result: SimulationResult, heading: str) -> TextRows:
    columns = [column for column in result.judge.columns if column.number in result.summaries[0]]
    return [
        [heading, *(column.header for column in columns)],
        *([summary["policy"], *(_cell(summary, column) for column in columns)] for summary in result.summaries),
    ]


def _cell(summary: dict[str, Any], column: ReportColumn) -> str:
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


def _html_row(cells: list[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
