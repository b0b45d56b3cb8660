"""`optimist export`, `import`, `annotate`, `delete`, `anomalies`, `retract`, `accept`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.shared import DEFAULT_URL, AsJson, ExperimentName, Url, in_utc, print_as, service
from optimist_client.layout import Table
from optimist_client.models import AnomalousBatch


def export_experiment(
    experiment: ExperimentName,
    file: Annotated[Path, typer.Argument(help="The file to write. An existing file is overwritten.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Export an experiment to FILE.

    The service must be running, and the experiment continues meanwhile.

    Example: optimist export digits digits.zip
    """
    with service(url) as optimist:
        optimist.experiment(experiment).export(file)
    typer.echo(f"{experiment}: {file.stat().st_size:,} bytes in {file}")


def import_experiment(
    file: Annotated[Path, typer.Argument(help="A file written by `optimist export`.")],
    name: Annotated[str | None, typer.Option(help="Name of the new experiment; by default its old name.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Import an experiment from FILE.

    The service must be running. The new experiment continues from the exported state.

    Example: optimist import digits.zip --name digits-again
    """
    with service(url) as optimist:
        experiment = optimist.import_experiment(file, name)
        report = experiment.report()
    typer.echo(f"{experiment.name}: {report.samples:,} samples, {report.state_text}")


def records(
    experiment: ExperimentName,
    generator: Annotated[str | None, typer.Option(help="Only batches of this generator.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the record of each sample, as JSON lines: prompts, answers, reasons, and whatever `tell(records=…)` had.

    Of an experiment without `keep_log` only the newest batches are there.

    Example: optimist records digits --generator small
    """
    with service(url) as optimist:
        for record in optimist.experiment(experiment).records(generator):
            typer.echo(record.model_dump_json())


def delete(
    experiment: ExperimentName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete an experiment with all its data. This cannot be undone.

    Example: optimist delete digits --yes
    """
    with service(url) as optimist:
        samples = optimist.experiment(experiment).report().samples
        if not yes:
            typer.confirm(f"Delete {experiment!r} with its {samples:,} samples?", abort=True, err=True)
        optimist.delete_experiment(experiment)
    typer.echo(f"{experiment} is deleted")


def annotate(
    experiment: ExperimentName,
    tag: Annotated[list[str] | None, typer.Option(help="A tag, in place of the tags that it has.")] = None,
    note: Annotated[str | None, typer.Option(help="The note, in place of the one that it has.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Replace the tags or the note of an experiment, by which people find it. `--tag ""` removes all tags.

    Example: optimist annotate digits --tag nightly --note "new decoder"
    """
    if tag is None and note is None:
        raise typer.BadParameter("expected --tag or --note")
    with service(url) as optimist:
        tags = None if tag is None else [text for text in tag if text]
        report = optimist.experiment(experiment).annotate(tags=tags, note=note)
    typer.echo(f"{experiment}: tags {', '.join(report.tags) or 'none'}; note: {report.note or 'none'}")


PickNumber = Annotated[
    int | None,
    typer.Option(help="Number of the pick that the batch answers (`optimist help words`)."),
]
OfGenerator = Annotated[str | None, typer.Option(help="The generator whose batch, or batches, it is.")]
LogPosition = Annotated[
    int | None, typer.Option(help="Position of the batch in the generator's log; without it, all its batches.")
]
Until = Annotated[
    int | None,
    typer.Option(help="Only the generator's batches up to this position: where a router's model has changed since."),
]
ReasonOption = Annotated[str, typer.Option(help="Why; it stays on record.")]


def anomalies(experiment: ExperimentName, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List the anomalous batches of an experiment.

    They repeat earlier batches, or are on another scale than others. They count until they are retracted. Below them
    are the generators of a router whose answers have changed.

    Example: optimist anomalies digits
    """
    with service(url) as optimist:
        opened = optimist.experiment(experiment)
        batches, standings = opened.anomalies(), [] if as_json else opened.report().standings
    changed = [f"{row.generator}: {row.change.text}" for row in standings if row.change is not None]
    print_as([anomaly.model_dump() for anomaly in batches], [anomalous(batches), *changed], as_json=as_json)


def anomalous(batches: Sequence[AnomalousBatch]) -> Table:
    """The table of anomalous batches."""
    rows: list[tuple[str, ...]] = []
    for batch in batches:
        findings = "; ".join([*batch.findings, *["retracted"] * batch.retracted])
        cells = (batch.generator, batch.position, batch.pick, batch.samples, in_utc(batch.told), findings)
        rows.append(tuple("" if cell is None else f"{cell}" for cell in cells))
    head = ("generator", "position", "pick", "samples", "received (UTC)", "what is anomalous")
    return Table(head, rows, first_to_go=("received (UTC)", "samples", "pick"), sentences="what is anomalous")


def retract(
    experiment: ExperimentName,
    pick: PickNumber = None,
    generator: OfGenerator = None,
    position: LogPosition = None,
    until: Until = None,
    reason: ReasonOption = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before all batches of a generator go.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Retract a batch that should not count, or all batches of a generator.

    Scores and decision are made again without it. Its samples stay in the budget. This cannot be undone.

    Example: optimist retract digits --pick 7 --reason "wrong scale"
    """
    if generator is not None and position is None and not yes:
        up_to = "" if until is None else f" up to {until:,}"
        typer.confirm(f"Retract all batches of {generator!r}{up_to}?", abort=True, err=True)
    with service(url) as optimist:
        reply = optimist.experiment(experiment).retract(
            pick=pick, generator=generator, position=position, until=until, reason=reason
        )
    if as_json:
        typer.echo(reply.model_dump_json(indent=2))
        return
    for batch in reply.retracted:
        when = "retracted before" if reply.already else "retracted"
        typer.echo(f"{when}: {batch.which} of {batch.generator}, {batch.samples:,} samples")
    if not reply.retracted:
        typer.echo(f"{generator} has no batches")
    if reply.decision_reopened and not reply.already:
        typer.echo("the decision rested on it and is reopened")


def accept(
    experiment: ExperimentName,
    pick: PickNumber = None,
    generator: OfGenerator = None,
    position: LogPosition = None,
    reason: ReasonOption = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before all batches of a generator.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Accept a batch on another scale than others as it is, or all batches of a generator so far.

    A decision that rests on it is then no longer provisional.

    Example: optimist accept digits --pick 7 --reason "as intended"
    """
    if generator is not None and position is None and not yes:
        typer.confirm(f"Accept all batches of {generator!r}?", abort=True, err=True)
    with service(url) as optimist:
        reply = optimist.experiment(experiment).accept(pick=pick, generator=generator, position=position, reason=reason)
    if as_json:
        typer.echo(reply.model_dump_json(indent=2))
        return
    accepted = reply.accepted
    when = "accepted before" if reply.already else "accepted"
    whole = f"all batches of {accepted.generator} up to {accepted.until:,}"
    typer.echo(
        f"{when}: {whole if accepted.position is None else f'batch {accepted.position:,} of {accepted.generator}'}"
    )
