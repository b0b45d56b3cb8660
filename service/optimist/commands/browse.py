"""`optimist list`, `show`, `open`: look at the experiments of a service."""

from __future__ import annotations

import json
import time
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from optimist.commands.shared import DEFAULT_URL, AsJson, ExperimentName, Url, print_as, service
from optimist_client.display import MAX_LISTED, as_text, standings
from optimist_client.layout import Page, Table
from optimist_client.models import Report, Summary
from optimist_client.models.decisions import format_score
from optimist_client.progress import Line

if TYPE_CHECKING:
    from optimist_client import Experiment


def list_(
    tag: Annotated[str | None, typer.Option(help="Only experiments with this tag.")] = None,
    search: Annotated[str | None, typer.Option(help="A text in the name, a generator, a tag or the note.")] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List the experiments of a service, newest first.

    Example: optimist list --tag nightly
    """
    with service(url) as optimist:
        summaries = [listed.info for listed in optimist.list_experiments(tag=tag, search=search)]
    print_as([summary.model_dump(mode="json") for summary in summaries], [overview(summaries)], as_json=as_json)


def overview(experiments: Sequence[Summary]) -> Table:
    """The table of experiments."""
    return Table(
        ("experiment", "state", "best", "metric", "score", "samples", "tags"),
        [_row(summary) for summary in experiments],
        left=("state", "best", "metric", "tags"),
        first_to_go=("tags", "metric", "samples", "score", "best"),
    )


def _row(summary: Summary) -> tuple[str, ...]:
    decision, named = summary.decision, summary.leader
    score = (
        ""
        if summary.score is None
        else format_score(summary.score, summary.standard_error, below_noise=summary.below_noise)
    )
    if named and not decision.decided:
        named += " leads" if decision.weights or not summary.leader_is else f" {summary.leader_is}"
    elif not decision.weights:  # the confidence of a mixture is that it is better than one generator
        named = f"{named} {decision.confidence_text}".rstrip()
    state = f"{summary.state_text} ({summary.unscored})" if summary.unscored else summary.state_text
    return summary.name, state, named, summary.title, score, f"{summary.samples:,}", ", ".join(summary.tags)


def show(
    experiment: ExperimentName,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show it anew every second until it has ended; without a terminal, once it has."),
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the standings and the answer of an experiment.

    Example: optimist show digits --watch
    """
    console = Console()
    with service(url) as optimist:
        opened = optimist.experiment(experiment)
        report = _watched(opened, console) if watch else opened.report()
        page = opened.url
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, allow_nan=False))
        return
    console.print(as_text(report), soft_wrap=True)
    if console.is_terminal:
        console.print(Text(page, "dim"), soft_wrap=True)


def _watched(experiment: Experiment, console: Console, seconds: float = 1.0) -> Report:
    """The last report, once the experiment has ended; until then a terminal shows each."""
    report = experiment.report()
    live = Live(_shown(report), console=console, auto_refresh=False, transient=True)
    line = Line(experiment.name, report.budget)
    with live if console.is_terminal else nullcontext():
        while not (report.ended and report.scored):
            time.sleep(seconds)
            report = experiment.report()
            if console.is_terminal:
                live.update(_shown(report), refresh=True)
            else:
                line.update(report.samples, report.decision)
    return report


def _shown(report: Report) -> Page:
    return Page([standings(report, MAX_LISTED), *report.sentences])


def open_(experiment: ExperimentName, url: Url = DEFAULT_URL) -> None:
    """Open the page of an experiment in the browser, and print its address.

    Example: optimist open digits
    """
    with service(url) as optimist:
        page = optimist.experiment(experiment).url
    typer.echo(page)
    webbrowser.open(page)
