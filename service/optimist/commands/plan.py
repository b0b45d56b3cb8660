"""`optimist plan`: how many questions a comparison of models needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.logs import Filter, Micro
from optimist.commands.options import takes
from optimist.commands.shared import AsJson, extras, format_errors, print_as
from optimist_client.layout import Table
from optimist_client.rows import NO_FIELDS, Fields


@takes(Fields, "id", "cluster", into="fields")
def plan(
    logs: Annotated[
        list[Path], typer.Argument(help="Logs of a pilot of two or more models, as for `optimist contrast`.")
    ],
    difference: Annotated[float, typer.Option(help="The smallest difference of two models that is to be found.")],
    delta: Annotated[float, typer.Option(help="δ: the chance of calling equal models different.")] = 0.05,
    power: Annotated[float, typer.Option(help="The chance of telling a difference that is there.")] = 0.8,
    metric: Annotated[str | None, typer.Option("--metric", help="The metric; by default the first one.")] = None,
    filter: Filter = None,
    micro: Micro = False,
    fields: Fields = NO_FIELDS,
    as_json: AsJson = False,
) -> None:
    """Say how many questions it takes to tell models apart, from how the answers of a pilot vary. Needs no service.

    Example: optimist plan logs/ --difference 0.02
    """
    with extras("server"), format_errors(ValueError, OSError):
        from optimist.datasets.logs.reading import answers_in, logs_in, named
        from optimist.leaderboards.board import Spec
        from optimist.leaderboards.planning import plan_of

        answers = named(answers_in(logs_in(logs, fields, with_tables=True)))
        asked = Spec((*(metric or "").split(","),) if metric else (), filter, micro=micro, delta=delta)
        needed = plan_of(answers, asked, difference, power)
    head = ("models", "pilot", "questions", "unpaired", "with many epochs")
    rows = [
        (
            " and ".join(need.models),
            *(f"{count:,}" for count in (need.pilot, need.questions, need.unpaired)),
            "" if need.least is None else f"{need.least:,}",
        )
        for need in needed.needs
    ]
    table = Table(head, rows, first_to_go=("with many epochs", "unpaired"))
    print_as(asdict(needed), [table, needed.sentence], as_json=as_json)
