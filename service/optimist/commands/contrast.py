"""`optimist contrast`: the differences of files of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.logs import (
    All,
    AsCsv,
    AsLatex,
    AsMarkdown,
    Baseline,
    Filter,
    MetricOfLogs,
    Micro,
    OutputForm,
    PageFile,
    Pass,
    Plot,
    contrast_logs,
    several,
)
from optimist.commands.options import takes
from optimist.commands.score import progress
from optimist.commands.shared import (
    AsJson,
    Costs,
    DeviceName,
    LimitTexts,
    OnPrompts,
    ReferenceFile,
    ReferenceSamples,
    console,
    extras,
    format_errors,
    limits_of,
    metrics_of,
    numbers_of,
    print_as,
    real_data,
    settings_of,
    usual_metric,
)
from optimist_client.errors import FixError
from optimist_client.limits import Limit
from optimist_client.rows import NO_FIELDS, Fields
from optimist_client.tolerance import parsed


@takes(Fields, "field", "id", "by", "where", "cluster", "missing", "labels", "doubt", into="fields")
def contrast(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Samples of two or more generators, as for `optimist score`; or logs of lm-eval, inspect_ai and "
            "promptfoo, and tables with a field task, of two or more models, also folders of them."
        ),
    ],
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Row i of every generator has the same seed or prompt, or in tables the row of the same id (--id, "
            "which implies this); the files may differ in length.",
        ),
    ] = False,
    metric: MetricOfLogs = None,
    filter: Filter = None,
    baseline: Baseline = None,
    micro: Micro = False,
    of_pass: Pass = None,
    of_all: All = None,
    reference: ReferenceFile = None,
    reference_samples: ReferenceSamples = None,
    delta: Annotated[float, typer.Option(help="δ: each interval covers 1 − δ by itself.")] = 0.05,
    every: Annotated[
        bool,
        typer.Option(
            "--every", help="Print all differences of more than six generators, and all of more than six tasks."
        ),
    ] = False,
    fields: Fields = NO_FIELDS,
    next: Annotated[
        int | None, typer.Option(help="Print the ids of so many rows to label next, and nothing else.", min=1)
    ] = None,
    prompts_are: OnPrompts = "sample",
    good_enough: Annotated[
        str | None,
        typer.Option(help="How much worse than the best a good generator may be: 0.02 or 2%; with --costs."),
    ] = None,
    limit: LimitTexts = None,
    costs: Costs = None,
    device: DeviceName = None,
    plot: Plot = None,
    page: PageFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Compare FILES with each other: their scores, and each difference with an interval of its own.

    With --paired, what the samples have in common by their seeds or prompts does not count as chance. With
    --good-enough or --limit it says which generators meet these, and with --costs which is the cheapest of them. Logs
    are paired by their questions: a table has models by tasks, and says how many more questions would tell two models
    apart. This needs no service.

    Example: optimist contrast old.jsonl new.jsonl --id question_id
    """
    shown = OutputForm(as_json, as_csv, as_markdown, as_latex, plot, page, every)
    with extras("server"), format_errors(ValueError, OSError), progress() as begun:
        from optimist.datasets.logs.reading import logs_in
        from optimist.leaderboards.board import Spec

        shown.check()
        if fields.labels is None and (fields.doubt is not None or next is not None):
            raise FixError("--doubt and --next: expected --labels, the field of what people say")
        if fields.doubt is not None and fields.field is None:
            raise FixError("--doubt: expected --field, the field of the judge's scores")
        metrics = (*(metric or "").split(","),) if metric else ()
        asked = Spec(metrics, filter, baseline, micro, prompts_are, delta, several(of_pass, of_all))
        is_asked = shown.is_given or asked != Spec(metrics, kind=prompts_are, delta=delta)
        logs = [] if reference is not None else logs_in(files, fields, with_tables=is_asked)
        if logs and (good_enough is not None or limit or costs is not None):
            raise FixError("--good-enough, --limit and --costs: expected samples or scores, found logs")
        show = contrast_logs(logs, asked, shown, begun) if logs else None
    if show is not None:
        show()
        return
    settings = settings_of(device=device)
    with extras("server,scoring"):
        from optimist.datasets.sets import sets_in
        from optimist.local.contrast import (
            audited_by,
            contrast_of_sets,
            limits_named,
            question_on,
            rows_to_label,
        )
        from optimist.local.offline import wanted_by
    with format_errors(ValueError), progress() as begun:
        is_paired = paired or fields.id is not None
        real = real_data(reference, reference_samples, is_paired=is_paired)
        (declared,) = metrics_of([usual_metric(metric, files, reference)], real)
        declared = declared if fields.labels is None else audited_by(declared, fields)
        question = question_on(declared, is_paired, delta, settings.device, prompts_are)
        wanted = wanted_by([question], reference, fields)
        wants = [Limit("best", parsed(good_enough))] if good_enough is not None else []
        wants += [Limit.of(text, "--limit: ") for text in limits_named(limits_of(limit), declared)]
        priced = {} if costs is None else numbers_of("--costs", costs)
        sets = sets_in(files, wanted, question.is_paired)
        if next is not None:
            rows, (labelled, count) = rows_to_label(sets, question, next)
            console.print(f"{labelled:,} of {count:,} rows have labels of all generators; to label next:", markup=False)
            typer.echo("\n".join(rows))
            return
        comparison = contrast_of_sets(sets, question, begun, wants, priced)
    print_as(comparison.to_dict(), comparison.page(every).parts, as_json=as_json)
