"""A simulation's result as people and programs read it: text, HTML, JSON, CSV."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from optimist.simulation.result import Result, Summary

_NATURAL = {"fid": "FID", "is": "IS", "rke": "RKE", "vendi": "Vendi"}
CURVES = ("regret", "average_regret", "optimal_pick_ratio", "accuracy")


def shown(metric: str) -> str:
    """The metric's name as people write it."""
    return _NATURAL.get(metric, metric.title())


def rendered(result: Result) -> Group:
    """The result for a terminal."""
    table = Table(title=title(result), title_justify="left")
    headers = _headers(result)
    table.add_column(headers[0], overflow="fold")
    for header in headers[1:]:
        table.add_column(header, justify="right")
    for summary in result.summaries:
        table.add_row(*map(Text, _cells(result, summary)))
    return Group(table, *(Text(line) for line in notes(result)))


def text(result: Result) -> str:
    """The result as plain text, as wide as it needs."""
    out = StringIO()
    Console(file=out, width=200, color_system=None).print(rendered(result), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def html(result: Result) -> str:
    """The result for a notebook."""
    head = "".join(f"<th>{escape(header)}</th>" for header in _headers(result))
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(result, summary)) + "</tr>"
        for summary in result.summaries
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes(result))
    caption = f"<caption>{escape(title(result))}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def to_json(result: Result) -> str:
    """A list of one object a policy."""
    common = {
        "metric": result.metric,
        "rounds": result.rounds,
        "batch_size": result.batch_size,
        "seed": result.seed,
        "best": list(result.best),
        "truth": {name: known.score for name, known in result.truth.items()},
        "truth_origin": {name: known.origin for name, known in result.truth.items()},
    }
    return json.dumps([asdict(summary) | common for summary in result.summaries], indent=2, allow_nan=False)


def write_csv(result: Result, path: Path) -> None:
    """One row a policy and round: mean and standard error of every curve."""
    columns = [column for curve in CURVES for column in (curve, f"{curve}_se")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "round", "samples", "trials", *columns])
        writer.writerows(_rows(result))


def title(result: Result) -> str:
    """What was simulated."""
    played = f"{result.trials} trial{'s' * (result.trials > 1)} of {result.rounds:,} batches of {result.batch_size}"
    return f"{shown(result.metric)} of {len(result.generators)} generators, {played}, seed {result.seed}"


def notes(result: Result) -> Iterator[str]:
    """What a reader of the numbers must know."""
    best = " and ".join(f"{name} ({result.truth[name].score:.4g})" for name in result.best)
    origins = Counter(known.origin for known in result.truth.values())
    truth = ", ".join(origin if len(origins) == 1 else f"{origin} ({count})" for origin, count in origins.items())
    yield f"Best: {best}. Truth: {truth}. Mean ± standard error over trials."
    for summary in result.summaries:
        if summary.exhausted:
            names = sorted({name for name in result[summary.policy].exhausted if name is not None})
            yield (
                f"{summary.policy}: {summary.exhausted} of {summary.trials} trials ended early, the first after "
                f"{summary.first_exhausted:,} batches, as no samples were left of {', '.join(names)}."
            )


def _headers(result: Result) -> list[str]:
    headers = ["policy", "total regret", "average regret", "optimal pick ratio", "accuracy", "samples to 95 %"]
    return [*headers, "stopped", "samples to stop", "wrong stops"] if result.stop else headers


def _cells(result: Result, summary: Summary) -> list[str]:
    cells = [
        summary.policy,
        measured(summary.regret, summary.regret_se),
        measured(summary.average_regret, summary.average_regret_se),
        measured(summary.optimal_pick_ratio, summary.optimal_pick_ratio_se),
        measured(summary.accuracy, summary.accuracy_se),
        measured(summary.samples_to_95, summary.samples_to_95_se),
    ]
    if result.stop:
        cells += [
            f"{summary.decided} of {summary.trials}",
            measured(summary.stop_samples, summary.stop_samples_se),
            f"{summary.wrong_stops}",
        ]
    return cells


def measured(value: float | None, error: float | None) -> str:
    """A mean with its standard error, to the digits that the error leaves standing."""
    if value is None:
        return "—"
    if error is None or error <= 1e-9 * abs(value):  # what rounding leaves of none
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def _rows(result: Result) -> Iterator[list[object]]:
    for policy, run in result.runs.items():
        curves = [run.curve(name) for name in CURVES]
        for place, trials in enumerate(curves[0].trials.tolist()):
            if trials:
                ends = [number for curve in curves for number in (curve.mean[place], curve.error[place])]
                played = [policy, place + 1, (place + 1) * result.batch_size, trials]
                yield [*played, *(f"{number:.10g}" if math.isfinite(number) else "" for number in ends)]
