"""`optimist route`: what the right generator for each prompt would gain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimist.commands.logs import Filter
from optimist.commands.options import takes
from optimist.commands.shared import AsJson, embedded, extras, format_errors, print_as
from optimist_client.config import ExperimentConfig
from optimist_client.layout import Table
from optimist_client.rows import NO_FIELDS, Fields

if TYPE_CHECKING:
    from optimist.routing.gain.reports import RouteReport


@takes(Fields, "field", "id", "prompt", "cost", into="fields")
@takes(ExperimentConfig, "price", "ceiling", "at_least")
def route(
    log: Annotated[
        list[Path],
        typer.Argument(
            help="A .jsonl or .csv file of a row for each prompt and generator, or one file for each generator: with a "
            "score, the prompt or its context, a list of numbers, and perhaps generator, id, cost and probability. Or "
            "an .npz file with contexts (m, d), the prompts' embeddings, and scores (m, G) of G generators, NaN where "
            "there is none; or generator, score and probability (m,) of a log. Optional: names, costs, prompts. Or "
            "logs of harnesses, as for `optimist contrast`, whose prompts are embedded."
        ),
    ],
    settings: dict[str, Any] | None = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Of logs: the metric; by default the first one.")
    ] = None,
    filter: Filter = None,
    fields: Fields = NO_FIELDS,
    frequencies: Annotated[int, typer.Option(min=2, help="Random features of the contexts, an even number.")] = 256,
    types: Annotated[int, typer.Option(min=1, max=20, help="The largest number of types of prompt to show.")] = 6,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the features, and of the parts of the cross-fitting.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say what routing each prompt to the right generator would gain over the best single one.

    Each prompt is routed by what was learned from other prompts, so that the gain is not flattered. This needs no
    service.

    Example: optimist route answers.jsonl --ceiling 0.01
    """
    with extras("server,scoring"):
        from optimist.datasets.logs.reading import answers_in, logs_in, named
        from optimist.leaderboards.questions import arrays_of
        from optimist.leaderboards.strata import strata_of
        from optimist.routing.gain.reports import route_arrays, route_file
    how = {**(settings or {}), "features": frequencies, "types": types, "seed": seed}
    with format_errors(ValueError):
        logs = logs_in(log, fields) if log[0].suffix != ".npz" else []
        if logs:
            answers = named(answers_in(logs))
            strata = strata_of(answers, None if metric is None else metric.split(","), filter)
            report = route_arrays(arrays_of(answers, strata, embedded), log[0], **how)
        else:
            report = route_file(*log, fields=fields, embed=embedded, **how)
    is_priced = bool((settings or {}).keys() & {"ceiling", "at_least"})
    print_as(report.to_dict(), _parts(report, is_priced=is_priced), as_json=as_json)


def _parts(report: RouteReport, *, is_priced: bool) -> Iterator[Table | str]:
    """The parts of a page that shows a report. is_priced: true if a price was found that keeps a budget."""
    yield report.sentence
    for table in report.tables:
        yield from ("", table)
    yield ""
    yield from report.notes
    if report.gain.cost is not None:
        spent = (
            f"Mean cost of a prompt: {report.gain.cost:.3g} routed, {report.gain.single_cost:.3g} by the best alone."
        )
        if is_priced:
            spent += f" To keep the budget, a unit of cost counts as {report.gain.price:.3g} of the score."
        yield spent
