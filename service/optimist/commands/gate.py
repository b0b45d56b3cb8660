"""`optimist gate`: is a candidate at least as good as the baseline, but for a margin?"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from optimist.commands.options import takes
from optimist.commands.score import progress
from optimist.commands.shared import (
    DEFAULT_URL,
    METRIC,
    AsJson,
    DeviceName,
    OnPrompts,
    ReferenceFile,
    ReferenceSamples,
    Url,
    extras,
    format_errors,
    metrics_of,
    note,
    print_page,
    real_data,
    service,
    settings_of,
    usual_metric,
)
from optimist.commands.usage import WRONG_USE, Command
from optimist_client.margins import parsed
from optimist_client.models import Gate
from optimist_client.rows import NO_FIELDS, Fields

FAILED = 3
"""The exit code where there is no answer: of wrong use, and of files that cannot be read."""


class GateCommand(Command):
    """A command whose wrong use does not end with a code that stands for an answer."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*args, **extra)
        except WRONG_USE as error:
            error.exit_code = FAILED
            raise


@contextmanager
def _failing() -> Generator[None]:
    """Errors within end the command with `FAILED`."""
    try:
        yield
    except WRONG_USE as error:
        error.exit_code = FAILED
        raise
    except typer.Exit:
        raise typer.Exit(FAILED) from None


def _file_of(text: str) -> tuple[Path, str]:
    """The file or folder of FILE or FILE:NAME, and the name."""
    file, _, name = text.rpartition(":")
    return (Path(text), "") if Path(text).exists() or not file else (Path(file), name)


def _print(answer: Gate, markdown: bool, junit: Path | None, as_json: bool) -> None:
    """Print the answer in the form that is asked for, and write the file."""
    if junit is not None:
        with format_errors(OSError):
            junit.write_text(answer.junit(), encoding="utf-8")
    if as_json or markdown:
        typer.echo(answer.model_dump_json(indent=2) if as_json else answer.markdown())
    else:
        print_page(answer.text)
        for warning in answer.warnings:
            note(f"Warning: {warning}.")


@takes(Fields, "field", "id", "by", "where", "cluster", "missing", into="fields")
def gate(
    candidate: Annotated[
        str,
        typer.Argument(
            help="Samples of the candidate, as for `optimist contrast`: a file or folder of one generator, or "
            "FILE:NAME, one of several in a file. With --experiment the name of a generator."
        ),
    ],
    baseline: Annotated[str, typer.Argument(help="Samples of the baseline, in the same forms.")],
    margin: Annotated[
        list[str],
        typer.Option(
            help="By how much the candidate may be worse: a difference, or a share of the baseline's score as 1%; of "
            "one of several metrics as LABEL=1%."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{METRIC} All margins are to be met. By default mean of tables where "
            "there is no --reference, and else fid."
        ),
    ] = None,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired", help="Row i of both has the same seed or prompt, or in tables the row of the same id."
        ),
    ] = False,
    experiment: Annotated[str | None, typer.Option(help="Ask about this experiment of a service instead.")] = None,
    url: Url = DEFAULT_URL,
    reference: ReferenceFile = None,
    reference_samples: ReferenceSamples = None,
    delta: Annotated[
        float, typer.Option(help="δ: the risk of a yes for a candidate that is too bad, and of a no for a good one.")
    ] = 0.05,
    fields: Fields = NO_FIELDS,
    prompts_are: OnPrompts = "sample",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull request instead of one line.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")] = None,
    device: DeviceName = None,
    as_json: AsJson = False,
) -> None:
    """Say whether CANDIDATE is at least as good as BASELINE, but for a margin.

    The exit code is 0 for yes, 1 for no and 2 where it is open; 3 after an error.

    Files need no service. They are looked at once: to ask again when they have grown raises the risk.

    Example: optimist gate new.jsonl old.jsonl --margin 1% --id question_id
    """
    with _failing():
        if experiment is not None:
            with service(url) as optimist:
                of = optimist.experiment(experiment)
                margins = parsed(margin, [of.info.config.metric.shown_label])
                answer = of.gate(candidate, baseline, margins)
        else:
            chosen = [_file_of(text) for text in (candidate, baseline)]
            settings = settings_of(device=device)
            with extras("server,scoring"):
                from optimist.local.contrast import question_on
                from optimist.local.gate import gate_on_sets, named_sets
                from optimist.local.offline import wanted_by
            with format_errors(ValueError, OSError), progress() as begun:
                is_paired = paired or fields.id is not None
                real = real_data(reference, reference_samples, is_paired=is_paired)
                declared = metrics_of(metric or [usual_metric(None, [file for file, _ in chosen], reference)], real)
                questions = [question_on(each, is_paired, delta, settings.device, prompts_are) for each in declared]
                margins = parsed(margin, [each.shown_label for each in declared])
                sets = named_sets(chosen, wanted_by(questions, reference, fields), is_paired)
                answer = gate_on_sets(sets, questions, margins, begun)
        _print(answer, markdown, junit, as_json)
    raise typer.Exit(answer.exit_code)


app = typer.Typer(add_completion=False)
app.command(cls=GateCommand)(gate)
