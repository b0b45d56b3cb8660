"""`optimist score`: the scores of files of samples."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimist.commands.options import takes
from optimist.commands.shared import (
    BOUNDS,
    AsJson,
    DeviceName,
    MetricOfFiles,
    OnPrompts,
    ReferenceFile,
    Watch,
    extras,
    format_errors,
    metrics_of,
    print_as,
    real_data,
    settings_of,
    usual_metric,
)
from optimist_client.config import BoundName
from optimist_client.errors import FixError
from optimist_client.layout import Table
from optimist_client.mixture_display import as_text
from optimist_client.models.basis import merged
from optimist_client.models.decisions import BELOW_NOISE_NOTE, format_score
from optimist_client.progress import counted
from optimist_client.rows import NO_FIELDS, Fields

if TYPE_CHECKING:
    from optimist.estimates.estimate import Estimate
    from optimist.local.offline import FileScore


@takes(Fields, "field", "id", "by", "where", "cluster", "missing", into="fields")
def score(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Samples to score: .npy, .npz or .safetensors, each array (n, d) one generator's; or tables (.csv, "
            ".tsv, .jsonl, .json, .parquet) with a row for each sample, of one generator or of those that the field "
            "model names; for scores of pairs, files of one generator each with the arrays features and prompts. Or a "
            "folder with one file (or folder) per generator, as for `simulate --features`."
        ),
    ],
    metric: MetricOfFiles = None,
    watch: Watch = None,
    reference: ReferenceFile = None,
    bound: Annotated[BoundName, typer.Option(help=f"How intervals are made: one of {BOUNDS}.")] = "influence",
    delta: Annotated[float, typer.Option(help="δ: intervals cover 1 − δ.")] = 0.05,
    mixture: Annotated[
        bool,
        typer.Option("--mixture", help="The best mixture of the generators, too, and what it gains over the best one."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Take FILES, and all files of folders, as one generator's samples (.npy, .parquet, …), and read so "
            "many at a time. The score does not depend on how many.",
        ),
    ] = None,
    fields: Fields = NO_FIELDS,
    prompts_are: OnPrompts = "sample",
    device: DeviceName = None,
    as_json: AsJson = False,
) -> None:
    """Score FILES and print them best first. This needs no service. A scorer process is run by `optimist scorer`.

    Example: optimist score old.npy new.npy --reference real.npy
    """
    settings = settings_of(device=device)
    with extras("server,scoring"):
        from optimist.datasets.sets import sets_in
        from optimist.local.contrast import mixture_of_sets, question_on
        from optimist.local.offline import questions_by, score_files, score_set, wanted_by
    with format_errors(ValueError, RuntimeError), progress(jobs is None) as begun:
        primary, *further = metrics_of([usual_metric(metric, files, reference), *(watch or [])], real_data(reference))
        how: dict[str, Any] = {"delta": delta, "device": settings.device, "prompts_are": prompts_are}
        questions = questions_by(primary, further, bound=bound, **how)
        if jobs is None:
            rows = score_files(files, questions, beside=reference, begun=begun, fields=fields)
        elif mixture or fields != Fields() or prompts_are != "sample":
            raise FixError("--jobs: expected samples without choices of fields, clusters, prompts or a mixture")
        else:
            rows = [score_set(files, questions, beside=reference, jobs=jobs)]
        best = None
        if mixture:
            question = question_on(primary, **how)
            sets = sets_in(files, wanted_by([question], reference, fields), paired=False)
            best = mixture_of_sets(sets, question, begun)
    scores = [row.to_dict() for row in rows]
    parts = [*_scores(rows, f"{primary.title}, {100.0 * (1.0 - delta):.4g}% intervals by the bound {bound}")]
    if best is None:
        print_as(scores, parts, as_json=as_json)
    else:
        document = {"scores": scores, "mixture": best.model_dump(mode="json")}
        print_as(document, [*parts, "", *as_text(best).parts], as_json=as_json)


@contextmanager
def progress(wanted: bool = True) -> Generator[Callable[[str], None]]:
    """Shows which generator is being scored, and for how long; call it with each name before that is scored."""
    done = chain([0], repeat(1))
    with counted("scoring", None, " generators done", wanted=wanted) as step:
        yield lambda name: step(next(done), f"now {name}")


def _scores(rows: list[FileScore], title: str) -> Iterator[Table | str]:
    yield _estimates(title, {row.name: row.estimate for row in rows})
    for label in rows[0].watched:
        yield ""
        yield _estimates(label, {row.name: row.watched[label] for row in rows})
    # Below the table: sentences in a narrow column are hard to read.
    for field, sigma in rows[0].bandwidths.items():
        yield f"σ of the {field.replace('_', ' ')}: {sigma:.4g}."
    if any(row.estimate.is_below_noise for row in rows):
        yield BELOW_NOISE_NOTE
    yield merged(row.basis for row in rows if row.basis is not None).text
    for row in rows:
        yield from (f"{row.name}: {warning}" for warning in row.estimate.warnings)


def _estimates(title: str, estimates: Mapping[str, Estimate]) -> Table:
    from optimist.policies.reports import scores_and_intervals

    head = ("generator", "score", "interval", "plug-in", "samples")
    texts = scores_and_intervals(estimates.values())
    rows = [
        (name, *text, format_score(estimate.natural(estimate.plug_in), None), f"{estimate.samples:,}")
        for (name, estimate), text in zip(estimates.items(), texts, strict=True)
    ]
    return Table(head, rows, title=title, first_to_go=("plug-in", "samples"))
