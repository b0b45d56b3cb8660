"""Formats the result of a simulation as text, HTML, JSON or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from optimist_client.metrics import find

if TYPE_CHECKING:
    from optimist.simulation.mixture_run import MixtureSummary
    from optimist.simulation.result import Result
    from optimist.simulation.run import Summary

    Ended = Summary | MixtureSummary

WIDE = 200
"""Width in columns of text that is not written to a terminal."""
CURVES = ("regret", "average_regret", "optimal_pick_ratio", "accuracy")


def format_metric(metric: str) -> str:
    """The title of a metric, by its name."""
    return find(metric).title


def rendered(result: Result) -> Group:
    """The result for a terminal."""
    return group(title(result), _tables(result), notes(result))


def text(result: Result) -> str:
    """The result as plain text, up to `WIDE` columns."""
    return plain(rendered(result))


def html(result: Result) -> str:
    """The result for a notebook."""
    return as_html(title(result), _tables(result), notes(result))


def group(title: str, tables: Iterable[list[list[str]]], notes: Iterable[str]) -> Group:
    """Tables for a terminal, with a title above and notes below."""
    made = [as_table(table) for table in tables]
    made[0].title = title
    return Group(*made, *map(Text, notes))


def plain(shown: Group) -> str:
    """The text of a rich group without colours, up to `WIDE` columns."""
    out = StringIO()
    Console(file=out, width=WIDE, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def as_html(title: str, tables: Iterable[list[list[str]]], notes: Iterable[str]) -> str:
    """The title, tables and notes as HTML for a notebook."""
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    shown = "".join(f"<table>{''.join(map(html_row, table))}</table>" for table in tables)
    return f"<p><b>{escape(title)}</b></p>{shown}{below}"


def to_json(result: Result) -> str:
    """The result as a JSON list with one object per policy."""
    common: dict[str, Any] = {
        "metric": result.metric,
        "rounds": result.rounds,
        "batch_size": result.batch_size,
        "seed": result.seed,
        "paired": result.paired,
        "best": list(result.best),
        "truth": {name: known.score for name, known in result.truth.items()},
        "truth_origin": {name: known.origin for name, known in result.truth.items()},
    }
    for label, one in result.watched.items():
        common.setdefault("watched", {})[label] = {
            "best": list(one.best),
            "truth": {name: known.score for name, known in one.truth.items()},
            "policies": {policy: asdict(run.summary(policy)) for policy, run in one.runs.items()},
        }
    return json.dumps([asdict(summary) | common for summary in result.summaries], indent=2, allow_nan=False)


def write_csv(result: Result, path: Path) -> None:
    """Write one row per policy and round: mean and standard error of every curve."""
    columns = [column for curve in CURVES for column in (curve, f"{curve}_se")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "round", "samples", "trials", *columns])
        writer.writerows(_rows(result))


def write_picks(result: Result, path: Path) -> None:
    """Write one row per policy, trial and round: the picked generator, and the one then named best, if any."""
    names = [*result.generators, ""]  # the last name is for the index −1
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "trial", "round", "generator", "named"])
        for policy, run in result.runs.items():
            for trial, length in enumerate(run.lengths.tolist()):
                pairs = zip(run.picks[trial, :length].tolist(), run.named[trial, :length].tolist(), strict=True)
                writer.writerows(
                    [policy, trial, place, names[pick], names[named]] for place, (pick, named) in enumerate(pairs, 1)
                )


def title(result: Result) -> str:
    """A title: metric, generators, trials, batches, seed, and whether samples were paired."""
    played = f"{result.trials} trial{'s' * (result.trials > 1)} of {result.rounds:,} batches of {result.batch_size}"
    return f"{subject(result)}, {played}, seed {result.seed}"


def subject(result: Result) -> str:
    """A text that names metric and number of generators, and says whether samples were paired."""
    return f"{format_metric(result.metric)} of {len(result.generators)} generators{', paired' * result.paired}"


def notes(result: Result) -> Iterator[str]:
    """Notes on the numbers: the best generators, the origin of the true scores, and trials that ended early."""
    best = " and ".join(f"{name} ({result.truth[name].score:.4g})" for name in result.best)
    origins = Counter(known.origin for known in result.truth.values())
    truth = ", ".join(origin if len(origins) == 1 else f"{origin} ({count})" for origin, count in origins.items())
    yield f"Best: {best}. Truth: {truth}. Mean ± standard error over trials."
    for label, one in result.watched.items():
        yield f"Best by {label}: {' and '.join(f'{name} ({one.truth[name].score:.4g})' for name in one.best)}."
    if result.paired:
        yield "Paired: sample i of every generator had the same seed or prompt, and scores were compared by sample."
    for summary in result.summaries:
        yield from ended_early(summary, result[summary.policy].exhausted)


def ended_early(summary: Ended, exhausted: Iterable[str | None]) -> Iterator[str]:
    """A note on the trials of a policy that ended because a generator ran out of samples, if there are any."""
    if summary.exhausted:
        names = sorted({name for name in exhausted if name is not None})
        yield (
            f"{summary.policy}: {summary.exhausted} of {summary.trials} trials ended early, the first after "
            f"{summary.first_exhausted:,} batches, because no samples of {', '.join(names)} were left."
        )


def _tables(result: Result) -> Iterator[list[list[str]]]:
    """Tables as rows of cells with headers: regret and accuracy of every policy and, with stopping, its stops."""
    headers = ["policy", "total regret", "average regret", "optimal pick ratio", "accuracy", "samples to 95 %"]
    yield [headers, *map(_paid, result.summaries)]
    for label, one in result.watched.items():
        headers = ["policy", f"total regret by {label}", "average regret", "picks of its best", "names its best"]
        yield [headers, *(_paid(run.summary(policy))[:5] for policy, run in one.runs.items())]
    if result.stop:
        yield [["policy", "stopped", "samples to stop", "wrong stops"], *map(_stopped, result.summaries)]


def _paid(summary: Summary) -> list[str]:
    return [
        summary.policy,
        measured(summary.regret, summary.regret_se),
        measured(summary.average_regret, summary.average_regret_se),
        measured(summary.optimal_pick_ratio, summary.optimal_pick_ratio_se),
        measured(summary.accuracy, summary.accuracy_se),
        measured(summary.samples_to_95, summary.samples_to_95_se),
    ]


def _stopped(summary: Summary) -> list[str]:
    return [
        summary.policy,
        f"{summary.decided} of {summary.trials}",
        measured(summary.stop_samples, summary.stop_samples_se),
        f"{summary.wrong_stops}",
    ]


def as_table(rows: list[list[str]]) -> Table:
    """Rows of cells, the first one the headers, for a terminal."""
    table = Table(title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, header in enumerate(rows[0]):
        table.add_column(header, justify="right" if place else "left", overflow="fold")
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    return table


def html_row(cells: list[str]) -> str:
    """Cells as a row of a table in HTML."""
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def measured(value: float | None, error: float | None) -> str:
    """A mean with its standard error, rounded to the error's significant digits."""
    if value is None:
        return "—"
    if error is None or error <= 1e-9 * abs(value):  # zero up to rounding
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
