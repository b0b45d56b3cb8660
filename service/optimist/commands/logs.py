"""Logs of harnesses in `optimist contrast`: their options, and what is printed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimist.commands.shared import METRIC, extras, output, print_as
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from optimist.datasets.logs.rows import Log
    from optimist.leaderboards.board import Spec
    from optimist.leaderboards.strata import Of

MetricOfLogs = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help=f"{METRIC} By default mean of tables where there is no --reference, and else fid. Of logs: the names of "
        "their metrics, of which each task counts by the first that it has; by default its first one.",
    ),
]
Filter = Annotated[
    str | None, typer.Option("--filter", help="Of logs: the filter whose scores count, where a task has several.")
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", help="Of logs: the model that others are compared with, not the best one.")
]
Micro = Annotated[bool, typer.Option("--micro", help="Of logs: all questions count alike, instead of all tasks.")]
Pass = Annotated[
    int | None, typer.Option("--pass", min=1, help="Of logs: pass@k, that one of k answers to a question is right.")
]
All = Annotated[
    int | None, typer.Option("--all", min=1, help="Of logs: pass^k, that all of k answers to a question are right.")
]
Plot = Annotated[Path | None, output("Of logs: write a picture (.png, .svg or .pdf).", "--plot")]
PageFile = Annotated[
    Path | None, output("Of logs: write a page (.html) with the questions on which models differ most.", "--page")
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Of logs: print a row for each model and task, and nothing else.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Of logs: print a table in Markdown, and nothing else.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="Of logs: print a table in LaTeX, and nothing else.")]


@dataclass(frozen=True)
class OutputForm:
    """The choice of logs to show, and where."""

    as_json: bool = False
    as_csv: bool = False
    as_markdown: bool = False
    as_latex: bool = False
    plot: Path | None = None
    page: Path | None = None
    every: bool = False
    """True: a column for each task, however many."""

    @property
    def is_given(self) -> bool:
        """True where an option was given that only logs have."""
        return self.as_csv or self.as_markdown or self.as_latex or self.plot is not None or self.page is not None

    def check(self) -> None:
        """Raise FixError for two kinds of output."""
        if sum((self.as_json, self.as_csv, self.as_markdown, self.as_latex)) > 1:
            raise FixError("expected one of --json, --csv, --markdown and --latex")


def several(of_pass: int | None, of_all: int | None) -> tuple[Of, int] | None:
    """The part of the scores that --pass or --all asks for. Raises FixError for both."""
    if of_pass is not None and of_all is not None:
        raise FixError("expected one of --pass and --all")
    if of_pass is not None:
        return "pass", of_pass
    return None if of_all is None else ("all", of_all)


def contrast_logs(
    logs: Sequence[Log], asked: Spec, shown: OutputForm, begun: Callable[[str], None]
) -> Callable[[], None]:
    """The printer of the comparison, once progress is no longer shown. Raises FixError."""
    from optimist.datasets.logs.reading import answers_in, named
    from optimist.leaderboards import texts
    from optimist.leaderboards.board import board_of

    answers = named(answers_in(logs, begun))
    board = board_of(answers, asked)
    if shown.plot is not None:
        with extras("notebook"):
            from optimist.leaderboards.figure import draw
        draw(board, shown.plot)
    if shown.page is not None:
        from optimist.leaderboards.page import page_of

        shown.page.write_text(page_of(board, answers), encoding="utf-8")

    def show() -> None:
        if shown.as_csv:
            typer.echo(texts.as_csv(board), nl=False)
        elif shown.as_markdown or shown.as_latex:
            typer.echo(texts.markdown(board) if shown.as_markdown else texts.latex(board))
        else:
            every = shown.every
            tables = (part for table in texts.tables(board, every=every) for part in (table, ""))
            parts = [*tables, *texts.notes(board, every=every), texts.sentence(board)]
            print_as(texts.as_dict(board), parts, as_json=shown.as_json)

    return show
