"""`optimist evaluate`: which language model is the best one for these prompts?"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimist.commands.shared import AsJson, embedded, extras, format_errors, note, output, print_as, service
from optimist_client.chat.calls import text_of

if TYPE_CHECKING:
    from optimist.evaluating.play import EvaluationResult, Job
    from optimist.evaluating.told import RoutingGain

DEFAULT = Path("eval.yaml")


def evaluate(
    file: Annotated[Path, typer.Argument(help="The file with models, prompts and score (YAML).")] = DEFAULT,
    url: Annotated[
        str | None, typer.Option("--service", help="Work for an experiment of this service, with any number of others.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="With --service: the experiment's name; by default the file's.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Folder of answers and costs; by default the file's name and .answers.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask again what was refused before, or not answered in time.")
    ] = False,
    route: Annotated[
        bool, typer.Option("--route", help="Also say what sending each prompt to the right model would gain.")
    ] = False,
    page: Annotated[
        Path | None,
        output("Write a page with the answer, and answers side by side where models differ most.", ending=".html"),
    ] = None,
    records: Annotated[
        Path | None, output("Write each answer, with its score, reasons and costs, as a line.", ending=".jsonl")
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented file to begin with, and ask nothing.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the file, for editors.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Compare canned models, which are served on this machine.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which language model is best for your prompts, asking only as many of them as that needs.

    With good_enough or limits in the file: which is the cheapest one that is good enough. A command that was
    interrupted or killed goes on where it was when it is given again; what was answered is never paid twice.

    Example: optimist evaluate eval.yaml
    """
    with extras("scoring"):
        from optimist.evaluating import examples
        from optimist.evaluating.play import Job
        from optimist.evaluating.routing import routed
        from optimist.evaluating.spec import EvaluationPlan
        from optimist.evaluating.told import shown, to_dict
    if schema:
        typer.echo(json.dumps(EvaluationPlan.model_json_schema(), indent=2))
        return
    if route and url is not None:
        raise typer.BadParameter("--route: not with --service, as no worker has the answers of all")
    with format_errors(ValueError, OSError, sqlite3.Error), ExitStack() as stack:
        if init:
            for written in examples.write_template(file):
                typer.echo(f"{written}")
            return
        if demo:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="optimist-demo-"))
            file, server = stack.enter_context(examples.demo(Path(folder)))
            note(f"Comparing five canned models, which {server.url} serves; about a minute, and nothing is kept.")
        warnings.filterwarnings("ignore", "batch .* is ", UserWarning)  # the answer says it
        job = Job(file)
        # Before anything is paid for: whoever lacks the embedder is told so at once.
        contexts = embedded([text_of(question.prompt) for question in job.questions.values()]) if route else None
        result = _result_of(job, url, name, answers, again)
        routing = None if contexts is None else routed(result, contexts)
        print_as(to_dict(result, routing), shown(result, routing).parts, as_json=as_json)
        _write(result, routing, page, records)


def _result_of(job: Job, url: str | None, name: str | None, answers: Path | None, again: bool) -> EvaluationResult:
    try:
        if url is None:
            return job.run(answers, again=again)
        with service(url) as optimist:
            return job.serve(optimist, name, answers, again=again)
    except KeyboardInterrupt:
        note("Interrupted. The same command goes on from here.")
        raise typer.Exit(130) from None


def _write(result: EvaluationResult, routing: RoutingGain, page: Path | None, records: Path | None) -> None:
    from optimist.evaluating.page import page_of
    from optimist.evaluating.told import records_of

    if page is not None:
        page.write_text(page_of(result, routing), encoding="utf-8")
    if records is not None:
        with records.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records_of(result))
